"""Certificates hold for the file, not for what rounding its values to 32-bit floats has left of it.

The twin here reads the text with Python's float and computes every objective in float64.
"""

from __future__ import annotations

import gc
from functools import cache

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from cells import in_turn
from oracle import run

from llsvm.data import open_with_settings
from llsvm.errors import DataError
from llsvm.models.model import Model
from llsvm.objective.losses import new_loss
from llsvm.objective.rounding import CLOSE, Rounding, RoundingBound, most_lost
from llsvm.row_buffer import RowBuffer
from llsvm.scoring.measure import measure
from llsvm.scoring.sources import open_for
from llsvm.settings.objective import CLASSIFICATION, KINDS
from llsvm.settings.settings import Settings
from llsvm.train import load, train
from llsvm.training.training import Training

pytestmark = pytest.mark.filterwarnings("ignore:not converged")


def rows(n=120, d=40, classes=2, seed=0, digits=9):
    """Sparse rows that are nearly separable, with values of that many digits, none of them a float32."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.4, rng.random((n, d)), 0.0)
    X = np.array([[float(f"{v:.{digits}g}") for v in row] for row in X])
    scores = X @ rng.standard_normal((d, classes)) + 0.3 * rng.standard_normal((n, classes))
    return X, scores.argmax(axis=1)


def write_svmlight(path, X, y):
    with path.open("w") as file:
        for row, label in zip(X, y, strict=True):
            cells = (f"{j + 1}:{float(v)!r}" for j, v in enumerate(row) if v)
            file.write(f"{label} {' '.join(cells)}\n")
    return path


def write_csv(path, X, y):
    with path.open("w") as file:
        file.write(",".join([f"c{j}" for j in range(X.shape[1])] + ["label"]) + "\n")
        for row, label in zip(X, y, strict=True):
            file.write(",".join([*(repr(float(v)) for v in row), f"k{label}"]) + "\n")
    return path


def trained(path, **options):
    """The finished Training and its model. Tables as svmlight has them: no scale, no bias."""
    if path.suffix == ".csv":
        options = {"label": "last", "scale": "none", "bias": 0.0} | options
    settings = Settings(**({"threads": 1, "memory_limit": "2GB"} | options))
    with Training(open_with_settings(settings, str(path)), settings) as training:
        reports = list(training)
        return training, training.model, reports


def twin(model, X, y, options):
    """The primal of each problem, in float64, by the weights of the model and the numbers of the text."""
    W, C, k = np.zeros((len(model.coef_), X.shape[1])), options.get("C", 1.0), y.max() + 1
    W[:, : model.coef_.shape[1]] = model.coef_
    F, method, loss = (
        X @ W.T + model.intercept_,
        options.get("multiclass", "ovr"),
        options.get("loss", "hinge"),
    )

    def total(margins):
        return C * (np.maximum(0, 1 - margins) ** (2 if loss == "squared_hinge" else 1)).sum()

    if loss == "least-squares":
        return [0.5 * W[0] @ W[0] + C * ((1 - np.where(y == 1, F[:, 0], -F[:, 0])) ** 2).sum()]
    norms = np.abs(W).sum(axis=1) if options.get("penalty") == "l1" else 0.5 * np.einsum("ij,ij->i", W, W)
    own = F[np.arange(len(y)), y] if k > 2 else None
    if method == "crammer-singer":
        E = F + 1
        E[np.arange(len(y)), y] -= 1
        return [norms.sum() + C * (E.max(axis=1) - own).sum()]
    if method == "weston-watkins":
        E = np.maximum(0, 1 + F - own[:, None])
        E[np.arange(len(y)), y] = 0
        return [norms.sum() + C * E.sum()]
    if k == 2:
        return [norms[0] + total(np.where(y == 1, F[:, 0], -F[:, 0]))]
    if method == "ovr":
        return [norms[c] + total(np.where(y == c, F[:, c], -F[:, c])) for c in range(k)]
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    return [
        norms[c] + total(np.where(y == i, F[:, c], -F[:, c])[(y == i) | (y == j)])
        for c, (i, j) in enumerate(pairs)
    ]


def check(model, X, y, options, optimum):
    """No gap that is reported is smaller than the twin's, against the best dual of the tightest run."""
    certificate, slack = model.certificate, 1e-11 * (1.0 + options.get("C", 1.0))
    for primal, best, mine, gap in zip(
        twin(model, X, y, options), optimum, certificate.dual, certificate.gaps, strict=True
    ):
        assert mine <= primal * (1 + 1e-9) + slack
        assert primal - best <= gap * primal + 1e-9 * primal + slack, (options, primal, best, gap)
    return certificate


