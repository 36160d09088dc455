"""One table by every way in: the same model, the same evaluation, the same predictions; and every type that Arrow
has, taken or refused by its name."""

import datetime as dt
import decimal
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from cells import in_turn

import llsvm
from llsvm.errors import DataError, UsageError

N = 120
ROOM = {"memory_limit": "8GB", "threads": 1}


def table(label):
    """Columns of every kind, and labels of that kind, which depend on them."""
    rng = np.random.default_rng(5)
    amount, age = np.round(rng.normal(size=N) * 30, 3), rng.integers(-5, 50, N)
    color = np.array(["red", "green", "blue"])[rng.integers(0, 3, N)]
    score = amount / 30 + (color == "red") - (age > 20) + rng.normal(size=N) / 2
    days = [dt.date(2023, 1, 1) + dt.timedelta(int(k)) for k in rng.integers(0, 400, N)]
    seconds = [dt.datetime(2023, 1, 1) + dt.timedelta(seconds=int(k)) for k in rng.integers(0, 40_000_000, N)]
    columns = {
        "amount": amount,
        "age": age,
        "member": rng.integers(0, 2, N).astype(bool),
        "color": color,
        "day": pa.array(days),
        "time": pa.array(seconds, pa.timestamp("us")),
        "gaps": pa.array(np.round(rng.normal(size=N), 3), mask=rng.random(N) < 0.1),
        "price": pa.array([decimal.Decimal(int(k)).scaleb(-2) for k in rng.integers(0, 9999, N)]),
        "weight": rng.integers(0, 3, N),
        "y": LABELS[label](score),
    }
    return pa.table(columns)


def of_two(make):
    return lambda score: pa.array([make(int(s > 0)) for s in score])


LABELS = {
    "whole": of_two(int),
    "several": lambda score: pa.array(np.array([3, 7, 9])[np.digitize(score, [-0.3, 0.6])]),
    "float": of_two(lambda k: [1.5, 2.5][k]),
    "bool": of_two(bool),
    "text": of_two(lambda k: ["no", "yes"][k]),
    "code": of_two(lambda k: ["01", "02"][k]),
    "date": of_two(lambda k: dt.date(2024, 1, 1 + k)),
    "timestamp": of_two(lambda k: dt.datetime(2024, 1, 1 + k, 5)),
    "decimal": of_two(lambda k: decimal.Decimal(k)),
    "dictionary": lambda score: LABELS["text"](score).dictionary_encode(),
    "number": lambda score: pa.array(np.round(score, 4)),
}


def options(label):
    more = {"loss": "epsilon_insensitive"} if label == "number" else {}
    more |= {"categorical": ["y"]} if label == "code" else {}
    more |= {"loss": "squared_hinge"} if label == "several" else {}  # without rows that two margins touch
    return {"label": "y", "weight": "weight", "missing": "mean", "tol": 1e-9, **more, **ROOM}


def jsonl(rows, path):
    def plain(value):
        return float(value) if isinstance(value, decimal.Decimal) else value.isoformat()

    path.write_text("".join(json.dumps(row, default=plain) + "\n" for row in rows.to_pylist()))


def csv(rows, path):
    pacsv.write_csv(
        rows.set_column(rows.num_columns - 1, "y", rows["y"].cast(value_type(rows["y"].type))), path
    )


def value_type(type_):
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def arrow(rows, path):
    feather.write_feather(rows, str(path), compression="uncompressed")


FILES = {"csv": csv, "jsonl": jsonl, "parquet": lambda rows, path: pq.write_table(rows, path), "arrow": arrow}


def pandas(rows, **more):
    pytest.importorskip("pandas")
    return rows.to_pandas(**more)


def polars(rows):
    return pytest.importorskip("polars").from_arrow(rows)


def duckdb(rows):
    return pytest.importorskip("duckdb").from_arrow(rows)


