"""When values that are no 32-bit floats must be kept as 64-bit ones: rounding them would hide the optimum."""

from __future__ import annotations

from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError
from llsvm.objective.rounding import SHARE, ValuesRounded, keep_double
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.report import Report
from llsvm.stream.stream import Stream

MIN_TOL, MAX_C_PER_TOL = 1e-5, 1e6  # beyond, values are kept as 64-bit floats from the start


def rounding_hides_the_optimum(report: Report, settings: Settings, begins_again: bool) -> bool:
    """May what rounding has hidden be so much of the gap asked for that this run cannot prove it?

    begins_again: values are other than the source's, and the run can begin again with 64-bit ones; else there is no
    more to be had."""
    certificate = report.certificate
    if certificate is None or report.converged or settings.paper or settings.stop != "gap":
        return False
    part, tol = certificate.rounding_gap, settings.tol
    measured = certificate.relative_gap - part
    if not begins_again:
        return min(part, certificate.rounding_floor) >= tol >= measured
    # far from the optimum little is known of the dual's move: only what stays there counts until it is near
    most = SHARE * tol
    return certificate.rounding_floor > most or (part > most and measured <= tol)


def settings_need_double(settings: Settings) -> bool:
    """Is the tolerance so small, C so large, that rounding a file's values to 32-bit floats, 2^-24 of them, can
    hardly be left out of the proof? Kernel machines take the rows as they are: what is large is their kernel."""
    exact = settings.kernel is not None and settings.feature_map is None
    return exact or settings.tol < MIN_TOL or MAX_C_PER_TOL * settings.tol * (1 + 1e-9) < settings.C


def is_read(stream: Stream) -> bool:
    """Read the source; False where it must be read again with values as 64-bit floats, which can be. Raises
    BudgetError, DataError, DiskError."""
    try:
        dataset = stream.read()
    except ValuesRounded:
        trace_restart("the settings leave no room for rounding values to 32-bit floats")
        return False
    except DataError as error:
        if _too_large(stream):
            trace_restart("values are too large for 32-bit floats")
            return False
        if not stream.source.info().rereadable and _overflowed(stream):
            raise DataError(
                f"{error}; write the data to a file, which is read again as 64-bit floats"
            ) from error
        raise
    trace(
        "rows.read",
        rows=dataset.n_rows,
        features=dataset.n_features,
        values=dataset.nnz,
        place=stream.place,
        dtype=dataset.dtype,
        rounded=stream.rounded,
    )
    return True


def measured(stream: Stream) -> DatasetInfo:
    """As ``Stream.measure``, with values as 64-bit floats where 32-bit ones do not hold them."""
    try:
        return stream.measure()
    except DataError:
        if not _too_large(stream):
            raise
    keep_double(stream.source.info().rounding)
    return stream.measure()


def trace_restart(why: str, report: Report | None = None, tol: float = 0.0) -> None:
    """Say that values are read again as 64-bit floats. report: whose certificate asks for it."""
    certificate = None if report is None else report.certificate
    trace(
        "float64.restart",
        why=why,
        hidden_gap=certificate and max(certificate.rounding_floor, certificate.rounding_gap),
        allowed_gap=certificate and SHARE * tol,
    )


def _too_large(stream: Stream) -> bool:
    """Are values too large for 32-bit floats, and can they be read as 64-bit ones?"""
    return stream.source.info().rereadable and _overflowed(stream)


def _overflowed(stream: Stream) -> bool:
    return any(each.overflowed and not each.double for each in stream.source.info().rounding)