CASES = [
    {"solver": "llsvm"},
    {"solver": "llsvm", "loss": "squared_hinge"},
    {"multiclass": "ovr", "solver": "llsvm"},
    {"multiclass": "ovo", "solver": "llsvm"},
    {"multiclass": "crammer-singer"},
    {"multiclass": "weston-watkins"},
    {"solver": "smsvm"},
    {"solver": "smsvm", "loss": "squared_hinge"},
    {"solver": "smsvm", "loss": "squared_hinge", "penalty": "l1"},
    {"solver": "nesvm"},
    {"solver": "nesvm", "loss": "squared_hinge"},
    {"solver": "nesvm", "loss": "least-squares"},
]


def compare(tmp_path, case, write, *limits):
    X, y = rows_of(case)
    path = write(tmp_path / ("rows.csv" if write is write_csv else "rows.svm"), X, y)
    for C, tol in limits:
        options = case | {"C": C, "tol": tol, "max_passes": 60}
        _, model, _ = trained(path, **options)
        check(model, X, y, options, best_dual(tuple((case | {"C": C}).items())))


def rows_of(case):
    return rows(classes=3 if "multiclass" in case else 2)


@cache
def best_dual(given):
    """The best dual of each problem that is known: of the same numbers as 64-bit arrays, which nobody rounds. At
    large C rounding in its sums may end smsvm long before 1e-9: where llsvm solves that problem both are asked.
    given: options by name, which the rows depend on, too."""
    case, duals = dict(given), []
    X, y = rows_of(case)
    solvers = (
        {case.get("solver"), "llsvm"} if case.get("solver") == "smsvm" and "penalty" not in case else {None}
    )
    for solver in solvers:
        options = (
            case | ({"solver": solver} if solver else {}) | {"tol": 1e-9, "max_passes": 200, "threads": 1}
        )
        settings = Settings(**options)
        with Training(open_with_settings(settings, X, y), settings) as training:
            list(training)
            duals.append(training.model.certificate.dual)
    return np.max(duals, axis=0)


@pytest.mark.parametrize("write", [write_svmlight, write_csv])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_no_gap_is_smaller_than_the_files(tmp_path, write, loss):
    # 32-bit floats are enough; are tried, but not enough; are not tried
    compare(tmp_path, {"solver": "llsvm", "loss": loss}, write, (1.0, 1e-3), (1e3, 1e-3), (1e4, 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "write"), in_turn(CASES, [write_svmlight, write_csv], 1))
def test_no_gap_of_any_solver_is_smaller_than_the_files(tmp_path, case, write):
    compare(tmp_path, case, write, (1.0, 1e-3), (1e3, 1e-3), (1e2, 2e-5), (1.0, 1e-7), (1e5, 1e-6))


def test_rounding_is_counted_without_a_second_reading(tmp_path):
    X, y = rows()
    training, model, reports = trained(write_svmlight(tmp_path / "rows.svm", X, y), solver="llsvm")
    assert training.summary()["values"] == "float32"
    assert sum(report.kind == "read" for report in reports) == 1
    certificate = model.certificate
    lost = np.sqrt(((X - X.astype(np.float32)) ** 2).sum())
    least = lost * np.linalg.norm(model.coef_) / np.sqrt(len(y))  # what one row could do
    assert least < certificate.rounding[0] < 1e-3 * certificate.primal[0]
    assert certificate.relative_gap >= certificate.rounding[0] / certificate.primal[0]
    model.save(tmp_path / "m")
    assert Model.load(tmp_path / "m").certificate == certificate


