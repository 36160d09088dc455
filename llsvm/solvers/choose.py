"""``solver="auto"``: which method is likely to be fastest, and why. Every choice reaches the same certified
optimum.

A Newton pass costs, per row with r values, about r²/2 for the Hessian and 10 r for the rest, and 11 to 13
passes do; its threads share the work. Coordinate descent updates each row 40 to 100 times, in one thread, at
about 2 r each. So Newton wins where rows are many, columns few and rows short, and loses on text.
``tools/bench`` measures it.
"""

from __future__ import annotations

from llsvm.ingest import Facts
from llsvm.settings import DIRECT, Settings

NEWTON_COLUMNS = 512  # so many at most: its Hessian is small, and cheap to solve with
NEWTON_ROWS_PER_COLUMN = (
    20  # rows per column at least: then the smoothed Hessian is that of the whole population
)
NEWTON_ROW = 128  # values per row at most, on average
NEWTON_CLASSES = 10  # problems (one against the rest) at most


def choose(settings: Settings, facts: Facts) -> tuple[str, str]:
    """The name of the solver (a key of SOLVERS), and a sentence that says why."""
    if settings.penalty != "l2":
        return "smsvm", f"the {settings.penalty} penalty is smsvm's alone"
    if settings.multi_class in DIRECT:
        return "llsvm", f"{settings.multi_class} has one method"
    if settings.multi_class == "ovo":
        return "llsvm", "one against one is llsvm's"
    if settings.paper:
        return "llsvm", "the paper's algorithm is llsvm's"
    if settings.loss != "hinge":
        return "llsvm", f"the {settings.loss} loss is llsvm's alone"
    rows, columns, per_row = facts.n_rows, facts.n_features, facts.nnz / max(facts.n_rows, 1)
    if len(facts.classes) > NEWTON_CLASSES:
        return "llsvm", f"{len(facts.classes)} classes would be as many Hessians"
    if columns > NEWTON_COLUMNS:
        return "llsvm", f"{columns:,} features are too many for a cheap Newton step"
    if rows < NEWTON_ROWS_PER_COLUMN * columns:
        return "llsvm", f"{rows:,} rows are few for {columns:,} features"
    if per_row > NEWTON_ROW:
        return "llsvm", f"rows of {per_row:.0f} values make a Hessian dearer than coordinate descent"
    return (
        "smsvm",
        f"{rows:,} rows of {columns:,} features, {per_row:.0f} values each: Newton needs about a dozen passes",
    )
