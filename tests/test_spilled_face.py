"""Steps along faces whose rows are read from the spill, block by block."""

import math
from dataclasses import replace

import numpy as np
import pytest
from oracle import small_pages, write_svmlight
from state_suite import Case, check_resumes
from test_face import texts

from llsvm.block import CSR
from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Problems, Variant
from llsvm.settings.objective import KINDS, REGRESSION
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm import tuning as tuning_module
from llsvm.solvers.llsvm.face_kernels import CROSS, CURVATURE, N_TOTALS, SIZE, conjugate_step
from llsvm.solvers.llsvm.second_order_tuning import AllRowsTuning, WorkingSetTuning
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.llsvm.spilled_face import SpilledFaces
from llsvm.solvers.llsvm.sweeps import NO_ROWS
from llsvm.solvers.llsvm.tuning import tuning_of
from llsvm.stream.stream import Stream

SOON, NEVER = 1, 10**9  # products that a step is expected to take: it begins soon, or never
WITHOUT = WorkingSetTuning(rounds=0)  # which have room, and would come first
APART = AllRowsTuning(patience=math.inf)


# -- the kernel -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_a_step_of_conjugate_gradients(layout):
    rng = np.random.default_rng(0)
    n, d, m, bias, factor, inverse, ratio, length = 12, 7, 5, 0.5, 2.0, 0.3, 0.7, 0.2
    X = np.where(rng.random((n, d)) < 0.5, rng.normal(size=(n, d)), 0.0).astype(np.float32)
    wide = np.hstack([X, np.full((n, 1), bias)]).astype(float)
    i, j = np.nonzero(X)
    starts = np.searchsorted(i, np.arange(n + 1))
    csr = CSR(starts.astype(np.int64), j.astype(np.int32), X[i, j])
    rows = (*csr, np.empty((0, 0), np.float32)) if layout == "csr" else (*NO_ROWS, X)
    square, curvature = (wide**2).sum(axis=1), rng.random(n)
    at, y = rng.permutation(n)[:m], np.array([1.0, -1, -1, 1, -1])
    signed = np.where(y > 0, at, -1 - at).astype(np.int32)
    r, x, p = (rng.normal(size=m).astype(np.float32) for _ in range(3))
    v, u, totals = rng.normal(size=d + 1).astype(np.float32), np.zeros(d + 1, np.float32), np.zeros(N_TOTALS)

    ridge = curvature[at] / factor + inverse
    diagonal = square[at] + ridge
    direction = r / diagonal + ratio * p
    solution = x + length * direction
    residual = r - length * (y * (wide[at] @ v) + ridge * direction)
    z = residual / diagonal

    head = square.astype(np.float32), curvature.astype(np.float32), factor, inverse
    conjugate_step(*rows, bias, *head, signed, r, x, p, ratio, length, v, u, totals)
    np.testing.assert_allclose(p, direction, rtol=1e-5)
    np.testing.assert_allclose(x, solution, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(r, residual, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(u, wide[at].T @ (y * z), rtol=1e-4, atol=1e-5)
    expected = {SIZE: residual @ z, CURVATURE: z @ (ridge * z), CROSS: z @ (ridge * direction)}
    np.testing.assert_allclose([totals[k] for k in expected], list(expected.values()), rtol=1e-5)


# -- whole runs -----------------------------------------------------------------------------------------------


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
        products,
        ledger,
        threads=1,
        most=12,
        sets=WITHOUT,
        all_rows=APART,
        weights=None,
        variant=None,
        **options,
    ):
        loss = options.get("loss", "hinge")
        path = write_svmlight(folder / "rows.svm", X, y)
        settings = Settings(solver="llsvm", **{"max_passes": 30, **options})
        tuning = tuning_of(loss_of(settings))
        tuning = replace(
            tuning, face=replace(tuning.face, spilled_products=products, max_steps=most, passes=0.0)
        )
        tuning = replace(tuning, working_sets=sets, all_rows=all_rows)
        classes = 1 if KINDS[loss] == REGRESSION else len(np.unique(y))
        source = open_source(path, label_kind=KINDS[loss])
        with Stream(source, MemoryBudget(ledger, 0), folder) as stream:
            stream.read()
            weights = np.ones(classes) if weights is None else np.array(weights)
            problems = Problems(classes, settings.multiclass == "ovo", [variant or Variant()])
            solver = LLSVM(settings, weights, threads, problems, tuning)
            self.reports, self.along_faces = [], 0
            for report in solver.solve(stream):
                self.reports.append(report)
                if report.kind == "epoch":
                    numbers = solver.state().numbers
                    self.along_faces += numbers["along faces"]
                    assert numbers["ever along faces"] == (self.along_faces > 0)
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


CASES = [("hinge", 2, "ovr", 1, 45), ("squared_hinge", 4, "ovr", 2, 75), ("hinge", 4, "ovo", 2, 100)]
CASES += [("epsilon_insensitive", 1, "ovr", 1, 50), ("quantile", 1, "ovr", 1, 50)]


@pytest.mark.parametrize(("loss", "classes", "multiclass", "threads", "kb"), CASES)
def test_weights_and_dual_are_those_of_alpha(tmp_path, monkeypatch, loss, classes, multiclass, threads, kb):
    small_pages(monkeypatch)
    X, y = wide_rows(250, 300, classes, loss)
    options = {"loss": loss, "C": 100.0, "multiclass": multiclass, "max_passes": 3 if classes > 1 else 6}
    out = Out(X, y, tmp_path, SOON, 1000 * kb, threads, 4, **options)
    assert out.along_faces > 0
    np.testing.assert_allclose(out.run.sweeps.w, out.weights, atol=1e-6 * np.abs(out.weights).max())
    np.testing.assert_allclose(out.run.sweeps.dual, out.dual, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_wide_rows_at_a_large_cost_out_of_core(tmp_path, monkeypatch, loss):
    """Sweeps alone are far from it after as many passes; runs repeat."""
    small_pages(monkeypatch)
    X, y = texts(n=250, d=400)
    X, options = X.toarray(), {"loss": loss, "C": 1e4, "max_passes": 6}
    found = [Out(X, y, tmp_path, products, 75_000, **options) for products in (SOON, SOON, NEVER)]
    assert found[0].last.converged
    assert found[0].along_faces > 0
    assert found[2].along_faces == 0
    assert found[2].last.certificate.relative_gap > 0.1
    np.testing.assert_array_equal(found[0].coef, found[1].coef)


def test_a_run_that_was_stopped_goes_on(tmp_path, monkeypatch):
    small_pages(monkeypatch)
    face = replace(tuning_module.DEFAULT.face, spilled_products=SOON, max_steps=3, passes=0.0)
    tuning = replace(tuning_module.DEFAULT, face=face, working_sets=WITHOUT)
    monkeypatch.setattr(tuning_module, "DEFAULT", tuning)
    settings = {"solver": "llsvm", "C": 100.0, "tol": 1e-3, "max_passes": 3}
    case = Case(
        settings, 35_000, n=200, d=250, density=0.04, from_file="cache", in_one_block=False, spills=True
    )
    taken, step = [], SpilledFaces.step
    monkeypatch.setattr(
        SpilledFaces, "step", lambda faces, problems: (taken.append(1), step(faces, problems))
    )
    check_resumes(case, tmp_path)
    assert taken


def test_class_weights_of_a_variant_are_those_of_the_run(tmp_path, monkeypatch):
    small_pages(monkeypatch)
    X, y = wide_rows(600, 500, 2, "squared_hinge")
    weights = (3.0, 0.25)
    given = {"products": SOON, "ledger": 75_000, "loss": "squared_hinge", "C": 10.0, "tol": 1e-3}
    whole = Out(X, y, tmp_path, **given, weights=weights)
    variant = Out(X, y, tmp_path, **given, variant=Variant(class_weight=weights))
    assert variant.along_faces > 0
    assert variant.last.certificate.relative_gap <= 1e-3
    assert variant.last.passes == whole.last.passes
    assert variant.along_faces == whole.along_faces
    np.testing.assert_allclose(variant.dual, whole.dual, rtol=1e-4)
