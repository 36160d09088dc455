"""LLSVMTuning: the constants that coordinate descent's speed depends on, and never its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LLSVMTuning:
    """Constants of coordinate descent: what each trades is said beside it. All are measured (tools/bench)."""

    # Sweeps
    block_sweeps: int = 3
    """Sweeps, at most, over active rows (free or violating) after each sweep over all chosen rows: in epochs, in a
    working set, and where problems are solved in turn. Full passes that may keep few rows sweep one time more over
    each block and the rows in memory. Fewer visit rows at rest more often, more solve for rows that soon change."""
    max_epochs: int = 50
    """Epochs over survivors in memory, at most; also sweeps over one block in a full pass where its active rows
    have no room among survivors. Only a cap: epochs end by ``survivors_until`` and ``tol_share`` before. Lower ends
    slow problems early, which then take more passes; higher lets one block take the time of a pass."""
    max_spill_epochs: int = 8
    """Epochs over spilled survivors between two full passes, at most. Lower reads all rows again sooner, higher
    reads the spill again although the pass has chosen its rows at weights that are old by then."""
    survivors_until: float = 0.1
    """Epochs end when their rows' part of the gap has fallen to this share of what it was at first; so do the
    sweeps over active rows within an epoch. Lower spends more work on the same rows, higher takes more passes."""
    tol_share: float = 0.5
    """Epochs, working sets and problems in turn also end at this share of the gap that is asked for, which leaves
    the rest of it to the rows that they do not see. At 0.3 nine runs over seven data sets took up to 8 % more
    updates at C = 1, at 0.1 three took 10 to 24 % more. Higher takes more passes: 20 classes of text at C = 100
    take 36 at 0.5 and 31 at 0.3."""
    row_share: float = 0.3
    """A row that adds less than this share of the average gap that is allowed for a row is left alone where no dual
    variable rests at a bound (logistic loss): without that rule sweeps take up to 2.4 times the work, and at 0.1
    eight runs over four data sets took up to 30 % more. Higher leaves so much of the gap to such rows that runs
    with few survivors do not converge: a9a with 0.1 % of the rows at 0.5."""

    # Which rows survive
    spill_most: float = 4.0
    """Rows of each block that are spilled because of little slack (less than the last pass's drift), at most, as a
    multiple of its free and violating rows. Lower misses rows until the next pass; higher spills, and reads again,
    more rows at rest: with no such cap KDD (hinge loss) took 63 passes instead of 5."""
    rewrite_below: float = 0.5
    """The first epoch over spilled rows writes the spill anew, without rows that are at rest, where fewer than this
    share of the survivors were free or violated their conditions in the pass. Lower reads rows at rest in each of
    the epochs: with 0, 2.2 million rows of text took 1.4 times the updates and 1.3 times the bytes. Higher leaves
    more rows to the next pass: written anew always, 20 classes of text took 44 passes instead of 31 at C = 100."""

    # Caps of methods that epochs call
    max_threshold_updates: int = 8
    """Updates of the one-class SVM's multiplier for the same rows in memory, at most. Lower leaves more of them to
    passes, higher spends sweeps on rows that cannot bring the sum of dual variables to its value."""
    max_working_set_rounds: int = 8
    """Rounds of working sets over the survivors of one pass, at most, each of which reads all survivors at least
    twice. Lower leaves more of the gap to the next pass, higher reads survivors for little."""

    # Small data, solved to the last digits
    small_values: int = 20_000
    """Rows plus values of data that are solved by second order to the last digits, at most. Higher makes that
    most of the work of a run, lower leaves answers of more data to depend on the order of their rows."""

    # Threads that share the rows of one problem
    parallel_above: int = 500
    """Columns: with no more than so many, threads do not share rows, as these have so many columns in common that
    threads undo each other's steps. Higher leaves threads idle."""
    parallel_work: float = 3.0
    """Cost of each thread's visits to rows between two sums of the threads' weights, as a multiple of the cost of
    the sum and of the calls. Lower spends more time on sums, higher visits rows at older weights."""

    # When second order takes over
    doubt: float = 4.0
    """Factor by which Newton's method may cost less or more than its expected price. Over all rows in memory, and
    over spilled survivors, it takes over when sweeps have cost price / doubt (few rows are free after its first
    steps, which makes it cheap). Over all rows in memory it also does when sweeps at their rate are still to cost
    price * doubt. Survivors in memory have no doubt: the price itself counts. Lower begins second order later
    where sweeps have cost much, and sooner where they are about to. Higher begins it where sweeps have cost little
    and would soon have ended by themselves, and lets hopeless sweeps go on for longer. 0 turns working sets off
    (working_sets.py)."""


DEFAULT = LLSVMTuning()
