"""Solvers that learn from rows by sums alone, on shards: each thread has a stream and a solver of its own over some
of the rows, in lock-step, and what the streams return from ``sum``, ``largest`` and ``any`` is of all shards."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import rows, small_pages, write_svmlight

from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.solvers import make_solver
from llsvm.stream.stream import Stream

WAIT_SECONDS = 60.0  # for the other shards: one that makes other calls never comes


class Meeting:
    """Where the threads of all shards bring what they know, and combine it in the order of shards."""

    def __init__(self, n_shards: int) -> None:
        self.barrier = threading.Barrier(n_shards)
        self._parts: list[Any] = [None] * n_shards

    def combine(self, shard: int, name: str, x: Any, function: Any) -> Any:
        self._parts[shard] = name, np.shape(x), x
        self.barrier.wait(WAIT_SECONDS)
        calls, parts = {part[:2] for part in self._parts}, [part[2] for part in self._parts]
        assert len(calls) == 1, f"shards make different calls: {calls}"
        total = np.array(parts[0]) if isinstance(x, np.ndarray) else parts[0]
        for part in parts[1:]:
            total = function(total, part)
        self.barrier.wait(WAIT_SECONDS)
        return total


class Shard(Stream):
    """One shard's rows, with the facts of the whole data."""

    def join(self, meeting: Meeting, number: int, whole: Stream) -> None:
        self._meeting, self._number, self._whole = meeting, number, whole
        own = self.dataset
        self._dataset = replace(whole.dataset, pages=own.pages, reading=own.reading)

    def rounding_bound(self, *arguments: Any, **options: Any) -> Any:
        return self._whole.rounding_bound(*arguments, **options)

    def sum(self, x: Any) -> Any:
        return self._meeting.combine(self._number, "sum", x, lambda a, b: a + b)

    def largest(self, x: Any) -> Any:
        return self._meeting.combine(self._number, "largest", x, np.maximum)

    def any(self, x: bool) -> bool:
        return self._meeting.combine(self._number, "any", bool(x), lambda a, b: a or b)


