"""Passes over the file with rows kept between full passes, and with none, where memory has no room for all.

    python -m tools.bench.survivors FILE.svm... --loss hinge,logistic [--share 0.1] [-C 1]

Counts of solver llsvm with one thread, to a gap of 1e-3, which do not depend on how busy the machine is. The ledger
has, beside what the smallest needs, a share of what all rows in memory would take; the process is not counted.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

NONE = 1e-9  # of the rows kept, at most: a single one
MAX_PASSES = 200


def counts(path: Path, loss: str, C: float, share: float, kept: float = 1.0) -> dict[str, Any]:
    """passes, sweeps (updates of a row) and gap of a run. share: of what all rows take in memory. kept: between
    passes, of the rows, at most."""
    from llsvm.data import open_source
    from llsvm.memory.budget import MemoryBudget
    from llsvm.settings.objective import KINDS
    from llsvm.settings.settings import Settings
    from llsvm.training.training import Training

    settings = Settings(
        solver="llsvm",
        loss=loss,
        C=C,
        threads=1,
        survivors=kept,
        max_passes=MAX_PASSES,
        spill_dir=str(path.parent),
    )

    def training(ledger_bytes: int) -> Training:
        source = open_source(str(path), threads=1, label_kind=KINDS[loss])
        return Training(source, settings, budget=MemoryBudget(ledger_bytes, runtime_bytes=0))

    with training(2_000_000_000) as run:
        smallest = run.smallest_limit(1).nbytes
        ledger = smallest + int(share * (run.smallest_limit(1, in_one_block=True).nbytes - smallest))
    sweeps = 0.0
    with training(ledger) as run:
        for report in run:
            sweeps = report.extra.get("updates_per_row", sweeps)
        told = run.summary()
        assert not run.stream.in_one_block, "the rows are all in memory"
    found = {name: told[name] for name in ("passes", "relative_gap", "converged")}
    return found | {"sweeps": sweeps, "ledger_bytes": ledger}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--loss", default="hinge,squared_hinge,logistic")
    parser.add_argument("--share", type=float, default=0.1, help="of what all rows in memory would take")
    parser.add_argument("-C", type=float, default=1.0)
    options = parser.parse_args()
    print("| data | loss | ledger | passes | without | sweeps of a row | without |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for path in options.files:
        for loss in options.loss.split(","):
            kept, none = (counts(path, loss, options.C, options.share, each) for each in (1.0, NONE))
            passes = [f"{each['passes']}{'' if each['converged'] else ', open'}" for each in (kept, none)]
            ledger = f"{kept['ledger_bytes'] / 1e6:.1f} MB"
            sweeps = f"{kept['sweeps']:.1f} | {none['sweeps']:.1f}"
            print(f"| {path.stem} | {loss} | {ledger} | {' | '.join(passes)} | {sweeps} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