def test_a_first_pass_far_from_the_optimum_is_no_reason_to_read_again(tmp_path):
    """What is known of the dual's move shrinks with the gap: 32-bit floats do."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 10))
    y = (X @ rng.standard_normal(10) + rng.standard_normal(20_000) > 0).astype(int)
    np.save(tmp_path / "rows.npy", np.c_[X, y])
    training, model, reports = trained(tmp_path / "rows.npy", solver="llsvm", label="last", tol=5e-5)
    assert model.converged
    assert training.summary()["values"] == "float32"
    assert max(each.certificate.rounding_gap for each in reports if each.certificate) > 0.25 * 5e-5


@pytest.mark.parametrize("solver", ["auto", "llsvm"])
@pytest.mark.parametrize(
    ("n", "mean", "ledger"),  # the first two: so few values that they are solved in two passes
    [(1000, 4.0, 100_000_000), (1000, 4.0, 800_000), (2000, 12.0, 900_000)],
)
def test_a_second_reading_goes_on_where_the_first_has_come_to(tmp_path, n, mean, ledger, solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10))
    y = (X @ rng.standard_normal(10) + rng.standard_normal(n) > 0).astype(int)
    path = write_svmlight(tmp_path / "rows.svm", X + mean, y)
    spill = tmp_path / "spill"
    spill.mkdir()
    training = run(path, ledger=ledger, solver=solver, tol=1.2e-5, spill_dir=str(spill))
    kinds = [report.kind for report in training.reports]
    again = len(kinds) - kinds[::-1].index("read")
    assert kinds.count("read") == 2
    assert training.summary()["values"] == "float64"
    assert training.reports[-1].converged
    first, second = training.reports[0 : again - 1], training.reports[again:]
    gaps = [each.certificate.relative_gap for each in first if each.kind == "pass"]
    assert second[0].certificate.relative_gap < 0.5 * gaps[-1]
    assert second[0].passes == 2  # a pass has summed the weights
    assert not list(spill.iterdir())


def test_rows_are_let_go_before_they_are_read_again(tmp_path):
    X, y = rows()
    settings = Settings(threads=1, C=1e3, max_passes=60, memory_limit="2GB")
    source = open_with_settings(settings, str(write_svmlight(tmp_path / "rows.svm", X, y)))
    read, kept = source.blocks, []

    def rows_held():
        return [each for each in gc.get_objects() if isinstance(each, RowBuffer) and each.n_rows]

    def blocks(max_bytes):
        kept.append([each for each in rows_held() if not any(each is other for other in of_others)])
        return read(max_bytes)

    source.blocks = blocks
    gc.collect()
    of_others = rows_held()  # of tests before
    gc.disable()
    try:
        with Training(source, settings) as training:
            reports = list(training)
    finally:
        gc.enable()
    assert reports[-1].converged
    assert kept == [[], []]


def test_numbers_that_are_32_bit_floats_stay_so_at_any_tolerance(tmp_path):
    X, y = rows()
    X = np.round(X * 8) / 4  # 0.25, 0.5, ...
    for write, name in ((write_svmlight, "rows.svm"), (write_csv, "rows.csv")):
        training, model, reports = trained(write(tmp_path / name, X, y), solver="llsvm", C=1e4, tol=1e-9)
        assert training.summary()["values"] == "float32"
        assert sum(report.kind == "read" for report in reports) == 1
        assert sum(model.certificate.rounding) < 1e-9 * model.certificate.primal[0]  # of 64-bit sums


@pytest.mark.parametrize("kind", ["npy", "parquet", "hdf5", "npz"])
def test_every_format_keeps_what_the_tolerance_asks_for(tmp_path, kind):
    X, y = rows(n=80, d=12)
    path, options = tmp_path / f"rows.{kind}", {"solver": "llsvm", "scale": "none", "bias": 0.0}
    if kind == "npy":
        np.save(path, np.c_[X, y])
        options["label"] = "last"
    elif kind == "npz":
        np.save(tmp_path / "labels.npy", y)
        sp.save_npz(path, sp.csr_matrix(X))
        options["label"] = str(tmp_path / "labels.npy")
    elif kind == "parquet":
        pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(12)} | {"label": y}), path)
        options["label"] = "label"
    else:
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, y
    for tol, values in ((1e-3, "float32"), (1e-9, "float64")):
        training, model, _ = trained(path, tol=tol, **options)
        assert training.summary()["values"] == values
        primal, certificate = twin(model, X, y, options)[0], model.certificate
        assert primal <= certificate.primal[0] + sum(certificate.rounding) + 1e-9
        assert (certificate.primal[0] == pytest.approx(primal, rel=1e-12)) == (values == "float64")


@pytest.mark.parametrize("scale", ["standard", "unit-row"])
def test_scaled_values_count_their_rounding(tmp_path, scale):
    X, y = rows()
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    _, loose, _ = trained(path, solver="llsvm", scale=scale)
    training, tight, _ = trained(path, solver="llsvm", scale=scale, tol=1e-8)
    assert loose.certificate.rounding[0] > 0
    assert tight.converged
    assert training.summary()["values"] == "float64"
    assert loose.certificate.primal[0] + loose.certificate.rounding[0] >= tight.certificate.dual[0]
    assert loose.certificate.dual[0] <= tight.certificate.primal[0]


@pytest.mark.parametrize("size", [1e-30, 1e-40])
@pytest.mark.parametrize("write", [write_svmlight, write_csv])
def test_numbers_next_to_nothing_count_their_rounding(tmp_path, write, size):
    """Squared as 32-bit floats, they are nothing; kept as such, they lose more than their last digits."""
    X, y = rows(d=6)
    X = (X + 0.1) * size
    path = write(tmp_path / f"rows.{'csv' if write is write_csv else 'svm'}", X, y)
    training, model, _ = trained(path, solver="llsvm", scale="maxabs", tol=1e-2)
    certificate = model.certificate
    assert training.summary()["values"] == "float32"
    span = np.abs(X).max(axis=0)
    w = model.coef_[0] * span
    margins = np.where(y == 1, 1, -1) * (X / span @ w + model.intercept_[0])
    primal = 0.5 * w @ w + np.maximum(0, 1 - margins).sum()
    assert primal <= certificate.primal[0] + certificate.rounding[0]
    lost = np.linalg.norm((X - X.astype(np.float32)) / span)
    assert certificate.rounding[0] > np.sqrt(len(y)) * np.linalg.norm(w) * lost
    assert primal >= certificate.dual[0]


def test_a_column_too_small_for_a_scale_is_refused(tmp_path):
    X, y = rows(d=6)
    X[:, 0] = 1e-310 * (1 + X[:, 0])
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    for scale in ("maxabs", "standard", "minmax"):
        with pytest.raises(
            DataError, match=r"column 1: its values, from 1e-310 to 1.97e-310, differ by too little"
        ):
            trained(path, solver="llsvm", scale=scale)


def test_what_64_bit_sums_lose_counts_where_costs_dwarf_the_objective(tmp_path):
    X, y = rows(d=60)
    X = np.round(X * 1e6)
    path, C, most = write_svmlight(tmp_path / "rows.svm", X, y), 1e12, 0.0
    for passes in (2, 4, 8):
        model = trained(path, solver="llsvm", C=C, tol=1e-9, max_passes=passes)[1]
        certificate, w = model.certificate, model.coef_[0].astype(np.longdouble)
        margins = np.where(y == 1, 1, -1) * (X.astype(np.longdouble) @ w)
        primal = float(0.5 * w @ w + C * np.maximum(0, 1 - margins).sum())
        off = abs(primal - certificate.primal[0])
        most = max(most, off / primal)
        assert off <= sum(certificate.rounding) + 1e-12 * primal
    assert most > 1e-6  # else this shows nothing


def test_a_shift_far_from_zero_takes_no_digits_from_the_scores(tmp_path):
    """The intercept for values as they are has too few: scores are of values less their columns' shift."""
    X, y = rows(d=6)
    X = np.round(X + 1e9, 1)
    C = 1e4
    model = trained(write_svmlight(tmp_path / "rows.svm", X, y), C=C, tol=1e-9, scale="minmax", bias=0.1)[1]
    low, span, wide = X.min(axis=0), np.ptp(X, axis=0), np.longdouble
    w = model.coef_[0].astype(wide)
    raw = model.intercept_[0] + w @ low
    np.testing.assert_array_equal(model.extra["center"], low)
    b = model.extra["at_center"][0]
    margins = np.where(y == 1, 1, -1) * ((X - low).astype(wide) @ w + b)
    np.testing.assert_allclose(model.decision_function(X), (X - low).astype(wide) @ w + b, rtol=1e-9)
    norm = float((w * span) @ (w * span) + (b / 0.1) ** 2)
    primal = 0.5 * norm + float(C * np.maximum(0, 1 - margins).sum())
    certificate = model.certificate
    assert abs(raw - b) > 1e-9 * abs(b)  # else this shows nothing
    assert primal - certificate.dual[0] <= certificate.relative_gap * primal + 1e-12 * primal


