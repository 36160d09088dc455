"""A regression benchmark in counts, which do not depend on how busy the machine is.

    python -m tools.bench.regress            compares with the bounds in configs/bench.toml; exits 1 above one

Per case: fixed generated data, one thread, a fixed ledger. passes: full passes to a gap of 1e-3. updates_per_row:
rows visited by sweeps over rows. read_ratio: bytes read from disk over the bytes of the text.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tools.bench.generate import generate


def counts(kind: str, rows: int, ledger_bytes: int, work: Path) -> dict[str, float]:
    """Train on generated data of a kind and count. Raises RuntimeError where training did not converge."""
    from llsvm.data import open_source
    from llsvm.memory.budget import MemoryBudget
    from llsvm.settings.settings import Settings
    from llsvm.training.training import Training

    path = work / f"{kind}-{rows}.svm"
    size = generate(kind, path, rows, seed=7)
    settings = Settings(threads=1, seed=0, spill_dir=str(work))
    budget = MemoryBudget(ledger_bytes, runtime_bytes=0)
    updates = 0.0
    with Training(open_source(str(path), threads=1), settings, budget=budget) as training:
        for report in training:
            updates = report.extra.get("updates_per_row", updates)
        summary = training.summary()
    if not summary["converged"]:
        raise RuntimeError(f"{kind}: not converged, gap {summary['relative_gap']}")
    return {
        "passes": summary["passes"],
        "updates_per_row": round(updates, 3),
        "read_ratio": round(summary["bytes_read"] / size, 3),
    }


def excesses(counted: dict[str, float], bounds: dict[str, float]) -> list[str]:
    """What is above its bound, one sentence each. Raises KeyError where a bound names nothing that is counted."""
    return [
        f"{name} is {counted[name]:g}, the bound is {bound:g}"
        for name, bound in bounds.items()
        if counted[name] > bound
    ]


def main() -> int:
    from tools.bench.__main__ import CONFIG

    cases: dict[str, Any] = tomllib.loads(CONFIG.read_text())["regress"]
    worse = 0
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as work:
            counted = counts(name.split("-")[0], case["rows"], case["ledger_bytes"], Path(work))
        found = excesses(counted, case["bounds"])
        print(f"{name}: {counted}" + "".join(f"\n  REGRESSION: {each}" for each in found))
        worse += len(found)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
