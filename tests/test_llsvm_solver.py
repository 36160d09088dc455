"""The LLSVM solver against LIBLINEAR, and the properties that no block size, layout or spill may change."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cells import in_turn, pairwise
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import dense, liblinear, objective, rows, small_pages, with_bias, write_svmlight
from oracle import run as run_any

from llsvm.data import open_source
from llsvm.errors import BudgetError
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import MemoryLeft
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.llsvm.sweeps import Sweeps
from llsvm.stream.stream import Stream


def run(*data, **options):
    return run_any(*data, **{"solver": "llsvm", **options})


TIGHT = 1e-6
SQUARED_C = 0.05  # in many blocks the squared hinge takes hundreds of passes where C is large
LEDGER = 30_000  # with small_pages: a few blocks, some survivors


@pytest.fixture
def small(monkeypatch):
    small_pages(monkeypatch)


def assert_optimal(training, X, y, squared=False, weight=None, C=1.0, bias=0.0, tol=TIGHT):
    """The certificate is true, and the optimum lies where it says (LIBLINEAR's is an upper bound of it)."""
    loss = "squared_hinge" if squared else "hinge"
    theirs, _ = liblinear(X, y, C, loss, weight, bias)
    coef = training.coef[0]
    wide = with_bias(X, bias)
    assert training.stream.dataset.n_features == X.shape[1]
    ours = (
        coef[training.stream.dataset.first_column :]
        if bias
        else coef[training.stream.dataset.first_column : -1]
    )
    cost = C * (np.ones(X.shape[0]) if weight is None else np.asarray(weight, float))
    primal = objective(ours, wide, np.where(y == y.max(), 1.0, -1.0), cost, squared)
    certificate = training.reports[-1].certificate
    assert training.reports[-1].converged
    assert certificate.relative_gap <= tol
    assert certificate.total_primal == pytest.approx(primal, rel=1e-9)
    assert certificate.total_dual <= theirs * (1 + 1e-9)
    assert primal <= theirs / (1 - tol) * (1 + 1e-9)


# -- against LIBLINEAR --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_the_optimum_in_one_block(loss, bias, C):
    X, y = rows(n=300)
    training = run(X, y, loss=loss, bias=bias, C=C, tol=TIGHT)
    assert_optimal(training, X, y, loss == "squared_hinge", C=C, bias=bias)


@pytest.mark.parametrize(
    ("loss", "layout", "bias"), pairwise(["hinge", "squared_hinge"], [np.asarray, sp.csr_matrix], [0.0, 1.0])
)
def test_the_optimum_of_arrays_in_many_blocks(small, loss, layout, bias):
    X, y = rows(n=500, density=0.8)
    C = SQUARED_C if loss == "squared_hinge" else 1.0
    training = run(layout(X), y, ledger=LEDGER, loss=loss, bias=bias, C=C, tol=TIGHT, max_passes=None)
    assert not training.stream.in_one_block
    assert_optimal(training, X, y, loss == "squared_hinge", C=C, bias=bias)


@pytest.mark.parametrize(
    ("cache", "spill_format", "density"), pairwise(["always", "never", "auto"], ["arrow", "hdf5"], [0.2, 0.9])
)
def test_the_optimum_of_a_file_in_many_blocks(small, tmp_path, cache, spill_format, density):
    X, y = rows(n=500, density=density)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    options = {"cache": cache, "spill_format": spill_format, "bias": 1.0, "spill_dir": str(tmp_path)}
    training = run(path, ledger=LEDGER, tol=TIGHT, max_passes=None, **options)
    assert training.stream.place == ("source" if cache == "never" else "cache")
    assert_optimal(training, X, y, bias=1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["rows.svm"]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("ledger", [None, LEDGER])
def test_class_and_sample_weights(small, loss, ledger):
    X, y = rows(n=500)
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    C = SQUARED_C if loss == "squared_hinge" and ledger else 0.7
    options = {"class_weight": {0: 0.3, 1: 2.0}, "C": C, "loss": loss, "tol": TIGHT, "max_passes": None}
    training = run(X, y, weight, ledger=ledger, **options)
    cost = weight * np.where(y == 1, 2.0, 0.3)
    assert_optimal(training, X, y, loss == "squared_hinge", weight=cost, C=C)


def test_balanced_is_what_scikit_learn_means():
    X, y = rows(n=400)
    keep = (y == 1) | (np.arange(len(y)) % 5 == 0)
    X, y = X[keep], y[keep]
    factor = len(y) / (2 * np.bincount(y))
    assert_optimal(run(X, y, class_weight="balanced", tol=TIGHT), X, y, weight=factor[y])


@pytest.mark.parametrize(("ledger", "class_weight"), in_turn([None, 4 * LEDGER], [None, {1: 3.0, 3: 0.2}], 1))
def test_one_against_the_rest(small, ledger, class_weight):
    X, y = rows(n=600, classes=4)
    options = {"tol": TIGHT, "bias": 1.0, "max_passes": None, "class_weight": class_weight}
    training = run(X, y, ledger=ledger, **options)
    certificate = training.reports[-1].certificate
    assert training.coef.shape == (4, X.shape[1] + 1)
    for c in range(4):
        weight = np.where(y == c, (class_weight or {}).get(c, 1.0), 1.0)
        theirs, w = liblinear(X, (y == c).astype(int), weight=weight, bias=1.0)
        assert certificate.dual[c] <= theirs * (1 + 1e-9)
        assert certificate.primal[c] == pytest.approx(theirs, rel=2 * TIGHT)
        np.testing.assert_allclose(training.coef[c], w, atol=0.01 * np.abs(w).max())


def test_values_in_float64():
    X, y = rows(n=300)
    X = X + 1e-12  # not float32 any more
    X[:, 0] += 1e9
    X[:, 0] -= 1e9
    assert_optimal(run(X, y, tol=TIGHT), X, y)


# -- awkward rows -------------------------------------------------------------------------------------------


def awkward(kind):
    X, y = rows(n=120)
    if kind == "rows without features":
        X[::3] = 0.0
    elif kind == "duplicates":
        X, y = np.repeat(X[:30], 4, axis=0), np.repeat(y[:30], 4)
    elif kind == "contradictions":
        X, y = np.vstack([X[:60], X[:60]]), np.concatenate([y[:60], 1 - y[:60]])
    elif kind == "nothing but contradictions without features":
        X[:] = 0.0
    elif kind == "empty columns":
        X[:, ::2] = 0.0
    elif kind == "large and small rows":
        X = (X * np.logspace(-1, 0.5, len(X))[:, None]).astype(np.float32).astype(float)
    elif kind == "separable":
        X[:, 0] = np.where(y == 1, 3.0, -3.0)
    elif kind == "two rows":
        X, y = np.array([[1.0] * 8, [-1.0] * 8]), np.array([1, 0])
    return X, y


KINDS = [
    "rows without features",
    "duplicates",
    "contradictions",
    "nothing but contradictions without features",
    "empty columns",
    "large and small rows",
    "separable",
    "two rows",
]


ONE_ROW_BLOCKS = {"block_bytes": 200, "block_rows": 1, "survivor_bytes": 4000, "survivor_rows": 50}


@pytest.mark.parametrize(
    ("kind", "loss", "layout", "ledger"),
    pairwise(KINDS, ["hinge", "squared_hinge"], [np.asarray, sp.csr_matrix], [None, 22_000]),
)
def test_awkward_rows(monkeypatch, kind, loss, layout, ledger):
    X, y = awkward(kind)
    small_pages(monkeypatch)
    C = SQUARED_C if loss == "squared_hinge" and ledger else 1.0
    training = run(layout(X), y, ledger=ledger, loss=loss, C=C, tol=1e-4, max_passes=400)
    assert_optimal(training, X, y, loss == "squared_hinge", C=C, tol=1e-4)


def check_one_row_blocks(monkeypatch, kind, loss, max_passes, C=1.0):
    X, y = awkward(kind)
    small_pages(monkeypatch, page_bytes=1)
    plan, one_block, ledger = MemoryLeft.plan, MemoryLeft._one_block, 20_000

    def only_of_more(self, row_work_bytes, copy_survivors):
        """Two rows would fit in memory: a plan and dual variables of one block are not to be handed its rows one by
        one. A limit is searched for under which all do."""
        return one_block(self, row_work_bytes, copy_survivors) if self.limit_bytes > ledger else None

    monkeypatch.setattr(MemoryLeft, "_one_block", only_of_more)
    monkeypatch.setattr(MemoryLeft, "plan", lambda self, needs: replace(plan(self, needs), **ONE_ROW_BLOCKS))
    training = run(X, y, ledger=ledger, loss=loss, C=C, tol=1e-4, max_passes=max_passes)
    assert not training.stream.in_one_block
    assert [block.n_rows for block in training.stream.again()] == [1] * len(y)
    assert_optimal(training, X, y, loss == "squared_hinge", C=C, tol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_blocks(monkeypatch, kind):
    check_one_row_blocks(monkeypatch, kind, "hinge", 400)


# A row at a time, the squared hinge's dual needs hundreds of passes on such data: its curvature along most
# directions is that of the ridge alone.
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_one_row_blocks_with_the_squared_hinge(monkeypatch, kind):
    check_one_row_blocks(monkeypatch, kind, "squared_hinge", 3000, C=0.2)


def test_a_file_sorted_by_label_needs_at_most_twice_the_passes(small, tmp_path):
    X, y = rows(n=3000, d=10, noise=0.3)
    order = np.argsort(y, kind="stable")
    options = {"ledger": 100_000, "survivors": 0.125, "spill_dir": str(tmp_path)}
    mixed = run(write_svmlight(tmp_path / "a.svm", X, y), **options)
    ordered = run(write_svmlight(tmp_path / "b.svm", X[order], y[order]), **options)
    assert mixed.stream.place == ordered.stream.place == "cache"
    assert mixed.reports[-1].converged
    assert ordered.reports[-1].converged
    assert ordered.reports[-1].passes <= 2 * mixed.reports[-1].passes


# -- what must not change the optimum -----------------------------------------------------------------------


def smallest_ledger(data, y, **options):
    """The smallest that a run with next to nothing asks for."""
    ledger = 1
    while True:
        asked = smallest_asked_for(data, y, ledger, **options)
        if asked is None:
            return ledger
        assert asked > ledger
        ledger = asked


def smallest_asked_for(data, y, ledger, **options):
    """The limit that a refusal names, or None if there is no refusal."""
    try:
        run(data, y, ledger=ledger, max_passes=2, **options)
    except BudgetError as error:
        return error.smallest_bytes
    return None


@given(
    extra_bytes=st.sampled_from([0, 3000, 20_000, 200_000]),
    page_bytes=st.sampled_from([40, 300, 2000, 10_000]),
    is_file=st.booleans(),
    sparse=st.booleans(),
    cache=st.sampled_from(["always", "never"]),
    spill_format=st.sampled_from(["arrow", "hdf5"]),
    survivors=st.sampled_from([1.0, 0.3, 0.01]),
    loss=st.sampled_from(["hinge", "squared_hinge"]),
    seed=st.integers(0, 3),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_way_of_reading_changes_the_optimum(
    tmp_path, extra_bytes, page_bytes, is_file, sparse, cache, spill_format, survivors, loss, seed
):
    X, y = rows(n=120, density=0.4 if sparse else 1.0)
    C = SQUARED_C if loss == "squared_hinge" else 1.0
    data = (
        write_svmlight(tmp_path / f"{sparse}.svm", X, y) if is_file else (sp.csr_matrix(X) if sparse else X)
    )
    with pytest.MonkeyPatch.context() as patch:
        small_pages(patch, page_bytes)
        training = run(
            data,
            None if is_file else y,
            ledger=smallest_ledger(data, None if is_file else y, bias=1.0) + extra_bytes,
            cache=cache,
            spill_format=spill_format,
            survivors=survivors,
            loss=loss,
            seed=seed,
            C=C,
            tol=1e-5,
            max_passes=None,
            bias=1.0,
            spill_dir=str(tmp_path),
        )
    assert_optimal(training, X, y, loss == "squared_hinge", C=C, bias=1.0, tol=1e-5)


@pytest.mark.parametrize("ledger", [None, LEDGER])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_same_seed_gives_the_same_weights(small, tmp_path, ledger, threads):
    X, y = rows(n=500, density=0.5)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    first, second = (run(path, ledger=ledger, threads=threads, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.coef, second.coef)
    assert first.reports[-1].certificate == second.reports[-1].certificate


# -- the state it keeps -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "ledger", "loss", "paper"),
    pairwise(
        [np.asarray, sp.csr_matrix], [100_000_000, 4 * LEDGER], ["hinge", "squared_hinge"], [False, True]
    ),
)
def test_weights_and_dual_are_those_of_the_dual_variables(small, tmp_path, paper, loss, ledger, layout):
    """After every report: w = Σ α y x and the dual objective is D(α), α in its bounds."""
    # Paper mode goes on with the survivors until they settle to tol, whatever the passes.
    settles_slowly = paper and loss == "squared_hinge" and ledger == 4 * LEDGER
    tol = 1e-2 if settles_slowly else 1e-6
    X, y = rows(n=500, classes=3, density=0.7)
    weight = np.random.default_rng(2).integers(0, 3, len(y)).astype(np.float32)
    chosen = Settings(loss=loss, tol=tol, bias=0.5, C=2.0, paper=paper, max_passes=8)
    solver = LLSVM(chosen, np.array([1.0, 0.5, 2.0]))
    costs = [2.0 * weight * np.where(y == c, factor, 1.0) for c, factor in enumerate([1.0, 0.5, 2.0])]
    wide = with_bias(X, 0.5)
    source = open_source(layout(X), y, weight)
    with Stream(source, MemoryBudget(ledger, 0), tmp_path) as stream:
        stream.read()
        for report in solver.solve(stream):
            assert stream.in_one_block == (ledger > 4 * LEDGER)
            duals = solver.run.duals
            if duals.stored is None:
                assert stream.in_one_block
                share = duals.whole.shares()
            else:
                share = duals.stored.get(np.arange(len(y)))
            assert share.min() >= 0
            if loss == "hinge":
                assert share.max() <= 1
            for c, cost in enumerate(costs):
                sign = np.where(y == c, 1.0, -1.0)
                alpha = share[:, c].astype(float) * cost
                w = (alpha * sign) @ wide
                weight_of_bias = np.append(w[:-1], w[-1])
                np.testing.assert_allclose(solver.run.sweeps.w[c], weight_of_bias, rtol=1e-9, atol=1e-9)
                dual = alpha.sum() - 0.5 * w @ w
                if loss == "squared_hinge":
                    used = cost > 0
                    dual -= (alpha[used] ** 2 / (4 * cost[used])).sum()
                assert solver.dual[c] == pytest.approx(dual, rel=1e-9)
            if report.certificate is not None:
                for c, primal in enumerate(report.certificate.primal):
                    sign, cost = np.where(y == c, 1.0, -1.0), costs[c]
                    w = report.coef[c]
                    assert primal == pytest.approx(objective(w, wide, sign, cost, loss != "hinge"), rel=1e-9)
                    if (
                        report.kind == "pass"
                    ):  # the epochs that follow improve the dual, and leave the certificate
                        assert report.certificate.dual[c] == pytest.approx(solver.dual[c])
                    assert primal >= report.certificate.dual[c] * (1 - 1e-12)


# -- the slides' algorithm ----------------------------------------------------------------------------------


def slow_paper(X, sign, C, order, tol):
    """The slides' algorithm in NumPy: one update of each row, then of those with 0 < α < C until they settle."""
    alpha, w = np.zeros(len(X)), np.zeros(X.shape[1])

    def update(i):
        new = min(max(alpha[i] - (sign[i] * (w @ X[i]) - 1) / (X[i] @ X[i]), 0.0), C)
        w[:] += (new - alpha[i]) * sign[i] * X[i]
        change, alpha[i] = abs(new - alpha[i]), new
        return change

    for i in order:
        update(i)
    survivors = [i for i in order if 0 < alpha[i] < C]
    while survivors:
        changed = sum(update(i) for i in survivors)
        total = alpha[survivors].sum()
        survivors = [i for i in survivors if 0 < alpha[i] < C]
        if changed <= tol * total:
            break
    return alpha, w, survivors


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_paper_mode_is_the_slides_algorithm(tmp_path, monkeypatch, layout):
    monkeypatch.setattr(Sweeps, "shuffled", lambda self, c, rows: np.array(rows))  # as they lie
    X, y = rows(n=200)
    sign = np.where(y == 1, 1.0, -1.0)
    alpha, w, kept = slow_paper(X, sign, 0.5, range(len(y)), 1e-6)
    solver = LLSVM(Settings(C=0.5, paper=True, tol=1e-6), np.ones(2))
    with Stream(open_source(layout(X), y), MemoryBudget(100_000_000, 0), tmp_path) as stream:
        stream.read()
        reports = list(solver.solve(stream))
        np.testing.assert_allclose(solver.run.sweeps.w[0, :-1], w, rtol=1e-6, atol=1e-9)
        stored = solver.run.duals.stored.get(np.arange(len(y)))
        np.testing.assert_allclose(stored * 0.5, alpha, rtol=1e-6, atol=1e-9)
        assert sorted(stream.resident.rows) == sorted(kept)
    primal = objective(w, X, sign, np.full(len(y), 0.5))
    assert reports[-1].certificate.total_primal == pytest.approx(primal, rel=1e-6)


@pytest.mark.parametrize(("loss", "ledger"), in_turn(["squared_hinge", "hinge"], [None, LEDGER], 1))
def test_paper_mode_hands_back_a_true_certificate(small, tmp_path, ledger, loss):
    X, y = rows(n=500)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    training = run(path, ledger=ledger, paper=True, loss=loss, spill_dir=str(tmp_path))
    certificate = training.reports[-1].certificate
    theirs, _ = liblinear(X, y, loss=loss)
    ones = np.ones(len(y))
    ours = objective(training.coef[0][1:-1], X, 2.0 * y - 1, ones, loss == "squared_hinge")
    assert certificate.total_primal == pytest.approx(ours, rel=1e-9)
    assert certificate.total_dual <= theirs <= certificate.total_primal * (1 + 1e-9)
    assert certificate.relative_gap < 0.5


def test_paper_mode_keeps_no_more_survivors_than_it_may():
    """All rows are in memory as one block: none of those beyond the share goes to disk, where it would be one."""
    X, y = rows(n=60)
    training = run(X, y, paper=True, survivors=0.25, C=1e6)  # half of the rows are free
    assert max(report.survivors for report in training.reports) == 15
    assert training.stream.bytes_spilled == 0


def test_small_data_is_solved_to_the_last_digits():
    """A row written three times is a row of weight 3, and a row of weight 0 is none, whatever the order."""
    X, y = rows(n=60, classes=3)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = run(X, y, weight.astype(float), bias=1.0)
    order = np.random.default_rng(1).permutation(weight.sum())
    repeated = run(X.repeat(weight, axis=0)[order], y.repeat(weight)[order], bias=1.0)
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-8, atol=1e-9)


def test_dense_helper_agrees_with_scipy():
    X = sp.random(7, 5, 0.4, "csr", random_state=0)
    block = next(open_source(X, np.arange(7) % 2).blocks(1 << 20))
    np.testing.assert_array_equal(dense(block.X), X.toarray()[:, : dense(block.X).shape[1]])