def test_what_large_numbers_lose_is_scaled_with_them_beside_categories(tmp_path):
    """A byte lost of a thousand million is nothing once scaled, and no reason to read again."""
    rng = np.random.default_rng(0)
    size, y = rng.integers(10**8, 10**9, 200) | 1, rng.integers(0, 2, 200)
    lines = [f"{a},{'xyz'[a % 3]},{label}" for a, label in zip(size, y, strict=True)]
    path = tmp_path / "sizes.csv"
    path.write_text("\n".join(["bytes,kind,label", *lines]) + "\n")
    training, _, reports = trained(path, solver="llsvm", scale="minmax", label="label")
    assert training.summary()["values"] == "float32"
    assert sum(report.kind == "read" for report in reports) == 1


def test_sample_weights_are_not_rounded():
    X, y = rows()
    weight = np.random.default_rng(0).random(len(y))
    settings = Settings(solver="llsvm", tol=1e-4)
    with Training(open_with_settings(settings, X, y, weight), settings) as training:
        list(training)
        assert training.model.certificate.rounding == ()
        for block in training.stream.all():
            np.testing.assert_array_equal(block.weight, weight[block.rows])


def test_a_table_read_again_leaves_missing_values_to_their_mean(tmp_path):
    X, y = rows(n=60, d=5)
    path = write_csv(tmp_path / "rows.csv", X, y)
    lines = path.read_text().splitlines()
    lines[7] = "," + lines[7].partition(",")[2]
    path.write_text("\n".join(lines) + "\n")
    filled = X.copy()
    filled[6, 0] = np.delete(X[:, 0], 6).mean()
    model = trained(path, solver="llsvm", missing="mean", tol=1e-8)[1]
    assert model.certificate.primal[0] == pytest.approx(twin(model, filled, y, {})[0], rel=1e-9)


