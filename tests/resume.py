"""Trainings that keep a state, stopped and gone on with, in this process and in forked ones that are killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from oracle import rows, write_svmlight

from llsvm.__main__ import main
from llsvm.data import open_with_settings
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.state.checkpoints import checkpoints_in
from llsvm.training.training import Training


@dataclass(frozen=True)
class Case:
    """A training. settings: of Settings. ledger: bytes for the rows and all that belongs to them; with
    ``oracle.small_pages`` a few ten thousand make many blocks. place: where full passes must find the rows.
    before: what settings were otherwise in an earlier run, whose state it begins with; None: there was none. new:
    the last so many rows had not come then. unit: of values, which are 32-bit floats where it is 1."""

    settings: dict[str, Any] = field(default_factory=dict)
    ledger: int = 100_000_000
    n: int = 400
    d: int = 8
    classes: int = 2
    noise: float = 2.0
    place: str = "memory"
    before: dict[str, Any] | None = None
    new: int = 0
    unit: float = 1.0

    def write(self, path: Path, new: bool = True) -> Path:
        """new: the rows that have come since, too."""
        X, y = rows(n=self.n, d=self.d, classes=self.classes, noise=self.noise)
        n = self.n if new else self.n - self.new
        return Path(write_svmlight(path, X[:n].astype(float) * self.unit, y[:n]))

    def begin(self, data: Path, state: Path) -> None:
        """Write the data; let the state be that of the earlier run, if there is one."""
        state.mkdir()
        if self.before is not None:
            self.write(data, new=False)
            assert go(self, data, state / "m", state, **self.before) is not None
            for model in state.glob("m*"):
                model.unlink()
        self.write(data)


def go(
    case: Case,
    data: Path,
    model: Path,
    state: Path | None,
    every: float = 0.0,
    stop: Callable[[Any], bool] = lambda report: False,
    fresh: bool = False,
    **changed: Any,
) -> Training | None:
    """One run. stop: after which report it is given up, as by a kill but for what is in memory; then None.
    changed: of the settings."""
    options = {"threads": 1, "memory_limit": "2GB", "spill_dir": str(data.parent), **case.settings, **changed}
    settings = Settings(**options)
    source = open_with_settings(settings, [str(data)], threads=1)
    with checkpoints_in(state, every, fresh) as checkpoints:
        budget = MemoryBudget(case.ledger, 0)
        with Training(source, settings, model, budget=budget, checkpoints=checkpoints) as training:
            training.notes = []  # of the reports
            for report in training:
                training.notes.append(report.note)
                if stop(report):
                    return None
            training.finish(model)
            return training


def killed(
    run: Callable[[], Any], seconds: float, number: int = signal.SIGKILL, said: Path | str = os.devnull
) -> int:
    """``run`` in a forked process that gets a signal after so many seconds; its exit status, negative of one. said:
    where its standard error goes."""
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 2)
            run()
            os._exit(0)
        finally:
            os._exit(99)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (done := os.waitpid(child, os.WNOHANG))[0]:
            return os.waitstatus_to_exitcode(done[1])
        time.sleep(0.002)
    os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def command(*words: object) -> None:
    """The program itself, which does not come back."""
    sys.argv = ["llsvm", *map(str, words)]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    main()


def copied(begun: Path, state: Path) -> Path:
    """The state as it was when the run began; returns its folder."""
    shutil.rmtree(state, ignore_errors=True)
    return Path(shutil.copytree(begun, state))


def survives(case: Case, folder: Path, kills: int, seed: int = 0) -> int:
    """Kill the training at random times, go on with it each time, compare the models; how often it was alive."""
    data, model, state, begun = (folder / name for name in ("rows.svm", "model", "state", "begun"))
    case.begin(data, begun)
    first = None if case.before is None else copied(begun, folder / "another")
    go(case, data, folder / "undisturbed", first)
    want = (folder / "undisturbed").read_bytes()
    copied(begun, folder / "another")
    began = time.monotonic()
    done = go(case, data, folder / "undisturbed", folder / "another", every=0)
    longest = time.monotonic() - began
    assert done is not None
    assert done.stream.place == case.place
    assert done.notes[0].startswith("beginning at the dual variables" if case.before is not None else "")
    assert (folder / "undisturbed").read_bytes() == want
    rng, hit = np.random.default_rng(seed), 0
    copied(begun, state)
    for _ in range(kills):
        status = killed(lambda: go(case, data, model, state), rng.uniform(0.0, 1.1 * longest))
        assert status in (0, -signal.SIGKILL)
        hit += status != 0
        if status == 0:
            assert model.read_bytes() == want
            model.unlink()
            copied(begun, state)
    go(case, data, model, state)
    assert model.read_bytes() == want
    assert {each.name for each in state.iterdir()} <= {"lock", "state", "result"}
    left = {each.name for each in folder.iterdir() if not each.name.endswith(".log.json")}
    assert left == {"rows.svm", "undisturbed", "another", "begun", "state", "model"}
    return hit
