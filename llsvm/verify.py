"""``verify``: what a model's certificate says is worked out again; llsvm/verification/ does it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np

from llsvm.models.model import Model
from llsvm.scoring.room import load_model
from llsvm.settings.python import make_callable, options_in, takes_options
from llsvm.settings.settings import Settings
from llsvm.verification.claim import (
    Measured,
    dual_differences,
    gap_differences,
    gap_of,
    measure_objectives,
    not_checked,
    other_data,
    other_training,
    primal_differences,
    proven_dual,
    unfit,
)
from llsvm.verification.dual import KeptDual
from llsvm.verification.problems import Problems
from llsvm.verification.reading import Rows
from llsvm.verification.rows import rows_of, settings_of

__all__ = ["verify"]


@takes_options
def verify(
    model: Model | str | os.PathLike[str],
    data: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    state: str | os.PathLike[str] | None = None,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    label: str | int | None = None,
    format: Literal["svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"]
    | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Check what a model says of itself. Its primal objective is worked out again over the rows that it was trained
    on, in plain float64 NumPy, without any solver.

    model: a model with a certificate, or the path of its file. data, y, sample_weight: what it was trained on, as
    ``llsvm.train`` takes it. How data are read follows the model, but for what is given otherwise. state: the
    folder of the state that the training kept, or None: with it the dual is worked out again too, from the dual
    variables of all rows, where the method keeps these.

    Returns plain values, a dict: holds; differences (a sentence each); not_checked (a sentence, or ""); rows;
    primal, claimed_primal, dual, claimed_dual (sums over problems, None where they cannot be worked out for these
    data, or without dual variables); relative_gap (of what was found, and the dual claimed where none was) and
    claimed_gap; problems (a dict each: name, primal, claimed_primal, dual, claimed_dual). Raises ModelError where
    the model has no certificate, DataError, BudgetError, UsageError.
    """
    return verify_with(model, data, y, sample_weight, Settings(**options_in(locals())), state)


def verify_with(
    model: Model | str | os.PathLike[str],
    data: Any,
    y: Any,
    sample_weight: Any,
    given: Settings,
    state: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Return the answer of ``verify``. given: see ``settings_of``."""
    with ExitStack() as stack:
        saved_dual = None if state is None else stack.enter_context(KeptDual(Path(state)))
        if not isinstance(model, Model):
            model = load_model(model, given.memory_limit)
        settings, certificate = settings_of(model, given), model.certificate
        assert certificate is not None
        rows = stack.enter_context(rows_of(model, settings, data, y, sample_weight, saved_dual))
        dataset = rows.dataset
        differences = other_data(model, dataset, rows.source.info().fingerprints)
        figures: Measured | None = None
        fits = False
        if saved_dual is not None:
            others, fits = other_training(model, saved_dual, dataset, Problems.of(settings, dataset))
            differences += others
        usable = saved_dual if fits else None
        if no_figures := unfit(model, dataset, dataset.n_features):
            differences += no_figures
        else:
            figures, wrong = _compared(model, settings, rows, usable)
            # no model says as what its features were kept, and mostly filled rows
            if wrong and (settings.feature_map is not None or rows.scale_otherwise()):
                instead, fewer = _compared(model, settings, rows, usable, np.float64)
                if len(fewer) < len(wrong):
                    figures, wrong = instead, fewer
            differences += wrong
            differences += gap_differences(model, settings, figures)
    answer = {
        "holds": not differences,
        "differences": differences,
        "not_checked": not_checked(model, saved_dual, figures),
        "rows": dataset.n_rows,
        "primal": None,
        "claimed_primal": sum(certificate.primal),
        "dual": None,
        "claimed_dual": sum(certificate.dual),
        "relative_gap": None,
        "claimed_gap": gap_of(certificate),
        "problems": [],
    }
    if figures is not None:
        duals = proven_dual(certificate, figures)
        answer |= {
            "primal": float(figures.primal.sum()),
            "dual": None if duals is None else float(duals.sum()),
            "relative_gap": gap_of(certificate, figures.primal, duals),
        }
        given_duals = [None] * len(figures.primal) if duals is None else duals.tolist()
        names = ("name", "primal", "claimed_primal", "dual", "claimed_dual")
        each = (figures.problems, figures.primal.tolist(), certificate.primal, given_duals, certificate.dual)
        answer["problems"] = [dict(zip(names, values, strict=True)) for values in zip(*each, strict=False)]
    return answer


def _compared(
    model: Model,
    settings: Settings,
    rows: Rows,
    saved_dual: KeptDual | None,
    mapped_dtype: type[np.floating] = np.float32,
) -> tuple[Measured, list[str]]:
    """Measure the objectives again; return them, and a sentence for each difference from what the model says."""
    assert model.certificate is not None
    figures = measure_objectives(model, settings, rows, mapped_dtype, saved_dual)
    return figures, primal_differences(model.certificate, figures) + dual_differences(
        model.certificate, figures
    )


make_callable(__name__, verify)