def test_the_bound_on_unmeasured_rounding_holds():
    wide = np.random.default_rng(0).lognormal(0, 3, 200_000)
    rounding = Rounding()
    kept = rounding.values(wide)
    assert rounding.squares == pytest.approx(((wide - kept.astype(float)) ** 2).sum())
    assert rounding.squares < most_lost(kept) < 20 * rounding.squares


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "arrays"])
def test_predictions_read_values_as_training_did(tmp_path, kind):
    """Columns far from 0, of which 32-bit floats leave nothing: the model was trained on 64-bit floats."""
    rng = np.random.default_rng(0)
    X = 1e9 + rng.standard_normal((200, 2))
    y = np.where(X[:, 0] > X[:, 1], "more", "less")
    frame = pa.table({"a": X[:, 0], "b": X[:, 1], "label": y})
    path = str(tmp_path / f"rows.{kind}")
    if kind == "csv":
        pacsv.write_csv(frame, path)
    elif kind == "npz":
        np.savez(path, X=X, y=y)
    else:
        pq.write_table(frame, path)
    options = {"memory_limit": "3GB", "threads": 1, "scale": "standard", "bias": 1.0}
    model = train(frame.select(["a", "b"]), y, **options) if kind == "arrays" else train(path, **options)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert (loaded.predict(X) == y).mean() > 0.95
    assert (loaded.predict(frame.select(["a", "b"])) == y).mean() > 0.95
    source = open_for(loaded, path, need_label=True, **({"format": "parquet"} if kind == "arrays" else {}))
    assert measure(loaded, source, memory_limit="3GB")["accuracy"] > 0.95


