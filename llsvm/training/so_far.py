"""SoFar: the weights that the last full pass has measured, for a model while the run goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.models.model import Model
from llsvm.solvers.report import Report, in_passes
from llsvm.training.outcome import checksum_of

_LOOKS, _LOOK_SECONDS = 5, 0.02


class SoFar:
    """They are the solver's own, which may change them at any time: a checksum tells."""

    def __init__(self) -> None:
        self._measured: tuple[Report, int] | None = None

    def note(self, report: Report) -> None:
        """Take in the report of a full pass."""
        if report.certificate is not None and report.coef is not None:
            self._measured = report, checksum_of(report.coef)

    def model(self, make: Callable[[Report, NDArray[np.float64]], Model]) -> Model | None:
        """That of the last pass, if need be in another thread; None: there is none yet, the solver has changed its
        weights since, or it takes a pass to make it. make: of a report and its weights."""
        for _ in range(_LOOKS):  # the solver may just be between better weights and its report of them
            if self._measured is None:
                return None
            report, checksum = self._measured
            if report.coef is None or report.expand is not None:
                return None
            model = make(report, report.coef)
            if checksum_of(report.coef) == checksum:
                return model
            time.sleep(_LOOK_SECONDS)
        return None


def saved(model: Model | None, path: str | os.PathLike[str]) -> str:
    """Save a model so far; returns what became of it, to go on a sentence with."""
    if model is None or model.certificate is None:
        return ", no model is written: no pass has been certified, or its weights are gone"
    model.save(path)
    return (
        f", and the model so far is written to {path}: after {in_passes(model.certificate.passes)} within "
        f"{model.certificate.relative_gap:.3%} of the optimum"
    )
