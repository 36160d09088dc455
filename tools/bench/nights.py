"""What a state saves: a path of C by warm starts, and files that are appended one by one, each beside training from
scratch: ``python -m tools.bench.nights DATA --memory-limit 500MB --files 20``. DATA: an svmlight file.

Passes and updates of dual variables are counted; the first reading is not, which both make. Every model is held
against its data by ``llsvm verify --state``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import llsvm
from llsvm.data import open_with_settings
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.state.checkpoints import checkpoints_in
from llsvm.training.training import Training


def alone(function: Callable[..., Any], *given: Any) -> Any:
    """A call in a process of its own: one that has read data before holds memory that a limit counts."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *given).result()


def run(
    files: list[Path], state: Path | None, settings: Settings, folder: Path, ledger: int | None
) -> dict[str, Any]:
    """One training: passes, updates a row and the gap; with a state, what verify says of it. ledger: bytes for the
    rows and all that belongs to them; None: what the memory limit leaves."""
    told: dict[str, Any] = alone(train, files, state, settings, folder / "m", ledger)
    if state is not None:
        told["holds"] = alone(holds, files, state, settings, folder / "m")
    return told


def train(
    files: list[Path], state: Path | None, settings: Settings, model: Path, ledger: int | None
) -> dict[str, Any]:
    """See ``run``."""
    budget = None if ledger is None else MemoryBudget(ledger, 0)
    source, updates = open_with_settings(settings, [str(each) for each in files], threads=1), 0.0
    with (
        checkpoints_in(state) as checkpoints,
        Training(source, settings, model, budget=budget, checkpoints=checkpoints) as training,
    ):
        for report in training:
            updates = report.extra.get("updates_per_row", updates)
        certificate = training.finish(model).certificate
    assert certificate is not None
    return {"passes": certificate.passes, "updates": updates, "gap": certificate.relative_gap}


def holds(files: list[Path], state: Path, settings: Settings, model: Path) -> bool:
    """What verify says of a model and the state that it was trained with."""
    names = [str(each) for each in files]
    return bool(llsvm.verify(model, names, state=state, memory_limit=settings.memory_limit)["holds"])


def cut(data: Path, parts: int, folder: Path, seed: int) -> list[Path]:
    """The lines of a file by chance in so many files, one line in memory at a time."""
    rng, files = np.random.default_rng(seed), [folder / f"{number:03}.svm" for number in range(parts)]
    with ExitStack() as stack:
        outs = [stack.enter_context(each.open("wb")) for each in files]
        for line in stack.enter_context(data.open("rb")):
            outs[rng.integers(parts)].write(line)
    return files


def compare(what: str, warm: dict[str, Any], scratch: dict[str, Any]) -> None:
    """A row of the table."""
    held = "holds" if warm["holds"] else "DOES NOT HOLD"
    figures = [f"{each['passes']} | {each['updates']:.2f} | {each['gap']:.1e}" for each in (scratch, warm)]
    print(f"| {what} | {' | '.join(figures)} | {held} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--ledger", type=int, help="bytes for the rows and what belongs to them, instead")
    parser.add_argument("--multiclass", default="ovr")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--scale", default="none")
    parser.add_argument("--costs", type=float, nargs="*", default=[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--files", type=int, default=0, help="so many are appended one by one; 0: none")
    parser.add_argument(
        "--nights", type=int, default=0, help="only so many of them at last; 0: all but the first"
    )
    given = parser.parse_args()
    options = {"memory_limit": given.memory_limit, "threads": 1, "scale": given.scale}
    options |= {"solver": given.solver, "multiclass": given.multiclass}
    print("| | scratch: passes | updates a row | gap | warm: passes | updates a row | gap | verify |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for C in given.costs:
            settings = Settings(C=C, **options)
            scratch = run([given.data], None, settings, folder, given.ledger)
            compare(f"C = {C:g}", run([given.data], folder / "path", settings, folder, given.ledger), scratch)
        files = cut(given.data, given.files, folder, 0) if given.files else []
        settings = Settings(**options)
        first = len(files) - (given.nights or len(files) - 1) if files else 0
        if files:
            run(files[:first], folder / "nights", settings, folder, given.ledger)
        for night in range(first + 1, len(files) + 1):
            scratch = run(files[:night], None, settings, folder, given.ledger)
            compare(
                f"{night} files",
                run(files[:night], folder / "nights", settings, folder, given.ledger),
                scratch,
            )


if __name__ == "__main__":
    main()
