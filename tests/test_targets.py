"""Labels that are numbers, or nothing: what blocks have of them wherever rows lie, and what is refused by name."""

from fractions import Fraction
from itertools import product
from operator import mul

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from cells import pairwise
from format_files import rows, write
from oracle import small_pages, write_svmlight

import llsvm
from llsvm.data import open_source
from llsvm.data.derived import LabelsOfKind
from llsvm.errors import DataError, UsageError
from llsvm.features.targets import Targets, as_targets
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import Needs
from llsvm.row_buffer import RowBuffer, row_bytes
from llsvm.settings.objective import CLASSIFICATION, REGRESSION, UNLABELLED
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream

N = 500


def data(weighted=False):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 30)) * (rng.random((N, 30)) < 0.4)
    X[:, 0] = rng.normal(size=N)
    y = (rng.normal(size=N) * 1e4 + np.arange(N)).round(2)
    return X, y, rng.random(N).astype(np.float32) if weighted else None


def opened(data, folder, y=None, weight=None, kind=REGRESSION, ledger=10_000_000, **options):
    source = open_source(data, y, weight, label_kind=kind)
    stream = Stream(source, MemoryBudget(ledger, 0), folder, **options)
    stream.read()
    stream.prepare(Needs({}, 100))
    return stream


def seen(blocks):
    """y by row number, of blocks that may share their memory."""
    found = {}
    for block in blocks:
        assert block.y.dtype == np.float64
        assert block.has_targets
        assert not block.class_ids.any()
        found |= dict(zip(block.rows.tolist(), block.y.tolist(), strict=True))
    return found


@pytest.mark.parametrize(
    ("where", "spill_format", "weighted"),
    [
        *product(["cache", "source", "memory"], ["arrow", "hdf5"], [False]),  # svmlight has no weights
        *pairwise(["arrays", "sparse arrays", "scaled arrays"], ["arrow", "hdf5"], [False, True]),
    ],
)
def test_every_pass_has_the_targets(monkeypatch, tmp_path, where, spill_format, weighted):
    small_pages(monkeypatch)
    X, y, weight = data(weighted)
    ledger = 10_000_000 if where == "memory" else 60_000
    if where in ("cache", "source", "memory"):
        given, labels = write_svmlight(tmp_path / "rows.svm", X, y), None
    else:
        given, labels = (sp.csr_matrix(X) if where == "sparse arrays" else X), y
    cache = {"cache": "always", "source": "never"}.get(where, "auto")
    scale = "maxabs" if where == "scaled arrays" else "none"
    options = {"cache": cache, "scale": scale, "spill_format": spill_format}
    with opened(given, tmp_path, labels, weight, ledger=ledger, **options) as stream:
        expected = dict(enumerate(y.tolist()))
        for _ in range(2):
            assert seen(stream.all()) == expected
        info = stream.dataset
        assert (info.kind, info.n_classes, len(info.classes), info.counts.tolist()) == (REGRESSION, 1, 0, [N])
        facts = info.target
        mean = np.average(y, weights=weight)
        std = np.sqrt(np.average((y - mean) ** 2, weights=weight))
        np.testing.assert_allclose([facts.mean, facts.std], [mean, std], rtol=1e-12)
        assert (facts.smallest, facts.largest) == (y.min(), y.max())


@pytest.mark.parametrize("place", ["resident", "spilled"])
def test_survivors_keep_their_targets(monkeypatch, tmp_path, place):
    small_pages(monkeypatch)
    X, y, _ = data()
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    with opened(path, tmp_path, cache="always", ledger=60_000) as stream:
        slack = 0.0 if place == "spilled" else np.inf
        for block in stream.all():
            offered = np.where(block.rows % 7 == 0, 0.0, slack).astype(np.float32)
            stream.survivors.add(block, offered, 0.0)
            stream.survivors.wait_for_selection()
        stream.survivors.swap_generation()
        found = seen([stream.resident])
        if place == "spilled":
            assert stream.survivors.spilled is not None
            found |= seen(stream.active())
        wanted = range(0, N, 7) if place == "resident" else range(N)
        assert found == {row: y[row] for row in wanted}