FRAMES = {
    "table": lambda rows: rows,
    "batches": lambda rows: rows.to_batches(max_chunksize=50),
    "pandas": pandas,
    "pandas of times": lambda rows: pandas(rows, date_as_object=False),
    "pandas of Arrow": lambda rows: pandas(rows, types_mapper=pytest.importorskip("pandas").ArrowDtype),
    "pandas of nullable types": lambda rows: pandas(rows).convert_dtypes(),
    "pandas of categories": lambda rows: pandas(rows).astype({"color": "category"}),
    "pandas of objects": lambda rows: pandas(rows).astype({"member": object, "color": object, "y": object}),
    "polars": polars,
    "polars of categories": lambda rows: polars(rows).cast(
        {"color": pytest.importorskip("polars").Categorical}
    ),
    "polars, lazy": lambda rows: polars(rows).lazy(),
    "duckdb": duckdb,
}


def answers(data, label):
    model = llsvm.train(data, **options(label))
    found = llsvm.predict(model, data)
    return model, llsvm.evaluate(model, data, weight="weight"), np.asarray(found)


@pytest.fixture(scope="module")
def by_csv(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("doors"), {}

    def of(label):
        if label not in found:
            csv(table(label), folder / f"{label}.csv")
            found[label] = answers(str(folder / f"{label}.csv"), label)
        return found[label]

    return of


@pytest.mark.parametrize(("door", "label"), in_turn([*FILES, *FRAMES], LABELS, 3))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_answer_whichever_way_the_data_come_in(tmp_path, by_csv, door, label):
    rows = table(label)
    if door in FILES:
        data = str(tmp_path / f"rows.{door}")
        FILES[door](rows, tmp_path / f"rows.{door}")
    else:
        data = FRAMES[door](rows)
    model, figures, predictions = answers(data, label)
    expected, expected_figures, expected_predictions = by_csv(label)
    assert model.feature_names == expected.feature_names
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-7)
    assert model.classes_.tolist() == expected.classes_.tolist()
    whole = label in ("whole", "several") and door not in ("csv", "jsonl")  # where text has floats
    assert model.classes_.dtype == (np.int64 if whole else expected.classes_.dtype)
    assert not whole or predictions.dtype == np.int64
    if label == "number":
        np.testing.assert_allclose(predictions, expected_predictions, rtol=1e-5, atol=1e-6)
        assert figures["r2"] == pytest.approx(expected_figures["r2"], rel=1e-6)
        return
    assert predictions.tolist() == expected_predictions.tolist()
    assert figures["confusion"] == expected_figures["confusion"]
    assert figures["unknown_rows"] == 0
    assert figures["roc_auc" if label != "several" else "accuracy"] > 0.7


