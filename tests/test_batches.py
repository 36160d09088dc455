"""Data that come from the caller's own program in batches, or as tables with their labels in a column."""

import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import llsvm
from llsvm.data.batches import batches_of, stream_of
from llsvm.errors import UsageError

N, STEP = 900, 150


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, N))
    label = np.where(x + z + 0.3 * rng.normal(size=N) > 0, "yes", "no")
    words = rng.choice(["good film", "bad film", "a plot"], N)
    return pa.table({"x": x, "z": z, "town": rng.choice(list("abc"), N), "words": words, "y": label})


@pytest.fixture(scope="module")
def file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("batches") / "rows.parquet"
    pq.write_table(table, path, row_group_size=STEP)
    return path


class Stream:
    """What is known to Arrow by its C stream interface alone, as relations of DuckDB are."""

    def __init__(self, table):
        self._table = table
        self.columns = table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Batches:
    """What can be iterated again and again, as loaders of data are."""

    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        return iter(self._batches)


def _frame(library):
    return lambda table, file: getattr(pytest.importorskip("polars"), library)(
        {name: table[name].to_numpy() for name in table.column_names}
    )


def _pandas(table, file):
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    return frame.set_index(frame.index[::-1])  # which is no position


def _relation(table, file):
    return pytest.importorskip("duckdb").sql(f"from '{file}'")


KINDS = {
    "pandas": _pandas,
    "polars": _frame("DataFrame"),
    "polars, lazy": _frame("LazyFrame"),
    "polars, scanned": lambda table, file: pytest.importorskip("polars").scan_parquet(file),
    "duckdb": _relation,
    "iterable": lambda table, file: Batches(table.to_batches(STEP)),
    "list": lambda table, file: [table.slice(0, 400), table.slice(400)],
    "dataset, filtered": lambda table, file: pyarrow.dataset.dataset(file).filter(pa.compute.field("x") > -9),
    "table": lambda table, file: table,
    "stream": lambda table, file: Stream(table),
    "reader": lambda table, file: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(STEP)),
    "dataset": lambda table, file: pyarrow.dataset.dataset(file),
    "callable": lambda table, file: lambda: iter(table.to_batches(STEP)),
    "callable of tables": lambda table, file: lambda: [table.slice(0, 400), table.slice(400)],
    "callable of a table": lambda table, file: lambda: table,
    "iterator": lambda table, file: iter(table.to_batches(STEP)),
}


@pytest.fixture(
    scope="module",
    params=[
        {"exclude": ["words"]},
        {"text": ["words"], "hash_bits": 6, "missing": "zero", "term_weight": "binary"},
    ],
)
def of_file(request, file):
    """(options, the model of the file, what it answers about the file)."""
    options = {"label": "y", "threads": 1, **request.param}
    model = llsvm.train(file, **options)
    return options, model, (llsvm.evaluate(model, file), llsvm.predict(model, file))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_model_of_the_file(table, file, of_file, kind):
    options, same, (evaluated, predicted) = of_file
    ours = llsvm.train(KINDS[kind](table, file), **options)
    assert ours.coef_.tobytes() == same.coef_.tobytes()
    assert ours.intercept_.tobytes() == same.intercept_.tobytes()
    assert ours.feature_names == same.feature_names
    assert ours.certificate == same.certificate
    assert llsvm.evaluate(same, KINDS[kind](table, file)) == evaluated
    found = llsvm.predict(same, KINDS[kind](table, file))
    assert (found == predicted).all()
    library = kind.partition(",")[0]
    assert type(found).__module__.partition(".")[0] == (
        library if library in ("pandas", "polars") else "numpy"
    )
    if kind == "pandas":
        assert (found.index == np.arange(N)[::-1]).all()


def arrays(sparse=False):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 5)).astype(np.float32)
    y = np.where(X @ np.arange(5) > 0, 1, -1)
    w = rng.integers(1, 3, N).astype(float)
    if sparse:
        from scipy.sparse import csr_matrix

        X[np.abs(X) < 0.7] = 0
        X = csr_matrix(X)
    return X, y, w