@dataclass(frozen=True)
class Run:
    """settings: of Settings. classes, density: of the rows. ledger: bytes for the rows and all that goes with them.
    order: of softmax's Hessians at most. from_disk: the rows come from a file in small pages, and stay on disk.
    certified: is the gap small enough in the end?"""

    settings: dict[str, Any]
    classes: int = 2
    density: float = 1.0
    n: int = 300
    d: int = 6
    ledger: int = 100_000_000
    order: int = 2000
    from_disk: bool = False
    certified: bool = True

    @contextmanager
    def stream(self, kind: type[Stream], folder: Path, which: slice):
        X, y = rows(n=self.n, d=self.d, classes=self.classes, density=self.density)
        X, y = X[which], y[which]
        if self.from_disk:
            name = f"{which.start}-{which.step}.svm"
            source = open_source(write_svmlight(folder / name, X, y))
        else:
            source = open_source(X if self.density == 1.0 else sp.csr_matrix(X), y)
        with kind(source, MemoryBudget(self.ledger, 0), folder, has_bias=True) as stream:
            stream.read()
            yield stream
            assert stream.in_one_block != self.from_disk or stream.place == "memory"

    def reports(self, stream: Stream) -> list[Any]:
        options = Settings(**{"bias": 1.0, "scale": "none", "tol": 1e-8, "max_passes": 1000, **self.settings})
        solver = make_solver(options, np.linspace(1.0, 1.5, self.classes), 1)
        return [replace(report, coef=np.array(report.coef)) for report in solver.solve(stream)]

    def alone(self, folder: Path) -> list[Any]:
        with self.stream(Stream, folder, slice(None)) as stream:
            return self.reports(stream)

    def on_shards(self, folder: Path, n_shards: int) -> list[list[Any]]:
        """The reports of each shard's solver."""
        meeting, found, errors = Meeting(n_shards), [[] for _ in range(n_shards)], []

        def work(number: int, stream: Shard) -> None:
            try:
                found[number] = self.reports(stream)
            except BaseException as error:
                errors.append(error)
                meeting.barrier.abort()

        with ExitStack() as stack:
            whole = stack.enter_context(self.stream(Stream, folder, slice(None)))
            threads = []
            for number in range(n_shards):
                shard = stack.enter_context(self.stream(Shard, folder, slice(number, None, n_shards)))
                shard.join(meeting, number, whole)
                threads.append(threading.Thread(target=work, args=(number, shard)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if errors:
            raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
        return found


INTERCEPT = {"intercept": True, "bias": 0.0}
NESVM = {"solver": "nesvm", "C": 0.1, "tol": 1e-4}
SMSVM = {"solver": "smsvm", "C": 1.0}
SOFTMAX = {"multiclass": "softmax", "loss": "logistic", "C": 1.0}
SHARED, PRODUCTS = 10, 0
RUNS = {
    "nesvm": Run(NESVM),
    "nesvm, intercept, three classes": Run({**NESVM, **INTERCEPT}, classes=3),
    "nesvm, pairs, sparse": Run({**NESVM, "multiclass": "ovo"}, classes=3, density=0.4),
    "nesvm, squared hinge": Run({**NESVM, "loss": "squared_hinge"}),
    "nesvm, least squares, intercept": Run({**NESVM, **INTERCEPT, "loss": "least-squares"}),
    "nesvm, l1": Run({**NESVM, "penalty": "l1", "tol": 0.01}),
    "nesvm, the paper's step": Run({**NESVM, "step": "paper", "max_passes": 40}, certified=False),
    "nesvm, the paper's step, least squares": Run({**NESVM, "step": "paper", "loss": "least-squares"}),
    "smsvm, hinge": Run({**SMSVM, "loss": "hinge"}),
    "smsvm, hinge, sparse": Run({**SMSVM, "loss": "hinge"}, density=0.4),
    "smsvm, squared hinge, three classes": Run({**SMSVM, "loss": "squared_hinge"}, classes=3),
    "smsvm, logistic, intercept": Run({**SMSVM, **INTERCEPT, "loss": "logistic"}),
    "smsvm, hinge, from disk": Run(
        {**SMSVM, "loss": "hinge", "tol": 1e-11}, n=6000, ledger=250_000, from_disk=True
    ),
    "softmax": Run(SOFTMAX, classes=3),
    "softmax, intercept": Run({**SOFTMAX, **INTERCEPT}, classes=3),
    "softmax, a Hessian for all classes": Run(SOFTMAX, classes=3, order=SHARED),
    "softmax by products": Run(SOFTMAX, classes=3, order=PRODUCTS),
    "softmax by products, from disk": Run(
        {**SOFTMAX, "tol": 1e-11}, classes=3, n=3000, ledger=2_140_000, order=PRODUCTS, from_disk=True
    ),
    "softmax by products, intercept, sparse": Run({**SOFTMAX, **INTERCEPT}, 3, 0.4, order=PRODUCTS),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_one_shard_is_the_plain_run_to_the_last_bit(run, tmp_path, monkeypatch):
    small_pages(monkeypatch)
    monkeypatch.setattr("llsvm.solvers.softmax.solver.MOST_ORDER", run.order)
    (shard,), alone = run.on_shards(tmp_path, 1), run.alone(tmp_path)
    assert len(shard) == len(alone)
    for one, other in zip(shard, alone, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize(
    ("run", "n_shards"),
    [
        pytest.param(run, 2 + i % 2, id=f"{name}, {2 + i % 2} shards")
        for i, (name, run) in enumerate(RUNS.items())
    ],
)
def test_all_shards_end_with_the_weights_and_the_certificate_of_one_stream(
    run, n_shards, tmp_path, monkeypatch
):
    small_pages(monkeypatch)
    monkeypatch.setattr("llsvm.solvers.softmax.solver.MOST_ORDER", run.order)
    (*_, expected), (first, *others) = run.alone(tmp_path), run.on_shards(tmp_path, n_shards)
    for other in others:
        assert len(first) == len(other)
        for one, another in zip(first, other, strict=True):
            assert_same(one, another)
    last = first[-1]
    assert last.converged == run.certified
    assert last.certificate.total_primal == pytest.approx(expected.certificate.total_primal, rel=1e-6)
    np.testing.assert_allclose(last.coef, expected.coef, rtol=0, atol=1e-6 * np.abs(expected.coef).max())


def assert_same(one: Any, other: Any) -> None:
    assert (one.kind, one.passes, one.converged) == (other.kind, other.passes, other.converged)
    assert one.coef.tobytes() == other.coef.tobytes()
    for name in ("primal", "dual"):
        ours, theirs = getattr(one.certificate, name), getattr(other.certificate, name)
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