@pytest.mark.parametrize("label", ["bool", "date", "timestamp", "decimal", "text", "code"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_labels_apart_are_those_of_a_column(label):
    """y as a list of Python values, as a frame's column, and as NumPy has it."""
    pd = pytest.importorskip("pandas")
    rows = table(label)
    X = np.column_stack([rows["amount"].to_numpy(), rows["age"].to_numpy()])
    values = rows["y"].to_pylist()
    found = []
    for y in (values, pd.Series(values, dtype=object), rows["y"].to_pandas(date_as_object=False)):
        model = llsvm.train(X, y, **ROOM)
        assert llsvm.evaluate(model, X, y)["unknown_rows"] == 0
        found.append(model.classes_.tolist())
    assert found[0] == found[1] == found[2]
    categorical = ["y"] if label == "code" else []
    named = llsvm.train(rows, label="y", features=["amount"], categorical=categorical, **ROOM)
    assert found[0] == named.classes_.tolist()


def test_bools_stay_bools(tmp_path):
    rows = table("bool").select(["amount", "age", "y"])
    model = llsvm.train(rows, output=tmp_path / "m", label="y", class_weight={True: 2.0}, **ROOM)
    assert model.classes_.tolist() == [False, True]
    assert model.labels == ["false", "true"]
    assert llsvm.predict(tmp_path / "m", rows).dtype == bool
    llsvm.write_predictions(model, rows, tmp_path / "p.parquet")
    assert pq.read_schema(tmp_path / "p.parquet").field("prediction").type == pa.bool_()
    same = llsvm.train(rows, label="y", class_weight={"true": 2.0}, **ROOM)
    np.testing.assert_array_equal(same.coef_, model.coef_)
    positive = llsvm.train(rows, label="y", positive="true", **ROOM)
    assert llsvm.evaluate(positive, rows)["accuracy"] > 0.7
    # a model of an earlier version, whose labels are text
    old = llsvm.train(rows.set_column(2, "y", rows["y"].cast(pa.string())), label="y", **ROOM)
    assert llsvm.evaluate(old, rows)["accuracy"] > 0.7
    assert llsvm.evaluate(model, rows.set_column(2, "y", rows["y"].cast(pa.string())))["unknown_rows"] == 0


def test_a_label_that_is_named_as_categorical_is_text(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + "".join(f"{i},0{i % 2}\n" for i in range(20)))
    assert llsvm.train(path, label="y", **ROOM).classes_.tolist() == [0.0, 1.0]
    model = llsvm.train(path, label="y", categorical=["y"], output=tmp_path / "m", **ROOM)
    assert model.classes_.tolist() == ["00", "01"]
    assert llsvm.evaluate(tmp_path / "m", path)["unknown_rows"] == 0
    assert set(llsvm.predict(tmp_path / "m", path)) <= {"00", "01"}


@pytest.mark.parametrize("words", [["1", "2"], ["01", "02"], ["1", "x"]])
def test_text_that_looks_like_numbers_is_the_same_label_in_csv(tmp_path, words):
    rows = pa.table({"a": np.arange(60.0) % 29, "y": np.array(words)[np.arange(60) % 29 // 15]})
    model = llsvm.train(rows, label="y", **ROOM)
    wanted = llsvm.evaluate(model, rows)
    assert wanted["accuracy"] > 0.9
    for some in (rows, rows.filter(pa.compute.equal(rows["y"], words[0]))):  # the first may be all numbers
        csv(some, tmp_path / "rows.csv")
        found = llsvm.evaluate(model, tmp_path / "rows.csv")
        assert found["unknown_rows"] == 0
        assert found["accuracy"] == llsvm.evaluate(model, some)["accuracy"]


@pytest.mark.parametrize("words", [["TRUE", "FALSE"], ["True", "False"], ["true", "false"]])
def test_text_that_is_true_or_false_is_the_same_label_in_csv(tmp_path, words):
    rows = pa.table({"a": np.arange(60.0) % 29, "y": np.array(words)[np.arange(60) % 29 // 15]})
    csv(rows, tmp_path / "rows.csv")
    bools = rows.set_column(1, "y", pa.compute.equal(rows["y"], words[0]))
    doors = (rows, bools, tmp_path / "rows.csv")
    for trained_on in doors:
        model = llsvm.train(trained_on, label="y", **ROOM)
        found = [llsvm.evaluate(model, each) for each in doors]
        assert found[0]["accuracy"] > 0.9
        assert [each["unknown_rows"] for each in found] == [0, 0, 0]
        assert len({each["accuracy"] for each in found}) == 1


def with_gaps(make):
    return [None if i == 7 else make(i % 5) for i in range(60)]


def dictionary(values):
    return pa.DictionaryArray.from_arrays(pa.array(with_gaps(int), pa.int32()), values)


WORDS = ["a", "b", "c", "d", "e"]
TAKEN = {
    **{str(t): pa.array(with_gaps(int), t) for t in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64())},
    **{str(t): pa.array(with_gaps(float), t) for t in (pa.float32(), pa.float64())},
    "halffloat": pa.array(with_gaps(np.float16), pa.float16()),
    "bool": pa.array(with_gaps(lambda k: k > 2)),
    **{
        str(t): pa.array(with_gaps(lambda k: WORDS[k]), t)
        for t in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{str(t): pa.array(with_gaps(lambda k: dt.date(2024, 1, 1 + k)), t) for t in (pa.date32(), pa.date64())},
    **{
        str(t): pa.array(with_gaps(lambda k: dt.datetime(2024, 1, 1 + k)), t)
        for unit in ("s", "ms", "us", "ns")
        for t in (pa.timestamp(unit), pa.timestamp(unit, "UTC"))
    },
    **{str(t): pa.array(with_gaps(lambda k: dt.time(k)), t) for t in (pa.time32("ms"), pa.time64("ns"))},
    "duration": pa.array(with_gaps(int), pa.int64()).cast(pa.duration("s")),
    **{
        str(t): pa.array(with_gaps(decimal.Decimal), t)
        for t in (pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(20, 2), pa.decimal256(50, 2))
    },
    "a decimal of thousands": pa.array(with_gaps(lambda k: decimal.Decimal(1000 * k)), pa.decimal128(5, -3)),
    "runs": pa.RunEndEncodedArray.from_arrays([7, 8, 30, 60], pa.array(["a", None, "b", "c"])),
    "uuid": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array(with_gaps(lambda k: bytes(15) + bytes([k])), pa.binary(16))
    ),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(with_gaps(lambda k: f'{{"k": {k}}}'))),
    "truth values in bytes": pa.ExtensionArray.from_storage(
        pa.bool8(), pa.array(with_gaps(lambda k: k % 2), pa.int8())
    ),
    "codes of text": dictionary(pa.array(WORDS)),
    "codes of views": dictionary(pa.array(WORDS, pa.string_view())),
    "codes of text or nothing": dictionary(pa.array(["a", None, "c", "d", "e"])),
    "codes of numbers": dictionary(pa.array([1.0, 2.0, 3.0, 4.0, 5.0])),
    "codes of dates": dictionary(pa.array([dt.date(2024, 1, 1 + k) for k in range(5)])),
}
REFUSED = {
    "binary": pa.array(with_gaps(lambda k: b"ab")),
    "binary_view": pa.array(with_gaps(lambda k: b"ab"), pa.binary_view()),
    "fixed_size_binary": pa.array(with_gaps(lambda k: b"ab"), pa.binary(2)),
    "month_day_nano": pa.array(with_gaps(lambda k: pa.MonthDayNano([1, k, 3]))),
    "dictionary<values=binary": dictionary(pa.array([word.encode() for word in WORDS])),
    "list<item: string>": pa.array([["a"]] * 60),
    "list_view": pa.array([[1.0]] * 60, pa.list_view(pa.float64())),
    "map": pa.array([[("a", 1)]] * 60, pa.map_(pa.string(), pa.int64())),
    "union": pa.UnionArray.from_sparse(
        pa.array([i % 2 for i in range(60)], pa.int8()), [pa.array(range(60)), pa.array(["a"] * 60)]
    ),
    "extension<arrow.opaque": pa.ExtensionArray.from_storage(
        pa.opaque(pa.int64(), "period", "pandas"), pa.array(with_gaps(int))
    ),
}


@pytest.fixture(params=["table", "arrow"])
def as_data(request, tmp_path):
    def made(rows):
        if request.param == "table":
            return rows
        with ipc.new_file(str(tmp_path / "rows.arrow"), rows.schema) as writer:
            writer.write_table(rows)
        return str(tmp_path / "rows.arrow")

    return made


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_arrow_types_that_are_taken(as_data, kind):
    x = np.random.default_rng(0).normal(size=60)
    data = as_data(pa.table({"x": x, "c": TAKEN[kind], "y": x > 0}))
    model = llsvm.train(data, label="y", missing="zero", **ROOM)
    assert model.feature_names[1].startswith("c") or "c=" in str(model.feature_names)
    assert llsvm.evaluate(model, data)["accuracy"] > 0.9
    data = as_data(pa.table({"x": x, "y": TAKEN[kind]}))
    model = llsvm.train(data, label="y", missing_label="drop", **ROOM)
    assert len(model.classes_) >= 2
    assert set(np.asarray(llsvm.predict(model, data)).tolist()) <= set(model.classes_.tolist())


@pytest.mark.parametrize("kind", REFUSED)
def test_arrow_types_that_are_refused_by_name(as_data, kind):
    x = np.random.default_rng(0).normal(size=60)
    with pytest.raises((DataError, UsageError), match=r"column c has type .*cannot be a feature") as feature:
        llsvm.train(as_data(pa.table({"x": x, "c": REFUSED[kind], "y": x > 0})), label="y", **ROOM)
    with pytest.raises((DataError, UsageError), match=r"column y has type .*cannot be the label") as label:
        llsvm.train(as_data(pa.table({"x": x, "y": REFUSED[kind]})), label="y", **ROOM)
    assert kind in str(feature.value)
    assert kind in str(label.value)


def frames_that_arrow_cannot_hold():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    y = np.arange(50) % 2
    mixed = pd.DataFrame({"x": y * 1.0, "c": ["a", 1] * 25, "y": y})
    yield mixed
    yield mixed.assign(c=y * 1j)
    wide = pl.DataFrame({"x": y * 1.0, "c": y, "y": y}).with_columns(pl.col("c").cast(pl.Int128))
    yield wide
    yield wide.lazy()


@pytest.mark.parametrize("number", range(4))
def test_frames_that_arrow_cannot_hold_are_refused_by_their_column(number):
    frame = list(frames_that_arrow_cannot_hold())[number]
    with pytest.raises(DataError, match=r"X: column c has (the type|values of several types) .*leave it out"):
        llsvm.train(frame, label="y", **ROOM)
    if number < 3:
        with pytest.raises(
            DataError, match=r"X: column c has (the type|values of several types) .*leave it out"
        ):
            llsvm.train(frame, np.arange(50) % 2, **ROOM)


@pytest.mark.parametrize("written", ["write_parquet", "write_ipc", "write_ipc_stream"])
@pytest.mark.parametrize("unlike", [{}, {"within": True}, {"several": True}])
def test_whole_numbers_of_128_bits_in_files_are_no_damage(written, unlike, tmp_path):
    pl = pytest.importorskip("polars")
    rows = pl.DataFrame({"x": [0.0, 1.0] * 25, "y": [0, 1] * 25})
    wide = pl.col("y").cast(pl.Int128)
    own = {"Größe, c": pl.struct(a=pl.lit("a"), b=wide) if unlike.get("within") else wide}
    own |= {"d": wide} if unlike.get("several") else {}
    getattr(rows.with_columns(**own), written)(tmp_path / "rows.parquet")
    names = "columns Größe, c, d have" if unlike.get("several") else "column Größe, c has"
    with pytest.raises(
        DataError, match=rf"{names} .*more than 64 bits .* write the file with 64-bit numbers or text there"
    ):
        llsvm.train(
            tmp_path / "rows.parquet",
            label="y",
            format="parquet" if written == "write_parquet" else "arrow",
            **ROOM,
        )


@pytest.mark.parametrize("positive", ["true", "false"])
def test_one_bool_against_the_other(tmp_path, positive):
    rows = table("bool").select(["amount", "age", "y"])
    llsvm.train(rows, label="y", positive=positive, output=tmp_path / "m", **ROOM)
    found = llsvm.predict(tmp_path / "m", rows)
    assert found.dtype == bool
    assert (found == rows["y"].to_numpy()).mean() > 0.7


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_conditions_beside_dictionaries_of_views():
    rows = polars(table("bool")).cast({"color": pytest.importorskip("polars").Categorical})
    for where in ("amount > 0", 'color == "red"'):
        model = llsvm.train(rows, label="y", where=where, missing="zero", **ROOM)
        assert 20 < model.n_rows < 100


@pytest.mark.parametrize(
    "words",
    [
        ["1.0", "1.1", "2.0", "2.0.1"],
        ["0", "1", "2", "3+"],
        ["10001", "94105", "60601", "K1A 0B1"],
        ["Golf 12 2020", "Polo 13 2019"],
        ["12 pack 24", "6 can 12"],
    ],
)
def test_words_that_are_no_numbers_and_no_dates_are_categories(words):
    rows = pa.table({"x": np.arange(60) * 1.0, "c": words * (60 // len(words)), "y": np.arange(60) % 2})
    model = llsvm.train(rows, label="y", **ROOM)
    assert {f"c={word}" for word in words} <= set(model.feature_names)


@pytest.mark.parametrize(
    "kind", [*(kind for kind in TAKEN if "text" in kind or "views" in kind), "string_view", "binary_view"]
)
def test_every_kind_of_text_is_documents_groups_and_kept(as_data, kind, tmp_path):
    """pyarrow cannot take or write the views of a dictionary, which Polars' types of categories are."""
    column = (TAKEN | REFUSED)[kind]
    x = np.arange(60.0)
    data = as_data(pa.table({"x": x, "c": column, "y": x % 3 > 0}))
    model = llsvm.train(data, label="y", text=["c"], analyzer="char", **ROOM)
    assert model.n_features_in_ > 1
    if kind == "binary_view":
        return
    assert len(llsvm.evaluate(model, data, by="c")["groups"]) > 1
    for name in ("kept.csv", "kept.parquet"):
        assert llsvm.write_predictions(model, data, tmp_path / name, keep=["c"]) == 60
    kept = pq.read_table(tmp_path / "kept.parquet")["c"]
    assert kept.to_pylist() == column.to_pylist()


def nested():
    rng = np.random.default_rng(3)
    rows = []
    for i in range(N):
        own, x = {"town": "abc"[rng.integers(3)], "tags": [1.0, i % 3]}, rng.normal()
        score = x + (own["town"] == "a")
        geo = None if i % 11 == 7 else {"lat": float(rng.normal())}
        rows.append({"x": x, "user": {**own, "geo": geo}, "y": "yes" if score > 0 else "no"})
    return pa.Table.from_pylist(rows)


def test_fields_of_structs_are_columns_as_they_are_in_json_lines(tmp_path):
    rows, y = nested(), nested()["y"].to_pylist()
    files = [str(tmp_path / f"rows.{door}") for door in ("jsonl", "parquet", "arrow")]
    jsonl(rows, tmp_path / "rows.jsonl")
    pq.write_table(rows, files[1], row_group_size=50)
    feather.write_feather(rows, files[2], compression="uncompressed")
    frames = [FRAMES[name] for name in ("table", "batches", "pandas", "pandas of Arrow", "polars", "duckdb")]
    frames += [
        lambda rows: polars(rows).lazy(),
        lambda rows: pytest.importorskip("pandas").DataFrame(rows.to_pylist()),
    ]
    plain = {"label": "y", "missing": "mean", "scale": "none", "bias": 0, **ROOM}
    wanted = llsvm.train(files[0], **plain)
    assert wanted.feature_names[1:4] == ("user.tags[0]", "user.tags[1]", "user.geo.lat")
    answers = np.asarray(llsvm.predict(wanted, files[0]))
    for made in (*(lambda rows, path=path: path for path in files), *frames):
        model = llsvm.train(made(rows), **plain)
        assert model.feature_names == wanted.feature_names
        np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-6)
        np.testing.assert_array_equal(np.asarray(llsvm.predict(wanted, made(rows))), answers)
        assert llsvm.evaluate(wanted, made(rows))["unknown_rows"] == 0
    for made in (pandas, polars):
        X = made(rows.drop_columns("y"))
        fitted = llsvm.LLSVMClassifier(missing="mean", memory_limit="8GB").fit(X, y)
        assert np.mean(np.asarray(fitted.predict(X)) == answers) > 0.95
    for path in files:  # by the object's name, or the field's
        assert llsvm.train(path, label="y", exclude=["user"], **ROOM).feature_names == ("x",)
        assert len(llsvm.train(path, label="y", features=["x", "user.tags"], **ROOM).feature_names) == 3


def test_a_struct_is_no_category_of_a_model():
    rows = pa.table({"c": ["a", "b"] * 20, "y": [0, 1] * 20})
    model = llsvm.train(rows, label="y")
    with pytest.raises(DataError, match=r"column.* c"):
        llsvm.predict(model, pa.table({"c": [{"left": 1}] * 40}))
