"""Reports of a run in words, for whoever follows it: in a terminal, or through the logger ``llsvm``."""

from __future__ import annotations

import logging
from datetime import datetime

from llsvm.memory.process import resident_bytes
from llsvm.memory.sizes import format_size
from llsvm.solvers.report import Report

LOGGER = logging.getLogger("llsvm")


def timestamp() -> str:
    """Before a line of a report: when it was, to the second."""
    return datetime.now().isoformat(timespec="seconds")


def report_line(report: Report) -> str:
    """A report in one line: ``pass 3: within 0.120% of the optimum, objective 1234.5, ...``."""
    words = []
    if report.certificate is not None:
        words.append(f"within {report.certificate.relative_gap:.3%} of the optimum")
        words.append(f"objective {report.certificate.total_primal:.8g}")
    if report.kind != "read":
        words.append(f"{report.survivors:,} {'survivors' if report.kind == 'epoch' else 'active rows'}")
    words.append(f"memory {format_size(resident_bytes())}")
    if report.note:
        words.append(report.note)
    kind = report.kind if report.kind == "read" else f"{report.kind} {report.passes}"
    return f"{kind}: {', '.join(words)}"


def is_news(report: Report) -> bool:
    """Not of the epochs between two passes, which come by the dozen, but for the last of them."""
    return report.kind != "epoch" or report.resumable


def log(report: Report) -> None:
    """A line for the logger ``llsvm``: what is news as information, the rest for debugging."""
    level = logging.INFO if is_news(report) else logging.DEBUG
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", report_line(report))