@pytest.mark.parametrize("where", ["file", "arrays", "arrays without y"])
def test_rows_without_labels(tmp_path, where):
    X, y, _ = data()
    given, labels = X, y if where == "arrays" else None
    if where == "file":
        given = write_svmlight(tmp_path / "rows.svm", X, np.ones(N))  # one class would be refused
    with opened(given, tmp_path, labels, kind=UNLABELLED) as stream:
        assert seen(stream.all()) == dict.fromkeys(range(N), 0.0)
        assert (stream.dataset.kind, stream.dataset.n_classes, stream.dataset.target) == (UNLABELLED, 1, None)


def test_data_sets_differ_by_their_targets(tmp_path):
    X, y, _ = data()

    def digest(y):
        with opened(X, tmp_path, y) as stream:
            return stream.dataset.digest

    assert digest(y) == digest(y.copy())
    other = y.copy()
    other[3] += 1e-9
    assert digest(other) != digest(y)


def test_mean_and_deviation_of_many_pieces():
    y = np.random.default_rng(0).normal(1e9, 1.0, 10_000)
    taken = Targets()
    for part in np.split(y, [1, 2, 700, 5000]):
        taken.encode(part)
    np.testing.assert_allclose([taken.target.mean, taken.target.std], [y.mean(), y.std()], rtol=1e-6)


@pytest.mark.parametrize("width", [None, 9])
def test_rows_with_targets_take_more_room(width):
    assert row_bytes(10, 0, 4, width, False, True) == row_bytes(10, 0, 4, width, False) + 40
    buffer = RowBuffer(10_000, np.dtype(np.float32), width, False, True)
    assert buffer.block().y.dtype == np.float64


@pytest.mark.parametrize("kind", ["svm", "csv", "jsonl", "vw", "parquet", "feather", "h5", "npz"])
def test_numbers_are_the_same_from_every_format(tmp_path, kind):
    X, _ = rows()
    y = np.random.default_rng(1).integers(-99, 99, len(X)) * 1e17  # no class could be as large
    source = open_source(write(tmp_path, kind, X, y), label_kind=REGRESSION)
    found = np.concatenate([block.y for block in source.blocks(1000)])
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, y)


def csv(tmp_path, values, name="prices.csv"):
    path = tmp_path / name
    lines = [f"{i},{i % 3},{value}" for i, value in enumerate(values)]
    path.write_text("\n".join(["size,rooms,price", *lines, ""]))
    return str(path)


def read(source):
    return np.concatenate([block.y for block in source.blocks(1 << 20)])


@pytest.mark.parametrize(("n_before", "place"), [(2, " row 3"), (100_000, "100002")])
def test_a_label_of_text_is_named(tmp_path, n_before, place):
    path = csv(tmp_path, [*range(n_before), "ask", 5])
    source = open_source(path, options={"label": "price"}, label_kind=REGRESSION)
    with pytest.raises(
        DataError, match=rf"prices\.csv:{place}: column price: the label 'ask': it is not a number"
    ):
        read(source)


def test_in_the_second_file_it_is_named_there(tmp_path):
    paths = [csv(tmp_path, ["1", "2", "3"]), csv(tmp_path, ["4", "ask"], "more.csv")]
    source = open_source(paths, options={"label": "price"}, label_kind=REGRESSION)
    with pytest.raises(DataError, match=r"more\.csv:3: column price: the label 'ask': it is not a number"):
        read(source)


def test_numbers_written_as_text_are_numbers(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "label": ["1.5", " -2e3"]}), path)
    assert read(open_source(str(path), label_kind=REGRESSION)).tolist() == [1.5, -2000.0]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.array([1.0, np.inf]), "infinity"),
        (np.array([1.0, np.nan]), "NaN"),
        (np.array(["1", "two"]), "row 2: the label 'two': it is not a number"),
    ],
)
def test_arrays(labels, says):
    with pytest.raises(DataError, match=says):
        read(open_source(np.eye(2), labels, label_kind=REGRESSION))


