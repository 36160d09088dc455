"""``report``: a page about a model, and about what it says of data; llsvm/reporting/ makes it."""

from __future__ import annotations

import os
from typing import Any, Literal

from llsvm.data import names_files
from llsvm.errors import UsageError
from llsvm.files.writing import STDOUT, replacing, require_writable
from llsvm.models.model import Model
from llsvm.models.words import listed
from llsvm.predict import evaluated, options_of, take_model
from llsvm.process.modules import make_callable
from llsvm.reporting.page import page
from llsvm.reporting.subject import Subject
from llsvm.settings.python import takes_options
from llsvm.settings.settings import Settings

__all__ = ["report"]

_THRESHOLDS = 10  # steps of recall in the table of them


@takes_options
def report(
    model: Model | str | os.PathLike[str],
    data: Any = None,
    y: Any = None,
    *,
    output: str | os.PathLike[str] | None = None,
    compare: Model | str | os.PathLike[str] | None = None,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    label: str | int | None = None,
    format: Literal["svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"]
    | None = None,
    zero_based: Literal["auto", "yes", "no"] = "auto",
) -> str:
    """A page about a model: one file of HTML that asks for nothing else, with what it was trained on, what is
    proven of it, how the training went, and its strongest weights.

    model: a model, or the path of its file. data, y: as for ``evaluate``, whose figures the page then has too,
    drawn. output: where to write the page, or None. compare: another model, to be shown beside it.

    Returns the page. Raises as ``evaluate``, and UsageError where ``output`` cannot be written.
    """
    given = options_of(memory_limit, threads, label, format, zero_based)
    return reported(model, data, y, given, output, compare)


def reported(
    model: Model | str | os.PathLike[str],
    data: Any,
    y: Any,
    given: Settings,
    output: str | os.PathLike[str] | None,
    compare: Model | str | os.PathLike[str] | None,
) -> str:
    """As ``report``. given: its options."""
    if data is None and y is not None:
        raise UsageError("y goes with data: pass them too")
    if output not in (None, STDOUT):
        require_writable(output)
    told = {"the model": model} if compare is None else {"the model": model, "the other model": compare}
    text = page(*(_subject(name, each, data, y, given) for name, each in told.items()))
    if output is not None:
        with replacing(output) as stream:
            stream.write(text.encode())
    return text


def _subject(name: str, model: Model | str | os.PathLike[str], data: Any, y: Any, given: Settings) -> Subject:
    taken = take_model(model, given)
    if not isinstance(model, Model):
        name = os.path.basename(os.fspath(model))
    if data is None:
        return Subject(name, taken)
    return Subject(name, taken, _name_of(data), _evaluation(taken, data, y, given))


def _evaluation(model: Model, data: Any, y: Any, given: Settings) -> dict[str, Any]:
    thresholds = _THRESHOLDS if len(model.classes_) == 2 else 0
    return evaluated(model, data, y, given, shapes=True, thresholds=thresholds)


def _name_of(data: Any) -> str:
    if not names_files(data):
        return "the data given"
    paths = [data] if isinstance(data, str | os.PathLike) else list(data)
    return listed([os.path.basename(os.fspath(each)) or os.fspath(each) for each in paths])


make_callable(__name__, report)
