"""When values that are no 32-bit floats must be kept as 64-bit ones: rounding them would hide the optimum."""

from __future__ import annotations

from llsvm.objective.rounding import SHARE
from llsvm.settings.settings import Settings
from llsvm.solvers.report import Report

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
    floor = max(certificate.rounding_floor, report.hidden)
    return floor > most or (part > most and measured <= tol)


def settings_need_double(settings: Settings) -> bool:
    """Is the tolerance so small, C so large, that rounding a file's values to 32-bit floats, 2^-24 of them, can
    hardly be left out of the proof? Kernel machines take the rows as they are: what is large is their kernel."""
    exact = settings.kernel is not None and settings.feature_map is None
    return exact or settings.tol < MIN_TOL or MAX_C_PER_TOL * settings.tol * (1 + 1e-9) < settings.C