@pytest.mark.parametrize("sparse", [False, True])
def test_batches_of_arrays_that_are_filled_anew_give_the_model_of_the_arrays(sparse):
    X, y, w = arrays(sparse)

    def batches():
        held = None if sparse else np.empty((STEP, 5), np.float32)
        for at in range(0, N, STEP):
            part = slice(at, at + STEP)
            if sparse:
                yield X[part], y[part], w[part]
            else:
                held[:] = X[part]
                yield held, y[part], w[part]

    whole = llsvm.train(X, y, sample_weight=w, threads=1, tol=1e-6)
    again, once = llsvm.train(batches, threads=1, tol=1e-6), llsvm.train(batches(), threads=1, tol=1e-6)
    np.testing.assert_allclose(again.coef_, whole.coef_, rtol=1e-2, atol=1e-3)
    assert again.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-5)
    assert again.coef_.tobytes() == once.coef_.tobytes()
    assert (llsvm.predict(whole, batches) == llsvm.predict(whole, X)).all()
    assert llsvm.evaluate(whole, batches)["accuracy"] == llsvm.evaluate(whole, X, y, w)["accuracy"]


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_mapped_file_gives_the_model_of_the_file(tmp_path, mode):
    X, y, w = arrays()
    np.savez(tmp_path / "rows.npz", X=X, y=y, weight=w)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode=mode)
    if mode == "c":
        mapped[0] = 0.0  # which is nowhere but in memory
        mapped[0] = X[0]
    same = llsvm.train(tmp_path / "rows.npz", weight="weight", threads=1)
    ours = llsvm.train(mapped[:], y, sample_weight=w, threads=1)
    assert ours.coef_.tobytes() == same.coef_.tobytes()
    assert ours.certificate == same.certificate
    assert (llsvm.predict(same, mapped) == llsvm.predict(same, tmp_path / "rows.npz")).all()
    assert (ours.log["bytes_read"] > 0) == (mode != "c")


X, Y, _ = arrays()
PARTS = [(X[:500], Y[:500]), (X[500:], Y[500:])]


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (lambda: iter(()), {}, "there is none; give at least one"),
        (lambda: [X], {}, "is no table"),
        (lambda: [(X,)], {}, "a batch of 1 parts: give"),
        (
            lambda: [PARTS[0], (X[:, :3], Y)],
            {},
            "3 columns in the batch that begins with row 501, where the first",
        ),
        (lambda: PARTS, {"format": "csv"}, "format='csv' is for files"),
        (lambda: PARTS, {"sample_weight": np.ones(N)}, "labels and weights come with the batches"),
        (
            lambda: [pa.table({"a": [1.0, 2.0], "y": [0, 1]}), pa.table({"y": [1]})],
            {"label": "y"},
            "without the column a that the first one has; give it that column .*exclude a",
        ),
        (
            lambda: [pa.table({"a": [1.0, None], "y": [0, 1]})],
            {"label": "y"},
            "column a: the value is missing in row 2",
        ),
        (
            iter([pa.table({"a": [1.0, None], "y": [0, 1]})]),
            {"label": "y"},
            "the value is missing in row 2; pass missing",
        ),
        (lambda: [pa.table({"a": [1.0], "y": [0]})], {"label": "z"}, "z"),
    ],
)
def test_what_is_wrong_with_batches_is_said(data, options, said):
    with pytest.raises(llsvm.LLSVMError, match=said.replace("(", r"\(")):
        llsvm.train(data, **options)


def test_what_can_be_read_once_is_not_read_twice(table):
    batches = iter(table.to_batches(STEP))
    model = llsvm.train(batches, label="y", exclude=["words"])
    assert model.converged
    with pytest.raises(llsvm.DataError, match="there is none"):
        llsvm.predict(model, batches)