@pytest.mark.parametrize("value", ["inf", "-Infinity", "nan"])
def test_a_target_that_is_not_finite(tmp_path, value):
    path = csv(tmp_path, ["1", "2", value])
    source = open_source(path, options={"label": "price"}, label_kind=REGRESSION)
    with pytest.raises(DataError, match=r"row 3: column price: the label is (infinite|missing|NaN)"):
        read(source)
    svm = tmp_path / "rows.svm"
    svm.write_text(f"1 1:2\n{value} 1:3\n")
    with pytest.raises(DataError, match=r"rows\.svm:2: label .* not finite"):
        read(open_source(svm, label_kind=REGRESSION))


def test_a_date_is_no_target(tmp_path):
    path = csv(tmp_path, ["2024-01-01", "2024-01-02"])
    with pytest.raises(DataError, match=r"column price: .*date.*not a number"):
        read(open_source(path, options={"label": "price"}, label_kind=REGRESSION))


def test_a_constant_target_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"all 500 rows have the same target, 2\.5"):
        opened(data()[0], tmp_path, np.full(N, 2.5))


def test_missing_targets_are_refused(tmp_path):
    path = csv(tmp_path, ["1", "", "3"])
    with pytest.raises(DataError, match=r"row 2: column price: the label is missing"):
        read(open_source(path, options={"label": "price"}, label_kind=REGRESSION))


def test_labels_of_unlabelled_rows_are_not_looked_at(tmp_path):
    path = csv(tmp_path, ["1", "", "ask"])
    source = open_source(path, options={"label": "price"}, label_kind=UNLABELLED)
    assert read(source).tolist() == [0.0] * 3
    assert source.info().n_features == 2


def test_the_wrapper_of_classes_is_none():
    assert open_source(np.eye(2), [0, 1]).info().label_kind == CLASSIFICATION
    assert isinstance(open_source(np.eye(2), [0.5, 1], label_kind=REGRESSION), LabelsOfKind)


def test_a_label_cut_for_its_length():
    with pytest.raises(ValueError, match=r"label 'a{37}\.\.\.'") as caught:
        as_targets(np.array(["1", "a" * 100]))
    assert caught.value.args[0] == 1


@pytest.mark.parametrize("where", ["cache", "source", "memory", "arrays"])
def test_scaled_targets_have_mean_0_and_variance_1(monkeypatch, tmp_path, where):
    small_pages(monkeypatch)
    X, y, _ = data()
    given, labels = (X, y) if where == "arrays" else (write_svmlight(tmp_path / "rows.svm", X, y), None)
    source = open_source(given, labels, label_kind=REGRESSION, target_scale="standard")
    ledger = 60_000 if where in ("cache", "source") else 10_000_000
    cache = {"cache": "always", "source": "never"}.get(where, "auto")
    with Stream(source, MemoryBudget(ledger, 0), tmp_path, cache=cache) as stream:
        stream.read()
        stream.prepare(Needs({}, 100))
        facts = stream.dataset.target
        assert (facts.unit, facts.shift, facts.spread) == (facts.std, facts.mean, 1.0)
        for _ in range(2):
            found = seen(stream.all())
            np.testing.assert_allclose([found[row] for row in range(N)], (y - y.mean()) / y.std(), rtol=1e-9)


def house_prices(tmp_path):
    rng = np.random.default_rng(0)
    size, rooms = rng.normal(100, 30, N), rng.integers(1, 6, N)
    price = 150_000 + 2_000 * size - 9_000 * rooms + rng.normal(0, 5_000, N)
    path = tmp_path / "prices.csv"
    np.savetxt(
        path, np.c_[size, rooms, price], delimiter=",", header="size,rooms,price", comments="", fmt="%.6f"
    )
    return str(path), np.c_[size, rooms], price


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "epsilon_insensitive", "epsilon": 0.02},
        {"loss": "huber", "delta": 0.5},
        {"loss": "quantile", "quantile": 0.4},
    ],
)
def test_tables_are_trained_with_scaled_targets(tmp_path, options):
    """The same model as of targets that were scaled by hand."""
    path, X, price = house_prices(tmp_path)
    model = llsvm.train(path, label="price", tol=1e-8, **options)
    assert model.settings["target_scale"] == "standard"
    Z, t = (X - X.mean(axis=0)) / X.std(axis=0), (price - price.mean()) / price.std()
    other = llsvm.train(Z, t, bias=1, tol=1e-8, **options)
    np.testing.assert_allclose(model.predict(X), other.predict(Z) * price.std() + price.mean(), rtol=1e-4)
    assert model.certificate.total_primal == pytest.approx(other.certificate.total_primal, rel=1e-6)
    assert llsvm.evaluate(model, path, label="price")["r2"] > 0.98
    if options["loss"] == "huber":
        return  # whose square is all the larger
    raw = llsvm.train(path, label="price", target_scale="none", **options)
    assert llsvm.evaluate(raw, path, label="price")["r2"] < 0.5  # C = 1 is nothing beside such labels


