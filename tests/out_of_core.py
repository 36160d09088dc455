"""Training out of core, looked at: the weights and the dual that its dual variables make."""

from dataclasses import replace

import numpy as np
from oracle import rows, write_svmlight

from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import Problems, Variant
from llsvm.settings.objective import KINDS, REGRESSION
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.llsvm.tuning import DEFAULT
from llsvm.stream.stream import Stream


def tall(n=600, d=80, classes=2, seed=0):
    """Classes that overlap, columns in units of their own."""
    X, y = rows(n=n, d=d, seed=seed, classes=classes, density=0.4, noise=1.0)
    return (X * 10.0 ** np.linspace(-1, 1.5, d)).astype(np.float32), y


def wide_rows(n, d, classes, loss):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.03)).astype(np.float32)
    scores = X @ rng.normal(size=(d, max(classes, 2))) + 0.5 * rng.normal(size=(n, max(classes, 2)))
    y = scores[:, 0].round(3) if KINDS[loss] == REGRESSION else np.argmax(scores, axis=1)
    return X, y


class Out:
    """Trains out of core, and looks at what came of it."""

    def __init__(
        self,
        X,
        y,
        folder,
        ledger,
        threads=1,
        doubt=0.0,
        weights=None,
        variant=None,
        **options,
    ):
        loss = options.get("loss", "hinge")
        path = write_svmlight(folder / "rows.svm", X, y)
        settings = Settings(solver="llsvm", **{"max_passes": 30, **options})
        tuning = replace(DEFAULT, doubt=doubt)
        classes = 1 if KINDS[loss] == REGRESSION else len(np.unique(y))
        source = open_source(path, label_kind=KINDS[loss])
        with Stream(source, MemoryBudget(ledger, 0), folder) as stream:
            stream.read()
            weights = np.ones(classes) if weights is None else np.array(weights)
            problems = Problems(classes, settings.multiclass == "ovo", [variant or Variant()])
            solver = LLSVM(settings, weights, threads, problems, tuning)
            self.reports = []
            for report in solver.solve(stream):
                self.reports.append(report)
            assert not stream.in_one_block
            self.spilled = stream.bytes_spilled
            self.run = solver.run
            self.weights, self.dual = self._of_alpha(stream)
        self.coef, self.last = self.reports[-1].coef, self.reports[-1]

    def _of_alpha(self, stream):
        sweeps = self.run.sweeps
        weights, dual = np.zeros_like(sweeps.w), np.zeros(len(sweeps.w))
        for block in stream.again():
            part, rows = self.run.duals.of(block), block.X
            for c in range(len(dual)):
                at, alpha, _ = part.of(c)
                signed = np.zeros(part.n_rows)
                signed[at] = alpha * part.signs(c)[at]
                values = np.repeat(signed, np.diff(rows.indptr))
                span = slice(rows.indptr[0], rows.indptr[-1])
                np.add.at(weights[c], rows.indices[span], values * rows.data[span])
                weights[c, -1] += sweeps.bias * signed.sum()
                cost = part.cost(c)[at]
                dual[c] += cost @ sweeps.loss.dual_value(alpha / cost, part.target(at))
        return weights, dual - 0.5 * (weights**2).sum(axis=1)
