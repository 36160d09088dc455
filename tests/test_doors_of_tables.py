"""Names, missing values, conditions and labels of a table are the same by every way in."""

import datetime
import decimal
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from cells import in_turn

import llsvm
from llsvm.errors import DataError

ROOM = {"memory_limit": "2GB", "threads": 1}
N = 120
FILES = ["csv", "jsonl", "parquet", "feather"]
FRAMES = {"arrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame}
DOORS = [*FILES, *FRAMES]


def data_of(door, columns, folder, name="rows"):
    path = str(folder / f"{name}.{door}")
    if door == "csv":
        pd.DataFrame(columns).to_csv(path, index=False)
    elif door == "jsonl":
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        with open(path, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    elif door == "parquet":
        pq.write_table(pa.table(columns), path)
    elif door == "feather":
        feather.write_feather(pa.table(columns), path, compression="uncompressed")
    else:
        return FRAMES[door](columns)
    return path


def trained(data, **options):
    """The model, and what was noted."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        model = llsvm.train(data, **options, **ROOM)
    return model, " ".join(str(each.message) for each in noted)


# -- names --------------------------------------------------------------------------------------------------


def people():
    rng = np.random.default_rng(0)
    age, income = rng.normal(size=N), rng.normal(size=N)
    town = np.array(["x", "y", "z"])[rng.integers(0, 3, N)]
    label = np.where(age + income + (town == "x") > 0, "yes", "no")
    return {
        "age": age.tolist(),
        " income": income.tolist(),
        "town  name ": town.tolist(),
        " label": label.tolist(),
    }


@pytest.fixture(scope="module")
def spaced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spaced")
    return {door: data_of(door, people(), folder) for door in DOORS}


@pytest.mark.parametrize("door", DOORS)
def test_names_that_differ_by_space_alone_are_the_same_column(spaced, door):
    model, _ = trained(spaced[door], where="income < 10", categorical=("town name",))
    names = ("age", "income", "town name=x", "town name=y", "town name=z")
    assert sorted(" ".join(name.split()).replace(" =", "=") for name in model.feature_names) == sorted(names)
    answers = np.asarray(llsvm.predict(model, spaced[door])).tolist()
    for other, data in spaced.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error", llsvm.LLSVMWarning)  # on columns that the model does not know
            llsvm.predict(model, data)
        assert np.asarray(llsvm.predict(model, data)).tolist() == answers, other
        assert llsvm.evaluate(model, data)["accuracy"] > 0.9
        if other not in (*FILES, "lazy"):
            assert np.asarray(model.predict(data)).tolist() == answers, other


@pytest.mark.parametrize("door", FILES)
@pytest.mark.parametrize("other", FILES)
def test_columns_are_kept_and_figures_made_by_either_name(spaced, door, other, tmp_path):
    model, _ = trained(spaced[door])
    for name in ("income", " income"):
        llsvm.write_predictions(model, spaced[other], tmp_path / "p.parquet", keep=(name,))
        kept = pq.read_table(tmp_path / "p.parquet")
        assert kept.column_names[0].strip() == "income"
        np.testing.assert_allclose(kept.column(0).cast(pa.float64()).to_numpy(), people()[" income"])
        assert llsvm.evaluate(model, spaced[other], where=f"`{name}` > 0")["rows"] < N


@pytest.mark.parametrize("door", FILES)
def test_a_later_file_may_have_other_spaces(spaced, door, tmp_path):
    later = data_of(door, {" ".join(name.split()): values for name, values in people().items()}, tmp_path)
    model, noted = trained([spaced[door], later])
    assert (model.n_rows, noted) == (2 * N, "")
    assert llsvm.evaluate(model, [later, spaced[door]])["rows"] == 2 * N


@pytest.mark.parametrize("door", DOORS)
def test_two_names_that_differ_by_space_alone_are_two_columns(door, tmp_path):
    x = np.arange(N) * 1.0
    data = data_of(door, {"x": x.tolist(), "x ": (-x % 7).tolist(), "y": (x > 50).tolist()}, tmp_path)
    model, _ = trained(data, label="y")
    assert model.feature_names == ("x", "x ")
    assert llsvm.evaluate(model, data)["accuracy"] > 0.9


def test_names_of_arrays_may_differ_by_space(tmp_path):
    x = np.random.default_rng(0).normal(size=(N, 2))
    y = (x[:, 0] > x[:, 1]).astype(int)
    model = llsvm.train(pd.DataFrame(x, columns=[" a", "b"]), y, **ROOM)
    wanted = model.predict(pd.DataFrame(x, columns=[" a", "b"])).tolist()
    assert model.predict(pd.DataFrame(x[:, ::-1], columns=["b ", "a"])).tolist() == wanted
    assert np.asarray(model.predict(pl.DataFrame(x[:, ::-1], schema=["b ", "a"]))).tolist() == wanted


@pytest.mark.parametrize("door", DOORS)
def test_names_that_look_like_patterns_are_names(door, tmp_path):
    """Polars' select() takes "*" for all columns, and "^a$" for the column a."""
    columns = {"a": np.arange(8.0).tolist(), "*": [1.0, -1, 3, -3] * 2, "^a$": [5.0, 2, 2, 5] * 2}
    columns["y"] = ["no", "yes"] * 4
    data = data_of(door, columns, tmp_path)
    model, _ = trained(data, label="y", features=["[*]", "^a$"])
    expected, _ = trained(pa.table(columns), label="y", features=["[*]", "^a$"])
    assert model.feature_names == ("*", "^a$")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    predicted = np.asarray(llsvm.predict(model, data)).tolist()
    assert predicted == np.asarray(llsvm.predict(expected, pa.table(columns))).tolist()
    assert llsvm.evaluate(model, data)["accuracy"] == llsvm.evaluate(expected, pa.table(columns))["accuracy"]


# -- missing values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_empty_text_is_missing(door, tmp_path):
    towns = [["x", "", "y"][i % 3] for i in range(N)]
    data = data_of(door, {"town": towns, "label": [i % 3 // 2 for i in range(N)]}, tmp_path)
    model, _ = trained(data, missing="zero")
    assert model.feature_names == ("town=x", "town=y")
    with pytest.raises(DataError, match=r"column town: the value is missing in row 2 \(40 missing in that"):
        llsvm.train(data, **ROOM)


def test_a_model_that_knows_empty_text_keeps_it(tmp_path):
    from llsvm.features.column import Column
    from llsvm.features.encoder import TableEncoder

    encoder = TableEncoder([Column("town", "text")], None, None, known=[("town", ""), ("town", "x")])
    encoder.learning, encoder.predicting = False, True
    found = encoder.encode(pa.record_batch({"town": ["x", "", None][:2]}))
    assert found.X.indices.tolist() == [1, 0]


# -- conditions and weights ---------------------------------------------------------------------------------


def nights():
    days = [str(datetime.date(2024, 1, 1) + datetime.timedelta(i)) for i in range(N)]
    for i in range(0, N, 7):
        days[i] = ["NULL", "NA", " ", "", "null"][i // 7 % 5]
    return {
        "x": [i * 5.0 % 17 for i in range(N)],
        "day": days,
        "flag": [["true", "TRUE", "false", "False", "NA"][i % 5] for i in range(N)],
        "town": [["x", "", "y"][i % 3] for i in range(N)],
        "clock": ["NA" if i == 3 else f"{i % 24:02}:{i % 60:02}" for i in range(N)],
        "weight": [["true", "false"][i % 3 == 0] for i in range(N)],
        "label": [i % 2 for i in range(N)],
    }


CONDITIONS = {
    'day >= "2024-02-01"': 76,
    "day is null": 18,
    "flag": 48,
    "not flag": 48,
    'flag == "true"': 48,
    "flag is null": 24,
    'clock > "12:30"': 57,
    'day < "2024-02-01" and flag': 11,
    'day >= "2024-03-01 00:00"': 51,
    'day > "2024-02-29 12:30"': 51,
    "town is null": 40,
    'town != "x"': 40,
    'town not in ("x", "z")': 40,
}


@pytest.mark.parametrize(("where", "door"), in_turn(CONDITIONS, [*DOORS, "batches"], 3))
def test_conditions_on_text_that_means_dates_or_truth_values(door, where, tmp_path):
    batches = door == "batches"
    data = pa.table(nights()).to_batches() if batches else data_of(door, nights(), tmp_path)
    model, _ = trained(iter(data) if batches else data, where=where, features=("x",))
    assert model.n_rows == CONDITIONS[where]
    if not batches:
        assert llsvm.evaluate(model, data, where=where)["rows"] == CONDITIONS[where]


@pytest.mark.parametrize("door", DOORS)
def test_a_label_of_text_that_means_dates(door, tmp_path):
    data = data_of(door, nights(), tmp_path)
    model, _ = trained(data, label='day > "2024-02-01"', features=("x",), missing_label="drop")
    assert (model.n_rows, model.labels) == (102, ["false", "true"])


@pytest.mark.parametrize("door", DOORS)
def test_weights_of_text_that_means_truth_values(door, tmp_path):
    data = data_of(door, nights(), tmp_path)
    model, noted = trained(data, weight="weight", features=("x",))
    assert (model.n_rows, noted) == (80, "")
    assert llsvm.evaluate(model, data, weight="weight")["weight"] == 80


@pytest.mark.parametrize("door", DOORS)
def test_weights_of_other_text_are_refused(door, tmp_path):
    data = data_of(door, nights() | {"weight": ["a", "b"] * (N // 2)}, tmp_path)
    with pytest.raises(DataError, match=r"column weight has type .*string.*cannot be weights"):
        llsvm.train(data, weight="weight", features=("x",), **ROOM)


def test_a_late_cell_that_is_no_date_in_a_condition_is_refused_by_its_row(tmp_path):
    n = 30_000
    days = ["2024-01-05", "2024-02-07"] * (n // 2)
    days[n - 3] = "soon"
    pq.write_table(pa.table({"x": range(n), "day": days, "label": [0, 1] * (n // 2)}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=rf"column day: row {n - 2}: 'soon' is no date or time, as those"):
        llsvm.train(tmp_path / "t.parquet", where='day > "2024-02-01"', features=("x",), **ROOM)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("label", ['town == "x"', "kind", "number"])
def test_rows_without_a_label_are_left_out_of_what_is_evaluated(door, label, tmp_path):
    classes = [["a", None, "b"][i % 3] for i in range(N)]
    numbers = [[1.5, None, i * 0.5][i % 3] for i in range(N)]
    columns = {"x": [i * 5.0 % 17 for i in range(N)], "town": nights()["town"], "w": [1, 2] * (N // 2)}
    data = data_of(door, columns | {"kind": classes, "number": numbers}, tmp_path)
    loss = {"loss": "epsilon_insensitive"} if label == "number" else {}
    model, _ = trained(data, label=label, features=("x",), missing_label="drop", **loss)
    found = llsvm.evaluate(model, data, weight="w")
    assert (model.n_rows, found["rows"], found["weight"]) == (80, 80, 120)
    refusing, _ = trained(data, label=label, features=("x",), where=f"{label.split()[0]} is not null", **loss)
    with pytest.raises(DataError, match="the label is missing"):
        llsvm.evaluate(refusing, data)


# -- labels -------------------------------------------------------------------------------------------------


def labelled(*words):
    return {
        "x": [i + 1000.0 * (i > N // 3) for i in range(N)],
        "label": [words[i > N // 3] for i in range(N)],
    }


@pytest.mark.parametrize(
    ("door", "words"), in_turn(DOORS, [("FALSE", "TRUE"), ("False", "True"), ("maybe", "TRUE")], 2)
)
def test_one_spelling_of_true_stands_for_all(door, words, tmp_path):
    data = data_of(door, labelled(*words), tmp_path)
    model, _ = trained(data, positive="true")
    figures = llsvm.evaluate(model, data)
    assert (figures["accuracy"], figures["unknown_rows"]) == (1.0, 0)
    read = "FALSE" in words[0].upper() and door == "csv"
    assert set(np.asarray(llsvm.predict(model, data)).tolist()) == ({False, True} if read else set(words))


@pytest.mark.parametrize("door", DOORS)
def test_numbers_as_text_are_the_labels_of_a_model_of_numbers(door, tmp_path):
    numbers = labelled(1, 2)
    model, _ = trained(data_of("csv", numbers, tmp_path, "numbers"))
    data = data_of(door, labelled("1", "2"), tmp_path)
    figures = llsvm.evaluate(model, data)
    assert (figures["accuracy"], figures["unknown_rows"]) == (1.0, 0)
    assert np.asarray(llsvm.predict(model, data)).tolist() == numbers["label"]
    other = data_of(door, labelled("1", "x"), tmp_path, "other")
    if door != "csv":
        assert llsvm.evaluate(model, other)["unknown_labels"] == {"x": N - N // 3 - 1}


# -- columns whose first values come late, or never ---------------------------------------------------------


@pytest.mark.parametrize("door", ["parquet", "feather", "arrow", "polars"])
@pytest.mark.parametrize("first", [None, "NA"])
def test_text_after_many_rows_without_is_read_as_what_it_means(door, first, tmp_path):
    n = 12_000
    words = pa.array([first] * n + [f"{i % 700}.5" for i in range(n)], pa.string())
    columns = {"c": words, "label": [i % 2 for i in range(2 * n)]}
    model, noted = trained(data_of(door, columns, tmp_path), missing="zero")
    assert model.feature_names == ("c",)
    assert "column c: text that means numbers is read as such" in noted


@pytest.mark.parametrize("door", ["parquet", "arrow", "pandas", "polars", "lazy"])
def test_categories_without_a_value_are_noted(door, tmp_path):
    columns = {"x": list(range(N)), "c": pa.nulls(N, pa.string()), "label": [i % 2 for i in range(N)]}
    table = pa.table(columns)
    frames = {"pandas": table.to_pandas, "polars": lambda: pl.from_arrow(table)}
    frames["lazy"] = lambda: pl.from_arrow(table).lazy()
    data = frames[door]() if door in frames else data_of(door, columns, tmp_path)
    model, noted = trained(data, missing="zero", categorical=("c",))
    assert model.feature_names == ("x",)
    assert "column c: no row has a value: it is no feature" in noted


# -- late cells of another kind -----------------------------------------------------------------------------

LATE = 60_000  # rows: past what is looked at before


def with_late(words, cell):
    x = words * (LATE // len(words))
    x[LATE - 3] = cell
    return {"x": x, "label": [i % 2 for i in range(LATE)]}


@pytest.mark.parametrize(
    ("door", "words", "cell", "value"),
    [
        (first, *second)
        for first, second in in_turn(
            DOORS,
            [
                (["true", "false", "TRUE"], "1", 1.0),
                (["true", "false", "TRUE"], "0", 0.0),
                (["true", "1", "0", "False"], "1", 1.0),
                (["2024-01-05", "2024-02-07"], "2024-01-05 12:00", 19727.5),
                (["2024-01-05 10:11", "2024-02-07 12:30"], "2024-01-05 06:00:00.0", 19727.25),
                (["2024-01-05 10:11", "2024-02-07 12:30"], "2024-01-05", 19727.0),
            ],
            2,
        )
    ],
)
def test_a_late_cell_that_says_the_same_otherwise_is_taken(door, words, cell, value, tmp_path):
    from llsvm.data import open_source

    data = data_of(door, with_late(words, cell), tmp_path)
    source = open_source(data, options={"label": "label"})
    X = np.concatenate([block.X for block in source.blocks(1 << 22)])
    assert X.shape == (LATE, 1)
    assert X[LATE - 3, 0] == value


MOMENTS = [
    ("12:30", "08:00"),
    ("2024-01-05 12:30", "2024-01-05 13:30"),
    ("2024-01-05T12:30:00", "2024-01-06T00:00:00"),
    ("2024-01-05 12:30:00", "2024-01-06 00:00:00"),
    ("2024-01-05T12:30:00Z", "2024-01-06 12:30+02:00"),
    ("2024-01-05", "2024-01-06 12:00"),
]


@pytest.mark.parametrize(("door", "words"), in_turn(DOORS, MOMENTS, 2))
def test_labels_that_spell_the_same_date_or_time_are_the_same(door, words, tmp_path):
    """Whatever door a model comes from, it is evaluated alike on the rows from CSV, which has dates there."""
    data, by_csv = (data_of(each, labelled(*words), tmp_path) for each in (door, "csv"))
    models = [trained(each)[0] for each in (data, by_csv)]
    for model in models:
        for each in (data, by_csv):
            figures = llsvm.evaluate(model, each)
            assert (figures["accuracy"], figures["unknown_rows"]) == (1.0, 0)
    if door not in ("csv", "jsonl"):
        assert set(np.asarray(llsvm.predict(models[0], data)).tolist()) == set(words)


ALIKE = {
    "days and midnights": ("2024-01-05", "2024-01-05 00:00:00", "2024-01-06"),
    "fractions of seconds": ("2024-01-05 10:00:00.5", "2024-01-05 10:00:00.500000000", "2024-01-05 10:00:01"),
    "zones": ("2024-01-05 10:00:00Z", "2024-01-05 11:00:00+01:00", "2024-01-05 12:00:00Z"),
    "times of day": ("12:30", "12:30:00", "12:31"),
    "codes": ("1", "01", "2"),
    "floats": ("1", "1.0", "2"),
    "truth values": ("True", "TRUE", "false"),
    "bits": ("True", "1", "0"),
    "zeros": ("0", "0.0", "1"),
    "numbers beside words": ("1", "1.0", "none of these"),
}


@pytest.mark.parametrize(("kind", "door"), in_turn(ALIKE, DOORS, 3))
def test_labels_that_spell_the_same_value_are_one_and_a_note_says_so(door, kind, tmp_path):
    """As they are where a file has numbers or dates instead of text, whatever the format."""
    words = [ALIKE[kind][i % 3] for i in range(N)]
    data = data_of(door, {"x": [i % 3 - 1.0 for i in range(N)], "label": words}, tmp_path)
    model, told = trained(data)
    assert len(model.classes_) == 2
    assert "spell the same value: they are one label (categorical label keeps" in told
    assert llsvm.evaluate(model, data)["unknown_rows"] == 0
    apart, told = trained(data, categorical=["label"])
    assert set(map(str, apart.classes_)) == set(words)
    assert "spell the same value" not in told


DAY, SECOND = datetime.datetime(2024, 1, 5), datetime.timedelta(seconds=1)
WRITTEN = {  # the same three categories, and how else a format may have them
    "days": (
        [(DAY + datetime.timedelta(days=i)).date() for i in range(3)],
        ["2024-01-05", "2024-01-06", "2024-01-07"],
        ["2024-01-05 00:00:00", "2024-01-06 00:00:00", "2024-01-07 00:00:00"],
        ["2024-01-05T00:00:00.000", "2024-01-06T00:00:00.000", "2024-01-07T00:00:00.000"],
    ),
    "times": (
        [DAY + i * 3600 * SECOND for i in range(3)],
        ["2024-01-05 00:00", "2024-01-05 01:00", "2024-01-05 02:00"],
        ["2024-01-05T00:00:00", "2024-01-05T01:00:00.000", "2024-01-05T02:00:00"],
    ),
    "times with a zone": (
        [(DAY + i * 3600 * SECOND).replace(tzinfo=datetime.UTC) for i in range(3)],
        ["2024-01-05T00:00:00Z", "2024-01-05 01:00:00+00:00", "2024-01-05T03:00+01:00"],
    ),
    "decimals": ([decimal.Decimal(f"{i}.50") for i in range(3)], [0.5, 1.5, 2.5], ["0.50", "1.50", "2.50"]),
    "codes": ([0, 1, 2], ["00", "01", "02"], ["0.0", "1.0", "2.0"]),
    "truth values": ([True, False, None], ["TRUE", "False", ""], ["1", "0", ""]),
    "spans": (
        [i * SECOND for i in range(3)],
        ["PT0S", "PT1S", "PT2S"],
        ["0 days 00:00:00", "0 days 00:00:01", "0 days 00:00:02"],
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_category_is_the_same_however_a_format_writes_it(kind, tmp_path):
    """A model of any format takes the rows from every other."""
    doors = []
    for number, values in enumerate(WRITTEN[kind]):
        table = pa.table(
            {"c": [values[i % 3] for i in range(N)], "label": [("n", "y", "n")[i % 3] for i in range(N)]}
        )
        doors.append(table)
        if number:  # as text, which every format can write so
            columns = {name: table[name].to_pylist() for name in table.column_names}
            doors += [data_of(door, columns, tmp_path, f"rows{number}") for door in ("csv", "jsonl")]
    for each in doors:
        model, _ = trained(each, categorical=["c"], missing="zero")
        assert [llsvm.evaluate(model, other)["accuracy"] for other in doors] == [1.0] * len(doors)


def test_a_category_that_two_of_the_models_spell_is_not_known(tmp_path):
    codes = {"c": ["01", "1", "2"] * 40, "label": ["n", "y", "n"] * 40}
    model, _ = trained(data_of("csv", codes, tmp_path), categorical=["c"])
    with pytest.warns(llsvm.errors.LLSVMWarning, match="column c: 40 of its 120 values .* such as '001'"):
        llsvm.predict(model, pa.table({"c": ["1.00", "2.00", "001"] * 40}))