def test_scaled_targets_are_of_regressions():
    with pytest.raises(UsageError, match="target_scale is for labels that are numbers"):
        Settings(target_scale="standard")
    assert Settings().resolved(True).target_scale == "none"
    assert Settings(loss="huber").resolved(False).target_scale == "none"


def test_many_numbers_as_classes_are_doubted(tmp_path):
    X, _, _ = data()
    with Stream(open_source(X, np.arange(N) // 2), MemoryBudget(10_000_000, 0), tmp_path) as stream:
        stream.read()
        assert "250 different numbers as labels, each a class: for a regression pass" in stream.note
    for labels in (np.arange(N) % 90, (np.arange(N) // 2).astype(str)):
        with Stream(open_source(X, labels), MemoryBudget(10_000_000, 0), tmp_path) as stream:
            stream.read()
            assert "regression" not in stream.note


@pytest.mark.parametrize("door", ["csv", "parquet", "frame"])
def test_a_column_of_whole_numbers_with_few_rows_each_is_no_class_unless_that_is_said(door, tmp_path):
    def of(n_classes, n):
        table = pd.DataFrame({"x": np.sin(np.arange(n)), "price": np.arange(n) % n_classes * 7 + 100})
        if door == "frame":
            return table
        path = tmp_path / f"{n_classes}.{door}"
        table.to_csv(path, index=False) if door == "csv" else table.to_parquet(path)
        return str(path)

    options = {"label": "price", "memory_limit": "2GB", "max_passes": 1, "tol": 10.0}
    with pytest.raises(
        DataError,
        match=r"column price: its 600 rows have 150 different numbers as labels.*pass loss.*categorical",
    ):
        llsvm.train(of(150, 600), **options)
    assert llsvm.train(of(150, 600), loss="epsilon_insensitive", **options).is_regression
    assert len(llsvm.train(of(150, 600), categorical=["price"], **options).classes_) == 150
    assert len(llsvm.train(of(120, 1200), **options).classes_) == 120  # ten rows each
    assert len(llsvm.train(of(90, 200), **options).classes_) == 90
    assert (
        len(
            llsvm.train(np.eye(300), np.arange(300) // 2, memory_limit="2GB", max_passes=1, tol=10.0).classes_
        )
        == 150
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_targets_that_differ_in_their_last_digits_are_scaled_exactly(weighted):
    """The mean, of which a 64-bit float has too few digits, is known beyond these."""
    y = 1e9 * (1 + 2.0**-44 * np.random.default_rng(0).integers(0, 9, 40))
    weight = np.random.default_rng(1).integers(1, 4, 40).astype(float) if weighted else None
    X = np.random.default_rng(2).normal(size=(40, 2))
    steps = [Fraction(value) - Fraction(1e9) for value in y]
    times = [1] * 40 if weight is None else [int(value) for value in weight]
    mean = sum(map(mul, times, steps)) / sum(times)
    variance = sum(n * (step - mean) ** 2 for n, step in zip(times, steps, strict=True)) / sum(times)
    scaled = np.array([float(step - mean) for step in steps]) / np.sqrt(float(variance))
    given = {"loss": "huber", "bias": 0.0, "tol": 1e-9, "sample_weight": weight}
    found = llsvm.train(X, y, target_scale="standard", **given)
    expected = llsvm.train(X, scaled, **given)
    np.testing.assert_allclose(found.certificate.primal, expected.certificate.primal, rtol=1e-9)
    assert llsvm.verify(found, X, y, weight)["holds"]
