"""``report``: a page about a model, and about what it says of data; llsvm/reporting/ makes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from llsvm.data import named_files, names_files
from llsvm.errors import BudgetError, UsageError
from llsvm.files.decoding import COMPRESSED_SUFFIXES
from llsvm.files.writing import STDOUT, refuse_overwriting, replacing, require_writable
from llsvm.models.model import Model, model_bytes
from llsvm.models.words import listed
from llsvm.predict import evaluate_with, take_model
from llsvm.reporting.overview import Subject
from llsvm.reporting.page import page
from llsvm.scoring.room import require_room
from llsvm.settings.python import make_callable, options_in, takes_options
from llsvm.settings.settings import Settings

__all__ = ["report"]

# Endings of names of other files than pages of HTML
_NO_PAGES = *COMPRESSED_SUFFIXES, ".zip", ".pdf", ".docx", ".xlsx", ".png", ".svg", ".json"
_THRESHOLDS = 10  # steps of recall in the table of them


@takes_options
def report(
    model: Model | str | os.PathLike[str],
    data: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    output: str | os.PathLike[str] | None = None,
    compare: Model | str | os.PathLike[str] | None = None,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    label: str | int | None = None,
    weight: str | int | None = None,
    where: str | None = None,
    format: Literal["svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"]
    | None = None,
    zero_based: Literal["auto", "yes", "no"] = "auto",
) -> str:
    """Return a page about a model: one file of HTML that asks for nothing else, with what it was trained on, what
    is proven of it, how the training went, and its strongest weights.

    model: a model, or the path of its file. data, y, sample_weight: as for ``evaluate``, whose figures the page has
    then, too, drawn; histograms count all rows the same. output: where to write the page, or None. compare: another
    model, to be shown beside it.

    Returns the page. Raises as ``evaluate``, and UsageError where ``output`` cannot be written.
    """
    weight = None if weight is None else str(weight)
    given = Settings(**options_in(locals()))
    return report_with(model, data, y, given, output, compare, sample_weight)


def report_with(
    model: Model | str | os.PathLike[str],
    data: Any,
    y: Any,
    given: Settings,
    output: str | os.PathLike[str] | None,
    compare: Model | str | os.PathLike[str] | None,
    sample_weight: Any = None,
) -> str:
    """Return the page that ``report`` returns, and write it to ``output``. given: the options of ``report``."""
    for name, one in (("y", y), ("sample_weight", sample_weight)):
        if data is None and one is not None:
            raise UsageError(f"{name} goes with data: pass them too")
    if output is not None and output != STDOUT:
        require_writable(output)
        refuse_overwriting(output, [*named_files(model), *named_files(compare), *named_files(data)])
        if os.fspath(output).lower().endswith(_NO_PAGES):
            raise UsageError(
                f"{os.fspath(output)}: the page is HTML, and the name says otherwise: name a file in .html"
            )
    models = {"the model": model} if compare is None else {"the model": model, "the other model": compare}
    rows = (data, y, sample_weight)
    text = page(*_subjects(models, rows, given))
    if output is not None:
        with replacing(output) as stream:
            stream.write(text.encode())
    return text


def _subjects(
    models: Mapping[str, Model | str | os.PathLike[str]], rows: tuple[Any, Any, Any], given: Settings
) -> list[Subject]:
    """Return what the page says of each model. models: by what they are called. rows: data, y and sample_weight.
    Raises BudgetError with the limit that is enough for all of them; each is held beside those before it."""
    subjects: list[Subject] = []
    refused: list[BudgetError] = []
    held_bytes = 0
    for name, model in models.items():
        model_size = 0 if isinstance(model, Model) else model_bytes(model).total
        try:
            subjects.append(_subject(name, model, rows, given, held_bytes))
        except BudgetError as error:
            refused.append(error)
        held_bytes += model_size
    if refused:
        raise max(refused, key=lambda error: error.smallest_bytes)
    return subjects


def _subject(
    name: str,
    model: Model | str | os.PathLike[str],
    rows: tuple[Any, Any, Any],
    given: Settings,
    held_bytes: int,
) -> Subject:
    """Return what the page says of a model. held_bytes: of the models that are in memory too."""
    data, y, sample_weight = rows
    if not isinstance(model, Model):
        name = os.path.basename(os.fspath(model))
    if data is None:
        if not isinstance(model, Model):
            require_room(model, given.memory_limit, held_bytes)
            model = Model.load(model)
        return Subject(name, model)
    taken = take_model(model, given, with_log=True, held_bytes=held_bytes)
    thresholds = _THRESHOLDS if len(taken.classes_) == 2 else 0
    answer = evaluate_with(taken, data, y, given, sample_weight, shapes=True, thresholds=thresholds)
    return Subject(name, taken, _name_of(data), answer)


def _name_of(data: Any) -> str:
    if not names_files(data):
        return "the data given"
    paths = [data] if isinstance(data, str | os.PathLike) else list(data)
    return listed([os.path.basename(os.fspath(path)) or os.fspath(path) for path in paths])


make_callable(__name__, report)