@pytest.mark.parametrize("lost", [1e-6, 1e-3, 0.1, 3.0])
@pytest.mark.parametrize("slacks", ["all", "few", "none"])
def test_rows_far_beyond_their_margin_hardly_count(lost, slacks):
    """Whatever of E goes to which row, the hinge loss rises by no more than the bound says; and that is far less
    where few rows are close to a loss."""
    rng = np.random.default_rng(5)
    n, norm = 400, 2.0
    margin = {"all": 0.5, "few": 1.2, "none": 3.0}[slacks] + rng.exponential(0.3, n)
    cost = rng.uniform(0.1, 2.0, n)
    w = np.array([norm, 0.0, 0.0])
    close = cost[margin < 1 + CLOSE]
    bound = RoundingBound(lost, np.array([cost @ cost]), np.array([cost.max()]), new_loss("hinge"))
    primal = 0.5 * norm**2 + cost @ np.maximum(0.0, 1.0 - margin)
    risen = [
        bound.certificate(w[None], [primal], [0.0], 1, squares).rounding[0]
        for squares in (np.array([close @ close]), None)
    ]
    assert risen[0] <= risen[1]
    if slacks == "none" and lost < 0.1:
        assert risen[0] < 0.1 * risen[1]
    shares = [np.eye(n)[np.argmin(margin)], cost, np.where(margin < 1 + CLOSE, cost, 0.0)]
    shares += [np.maximum(0.0, 1.0 - margin + tight) for tight in (2 * CLOSE, 0.3, 3.0)]
    shares += [rng.exponential(1.0, n) ** power for power in (1, 3)]
    for share in shares:
        size = np.linalg.norm(share)
        moved = norm * lost * share / size if size else share  # w·e_i, all of it against the row
        rise = cost @ (np.maximum(0.0, 1.0 - margin + moved) - np.maximum(0.0, 1.0 - margin))
        assert rise <= risen[0] * (1 + 1e-12)


