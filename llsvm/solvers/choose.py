"""``solver="auto"``: which method is likely to take the least processor time, and why. Every choice reaches the
same certified optimum.

What only one solver can do, it does. Else coordinate descent (llsvm) begins: on most data it is the fastest. Where
the smoothed Newton method (smsvm) is cheap, that is a trial. Newton's cost is known beforehand, NEWTON_PASSES times
that of a pass, nearly whatever C is; coordinate descent's is not: it grows with C and with how many rows stay
between the margins. So its updates are counted, and once they, or those to be expected, come to more than Newton
would take, smsvm starts, which is told the dual bound reached. No clock is looked at, so that runs repeat.

The prices are processor time in ns on the machine that the README's benchmarks name; only their ratios matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.ingest import Facts
from llsvm.settings import Settings

MOST_COLUMNS = 1024  # of a Hessian worth forming and solving with
MOST_CLASSES = 10  # problems (one against the rest), each with its Hessian
LEAST_ROWS = 5  # per column: with fewer the rows, not the weights, are what is short
MEMORY_SHARE = 8  # Newton's matrices may take this part (1/8) of the memory that is left
NEWTON_PASSES = 20  # what passes, and the work between them, come to
NEWTON_START = 4e8  # ns: loading more code
ROUND = (
    0.4  # so much of all updates are in the first round, measured: of Newton's price a round may take as much
)
ROUNDS_TO_COME = 5  # each visits the rows that still move as often as those so far have
PATIENCE = 4  # so many times Newton's price is enough, whatever is expected


@dataclass(frozen=True, slots=True)
class Choice:
    """solver: a key of SOLVERS. why: a sentence. newton: where not None, the solver is on trial, and this is what
    smsvm would cost instead, in its updates per row."""

    solver: str
    why: str
    newton: float | None = None


def choose(settings: Settings, facts: Facts, available_bytes: int, threads: int) -> Choice:
    """available_bytes: of the memory limit, once the data have been read."""
    if settings.only_solver is not None:
        return Choice(*settings.only_solver)
    columns, n_classes = facts.n_features, len(facts.classes)
    problems = 1 if n_classes == 2 else n_classes
    if columns > MOST_COLUMNS:
        return Choice("llsvm", f"{columns:,} features are too many for a cheap Newton step")
    if facts.n_rows < LEAST_ROWS * columns:
        return Choice("llsvm", f"{facts.n_rows:,} rows are few for {columns:,} features")
    if problems > MOST_CLASSES:
        return Choice("llsvm", f"{problems} classes would be as many Hessians")
    if newton_bytes(columns, problems, threads) * MEMORY_SHARE > available_bytes:
        return Choice("llsvm", f"the memory limit leaves little room for Hessians of {columns:,} features")
    newton = problems * newton_updates(facts)
    return Choice("llsvm", f"Newton's passes would cost as much as {newton:.0f} updates a row", newton)


def newton_updates(facts: Facts) -> float:
    """Of a problem: so many updates of each row by coordinate descent cost as much as smsvm in all."""
    n, rows, r = facts.n_features, max(facts.n_rows, 1), facts.nnz / max(facts.n_rows, 1)
    if facts.is_dense:
        r = n
        update, a_pass = 100 + 0.45 * r, 100 + r + 0.05 * r * r
    else:
        update, a_pass = 100 + 2 * r, 100 + r + 0.4 * r * r
    a_pass += n**3 / 15 / rows  # a step
    return (NEWTON_PASSES * a_pass + NEWTON_START / rows) / update


def newton_bytes(columns: int, problems: int, threads: int) -> int:
    """What smsvm holds beside the rows, about."""
    return 8 * problems * columns * ((threads + 3) * columns + 30) + threads * 4_000_000


def enough(
    newton: float, n_rows: int, updates: int, round_updates: int, passes: int, moving: int | None
) -> str:
    """Why the trial of llsvm should end here, or "".

    newton: see Choice. updates: rows visited so far, of these round_updates in the round at hand. moving: rows that
    were moving in the last full pass, once that is known of a pass that was measured.
    """
    spent, in_round = updates / n_rows + passes, round_updates / n_rows
    instead = f"smsvm's passes cost about as much as {newton:.0f}"
    if in_round >= ROUND * newton:
        return f"a round of coordinate descent took {in_round:.0f} updates a row; {instead}"
    if moving is None:
        return ""
    if spent >= PATIENCE * newton:
        return f"coordinate descent had not converged after {spent:.0f} updates a row; {instead}"
    to_come = ROUNDS_TO_COME * spent * moving / n_rows
    if to_come > newton:
        return (
            f"after {spent:.0f} updates a row {moving / n_rows:.0%} of the rows still moved, so that about "
            f"{to_come:.0f} more were to come; {instead}"
        )
    return ""