STREAMED = """
import sys
import numpy as np
import pyarrow as pa
import llsvm

kind, limit, path = sys.argv[1:]

def batches():
    rng = np.random.default_rng(0)
    for _ in range(30):
        X = rng.normal(size=(10_000, 100)).astype(np.float32)
        yield X, X[:, 0] > 0

class Tables:
    def __iter__(self):
        for X, y in batches():
            yield pa.table({f"x{j}": column for j, column in enumerate(X.T)} | {"y": y})

y = None
if kind == "iterable":
    data = Tables()
elif kind == "memmap":
    data, y = np.load(path, mmap_mode="r+"), np.concatenate([y for _, y in batches()])
elif kind == "dataset":
    import pyarrow.dataset
    data = pyarrow.dataset.dataset(path)
elif kind in ("duckdb", "bounded"):
    import duckdb
    if kind == "bounded":
        duckdb.sql("set memory_limit = '120MB'")
    data = duckdb.sql(f"from '{path}'")
elif kind == "polars":
    import polars
    data = polars.scan_parquet(path)
else:
    data = batches

model = llsvm.train(data, y, label=None if kind in ("callable", "memmap") else "y", memory_limit=limit,
                    threads=2, tol=0.5)
assert model.converged
print(1024 * int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """120 MB, as Parquet and as an array."""
    folder, rng = tmp_path_factory.mktemp("large"), np.random.default_rng(0)
    X = rng.normal(size=(300_000, 100)).astype(np.float32)
    np.save(folder / "rows.npy", X)
    columns = {f"x{j}": column for j, column in enumerate(X.T)} | {"y": X[:, 0] > 0}
    pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=10_000, use_dictionary=False)
    return folder


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        ("callable", 300),
        pytest.param("iterable", 330, marks=pytest.mark.slow),
        pytest.param("memmap", 300, marks=pytest.mark.slow),
        pytest.param("dataset", 380, marks=pytest.mark.slow),
        pytest.param("duckdb", 840, marks=pytest.mark.slow),
        pytest.param("bounded", 600, marks=pytest.mark.slow),
        pytest.param("polars", 800, marks=pytest.mark.slow),
    ],
)
def test_what_does_not_fit_keeps_the_limit(kind, limit, request):
    """120 MB of rows, the runtime, and the library that gives them, in limits that they would not fit in whole."""
    path = ""
    if kind in ("memmap", "dataset", "duckdb", "bounded", "polars"):
        path = request.getfixturevalue("large") / ("rows.npy" if kind == "memmap" else "rows.parquet")
    if kind in ("duckdb", "bounded", "polars"):
        pytest.importorskip("polars" if kind == "polars" else "duckdb")
    given = [sys.executable, "-c", STREAMED, kind, f"{limit}MB", str(path)]
    done = subprocess.run(given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) <= limit * 1e6  # DuckDB draws a bar before it


@pytest.mark.slow
@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_a_small_result_needs_little_room(library, tmp_path):
    """It is taken whole, once."""
    pytest.importorskip(library)
    X = np.random.default_rng(0).normal(size=(20_000, 20))
    columns = {f"x{j}": column for j, column in enumerate(X.T)} | {"y": X[:, 0] > 0}
    pq.write_table(pa.table(columns), tmp_path / "small.parquet")
    given = [sys.executable, "-c", STREAMED, library, "430MB", str(tmp_path / "small.parquet")]
    done = subprocess.run(given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) <= 430e6


@pytest.mark.parametrize("library", ["polars", "duckdb"])
@pytest.mark.parametrize(("rows", "library_bytes"), [(1000, 64 << 20), (600_000, 200 << 20)])
def test_what_is_small_counts_little(library, rows, library_bytes, tmp_path):
    pq.write_table(pa.table({"x": np.zeros(rows), "y": np.zeros(rows)}), tmp_path / "a.parquet")
    file = tmp_path / "a.parquet"
    if library == "polars":
        batches = batches_of(pytest.importorskip("polars").scan_parquet(file))
    else:
        batches = stream_of(_relation(None, file))
    assert batches.library_bytes >= library_bytes
    assert (batches.library_bytes < 2 * library_bytes) or rows > 1000
    assert sum(table.num_rows for table in batches.read()) == rows


@pytest.mark.parametrize(
    ("first", "later", "refused"),
    [
        (["a", "b"], [1, 2], None),  # categories, as of a later Parquet file
        (["1.5", "2.5"], [1.5, 2.5], None),
        (["2024-01-31", "2024-02-29"], pa.array([0, 1], pa.timestamp("s")), None),
        (
            ["2024-01-31", "2024-02-29"],
            [1, 2],
            "column c has type int64, but holds dates or times in the first one",
        ),
    ],
    ids=["categories", "numbers", "dates", "numbers among dates"],
)
def test_a_later_table_without_text_in_a_column_of_text(first, later, refused):
    tables = [pa.table({"c": c, "y": [0, 1]}) for c in (first, later)]
    if refused:
        with pytest.raises(llsvm.DataError, match=refused):
            llsvm.train(tables, label="y")
    else:
        assert llsvm.train(tables, label="y").n_rows == 4


@pytest.mark.parametrize("begin", ["few values", "no value", "no row", "of numbers"])
@pytest.mark.parametrize("once", [lambda t: t.to_reader(10), lambda t: iter(t.to_batches(10))])
def test_what_is_read_once_is_typed_by_as_many_rows_as_other_data(begin, once):
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    c = [str(v) for v in rng.integers(0, 100, 600)]
    c[:20] = {"few values": ["1", "2"] * 10, "no value": [None] * 20}.get(begin, c[:20])
    c = [*(["1.0"] * 20), *(["2.0.1", "x"] * 290)] if begin == "of numbers" else c
    table = pa.table({"x": x, "c": c, "y": np.where(x > 0, "a", "b")})
    data = pa.concat_tables([table.slice(0, 0), table]) if begin == "no row" else table
    options = {"label": "y", "missing": "mean", "tol": 1e-7}
    wanted, found = (llsvm.train(each, **options) for each in (data, once(data)))
    assert found.feature_names == wanted.feature_names
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("given", [list, iter, lambda batches: lambda: iter(batches)])
def test_a_column_that_only_a_later_batch_has_is_left_out_with_a_note(given):
    first = pa.table({"x": np.arange(40.0), "y": np.repeat(["a", "b"], 20)})
    data = given([first, first.append_column("z", first["x"])])
    with pytest.warns(
        UserWarning, match="a later one: column z is left out: the first one has none of that name"
    ):
        assert llsvm.train(data, label="y").feature_names == ("x",)


def test_names_of_later_batches_may_differ_by_space():
    first = pa.table({"x": np.arange(40.0), "y": np.repeat(["a", "b"], 20)})
    assert llsvm.train([first, first.rename_columns([" x", "y "])], label="y").n_rows == 80


def test_groups_of_folds_in_text_that_arrow_has_as_views(tmp_path):
    table = pa.table({"x": np.arange(40.0), "g": ["k", "l", "m", "n"] * 10, "y": ["a", "b"] * 20})
    views = pa.table(
        {name: table[name].cast(pa.string_view()) if name != "x" else table[name] for name in "xgy"}
    )
    found, wanted = (llsvm.tune(each, label="y", C=[0.1, 1], folds=2, group="g") for each in (views, table))
    assert found.best_C == wanted.best_C


def test_open_files_are_refused_with_what_to_give_instead(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + "1,a\n-1,b\n" * 4)
    model = llsvm.train(str(path), label="y")
    with open(path) as file:
        for data in (file, io.StringIO(path.read_text()), io.BytesIO(path.read_bytes())):
            for asked in (
                lambda given: llsvm.train(given, label="y"),
                lambda given: llsvm.predict(model, given),
            ):
                with pytest.raises(UsageError, match=r"the data are an open file .*: give its path, or"):
                    asked(data)


def test_scanners_and_fragments_of_a_dataset_are_read_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    pq.write_table(pa.table({"x": x, "z": rng.normal(size=200), "y": x > 0}), tmp_path / "rows.parquet")
    dataset = pyarrow.dataset.dataset(tmp_path / "rows.parquet")
    model = llsvm.train(dataset, label="y")
    for of_dataset in (dataset.scanner, lambda: next(dataset.get_fragments())):
        assert llsvm.train(of_dataset(), label="y").coef_.tolist() == model.coef_.tolist()
        assert llsvm.evaluate(model, of_dataset()) == llsvm.evaluate(model, dataset)
        assert llsvm.predict(model, of_dataset()).tolist() == llsvm.predict(model, dataset).tolist()