@pytest.mark.parametrize("lost", [1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_bound_holds_for_every_loss_whoever_is_moved(name, close, lost):
    """The rows' values are off by E in all, in the worst direction: the primal rises and the dual falls no more
    than the certificate says."""
    rng, loss = np.random.default_rng(3), new_loss(name, epsilon=0.4, quantile=0.3, delta=0.7)
    n, d = 200, 4
    X, cost = rng.normal(size=(n, d)), rng.uniform(0.1, 2.0, n)
    w = rng.normal(size=d)
    sign = np.where(X @ w + rng.normal(size=n) > 0, 1.0, -1.0) if loss.kind == CLASSIFICATION else np.ones(n)
    target = 1.0 if loss.kind == CLASSIFICATION else X @ w + rng.standard_t(3, n)
    for _ in range(200):  # towards the optimum, for a gap that is not too large
        a = -loss.derivative(sign * (X @ w), target)
        w += 0.02 * ((cost * a * sign) @ X - w) / cost.sum()
    margin = sign * (X @ w)
    alpha = cost * -loss.derivative(margin, target)
    v = (alpha * sign) @ X

    def primal(moved):
        return 0.5 * w @ w + cost @ loss.value(margin + moved, target)

    dual = cost @ loss.dual_value(alpha / cost, target) - 0.5 * v @ v
    bound = RoundingBound(lost, np.array([cost @ cost]), np.array([cost.max()]), loss)
    squares = np.array([np.sum(cost[~loss.is_flat(margin, CLOSE, target)] ** 2)]) if close else None
    exact = np.array([primal(0.0)]), np.array([dual])
    certificate = bound.certificate(np.append(w, 0.0)[None], *exact, 1, squares)
    fallen = np.linalg.norm(alpha) * lost
    assert dual - np.linalg.norm(v) * fallen - 0.5 * fallen**2 >= certificate.dual[0] - 1e-9
    slopes = -loss.derivative(margin, target)
    for share in (cost * slopes, np.sign(slopes) * cost, np.eye(n)[0], rng.normal(size=n), cost):
        for direction in (-1.0, 1.0):
            moved = direction * np.linalg.norm(w) * lost * share / max(np.linalg.norm(share), 1e-300)
            assert primal(moved) - exact[0][0] <= certificate.rounding[0] * (1 + 1e-9)


@pytest.mark.parametrize("name", ["hinge", "squared_epsilon_insensitive"])
def test_an_intercept_that_is_not_penalised_is_rounded_too(name):
    """Sums of margins lose as much where the constant feature's weight is large, whatever the penalty is of."""
    w, bound = np.array([1e-3, 1e6]), {}
    for free in (False, True):
        numbers = {"free_bias": free, "noise": 2.0**-52}
        bound[free] = RoundingBound(0.0, np.ones(1), np.ones(1), new_loss(name), **numbers)
    certificates = [bound[free].certificate(w[None], [1.0], [1.0], 1) for free in (True, False)]
    assert certificates[0].rounding == certificates[1].rounding
    assert certificates[0].rounding[0] > 1e-10


def test_residuals_next_to_a_large_epsilon_are_rounded():
    """|t − m| − ε keeps no more digits than ε has, however small the margins are."""
    rng = np.random.default_rng(0)
    X, y, C, epsilon = 1e-3 * rng.normal(size=(8, 200)), rng.choice([-1.0, 1.0], 8) * (1e7 + 1), 1e7, 1e7
    training = run(X, y, loss="epsilon_insensitive", epsilon=epsilon, C=C, solver="llsvm", max_passes=30)
    w, certificate = np.longdouble(training.model.coef_[0]), training.model.certificate
    true = 0.5 * w @ w + C * np.maximum(np.abs(y - np.longdouble(X) @ w) - epsilon, 0).sum()
    assert certificate.rounding[0] >= C * 1e-9
    assert true <= certificate.primal[0] + certificate.rounding[0]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "one_class"])
def test_what_rounding_hides_counts_with_tiny_sample_weights(tmp_path, loss):
    """Of Σ s² weights s of 1e-30 leave no trace beside the number of rows."""
    rng = np.random.default_rng(0)
    X, s, y = 100 * rng.normal(size=(90, 2)), 1e-30 * rng.random(90), rng.choice([-1.0, 1.0], 90)
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "s": s, "y": y}), path)
    C = 1e26
    labels = {"exclude": ["y"], "nu": 1.0} if loss == "one_class" else {"label": "y", "C": C}
    model = train(path, weight="s", loss=loss, scale="none", bias=0.0, **labels)
    w, b, claimed = np.longdouble(model.coef_[0]), np.longdouble(model.intercept_[0]), model.certificate
    if loss == "one_class":
        true = w @ w / 2 + s.sum() * b + s @ np.maximum(-(X @ w + b), 0)
    else:
        true = w @ w / 2 + C * s @ np.maximum(1 - y * (X @ w), 0) ** (1 + (loss == "squared_hinge"))
    assert abs(true - claimed.primal[0]) <= sum(claimed.rounding) + 1e-14 * abs(true)
