"""Columns of the data that a model does not know are told of in every format; a contradiction of index bases is
refused."""

import io
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import DataError, LLSVMWarning, UsageError

N, D = 60, 4
RNG = np.random.default_rng(0)
X = np.round(RNG.standard_normal((N, D)) + 1, 2)
Y = np.where(X[:, 0] > 1, 1, -1)


def svmlight(path, base, X=X, more=()):
    """more: rows that have the column behind the last, too."""
    with open(path, "w") as file:
        for i, row in enumerate(X):
            cells = [*row, 1.0] if i in more else row
            file.write(f"{Y[i]} {' '.join(f'{j + base}:{value}' for j, value in enumerate(cells))}\n")
    return str(path)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("base", [0, 1])
def test_a_model_reads_files_by_its_own_index_base(tmp_path, base):
    own, other = svmlight(tmp_path / "own.svm", base), svmlight(tmp_path / "other.svm", 1 - base)
    model = llsvm.train(own)
    model.save(tmp_path / "m")
    again = llsvm.Model.load(tmp_path / "m")
    assert again.index_base == base
    accuracy = llsvm.evaluate(again, own)["accuracy"]
    assert accuracy > 0.8
    for command in ("predict", "evaluate"):
        refused = run(command, tmp_path / "m", other)
        assert refused.exit_code == 3
        assert "--zero-based" in refused.stderr
        taken = run(command, tmp_path / "m", other, "--zero-based", "yes" if base else "no")
        assert taken.exit_code == 0, taken.stderr
        assert taken.stderr == ""
    remedy = {"zero_based": "yes" if base else "no"}
    assert llsvm.evaluate(again, other, **remedy)["accuracy"] == accuracy
    with pytest.raises(DataError, match="zero_based"):
        llsvm.predict(again, other)


@pytest.mark.parametrize(
    ("rows", "with_next", "refused"), [(20, 11, True), (20, 10, False), (19, 19, False), (60, 31, True)]
)
def test_the_index_behind_the_last_is_refused_in_more_than_half_of_the_rows(
    tmp_path, rows, with_next, refused
):
    """Of at least 20; wherever they stand, and however large blocks are."""
    model = llsvm.train(svmlight(tmp_path / "own.svm", 0))
    path = svmlight(tmp_path / "other.svm", 0, X[:rows], more=range(rows - with_next, rows))
    if refused:
        with pytest.raises(DataError, match=rf"{with_next} of {rows} rows have the index 4"):
            llsvm.predict(model, path)
    with pytest.warns(LLSVMWarning) as caught:
        llsvm.predict(model, path, zero_based="yes" if refused else "auto")
    told = (
        f"{with_next} values in {with_next} of {rows} rows are in columns that the model does not know, from"
    )
    assert [told in str(each.message) for each in caught] == [True]


@pytest.mark.parametrize("rows", [20, N])
def test_a_file_of_one_block_is_refused_before_any_label_is_printed(tmp_path, rows):
    llsvm.train(svmlight(tmp_path / "own.svm", 0), output=tmp_path / "m")
    other = svmlight(tmp_path / "other.svm", 1, X[:rows])
    refused = run("predict", tmp_path / "m", other)
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert f"{rows} of {rows} rows have the index 4" in refused.stderr


def test_new_columns_of_a_file_that_counts_from_1_are_no_contradiction(tmp_path):
    model = llsvm.train(svmlight(tmp_path / "own.svm", 1))
    path = svmlight(tmp_path / "other.svm", 1, np.c_[X, X])
    with pytest.warns(UserWarning, match=f"{D * N} values in {N} of {N} rows are in columns"):
        found = llsvm.predict(model, path)
    np.testing.assert_array_equal(found, model.predict(X))


def table(extra):
    town = np.resize(["Rome", "Oslo", "Bonn"], N)
    columns = {"n": X[:, 0], "town": np.where(np.arange(N) < 7, "Lima", town) if extra else town}
    return pd.DataFrame({**columns, **({"fresh": np.arange(N)} if extra else {}), "label": Y})


def in_format(frame, folder, name, stem):
    path = str(folder / f"{stem}.{name}")
    if name == "frame":
        return frame
    if name == "csv":
        frame.to_csv(path, index=False)
    elif name == "jsonl":
        with open(path, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in frame.to_dict("records"))
    elif name == "parquet":
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    else:
        pa.feather.write_feather(pa.Table.from_pandas(frame, preserve_index=False), path)
    return path


@pytest.mark.parametrize("first", ["old", "new"])
@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "arrow"])
def test_values_of_columns_that_some_files_have_are_counted_there(tmp_path, name, first):
    files = {stem: in_format(table(stem == "new"), tmp_path, name, stem) for stem in ("old", "new")}
    model = llsvm.train(files["old"], label="label")
    data = [files[first], *(file for stem, file in files.items() if stem != first)]
    with pytest.warns(
        LLSVMWarning, match="does not know the column fresh: 60 values in 120 rows count nothing"
    ):
        llsvm.predict(model, data)


@pytest.mark.parametrize("names", [("n", " n"), (" n", "n")])
def test_names_of_later_pieces_may_differ_by_space(names):
    first, later = table(False), table(False)
    pieces = [first.rename(columns={"n": names[0]}), later.rename(columns={"n": names[1]})]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = llsvm.train(pieces, label="label", memory_limit="8GB")
    assert model.feature_names[0] == names[0]


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "arrow", "frame"])
def test_columns_and_categories_that_a_model_does_not_know_are_counted(tmp_path, name):
    model = llsvm.train(in_format(table(False), tmp_path, name, "old"), label="label")
    data = in_format(table(True), tmp_path, name, "new")
    for asked in (
        lambda: llsvm.evaluate(model, data, label="label"),
        lambda: llsvm.predict(model, data),
        lambda: llsvm.write_predictions(model, data, tmp_path / "out.csv"),
    ):
        with pytest.warns(LLSVMWarning) as caught:
            asked()
        told = " ".join(str(each.message) for each in caught)
        assert len(caught) == 2
        assert "does not know the column fresh: 60 values in 60 rows" in told
        assert (
            "column town: 7 of its 60 values are categories that the model does not know, such as 'Lima'"
            in told
        )
    if name != "frame":
        model.save(tmp_path / "m")
        said = run("evaluate", tmp_path / "m", data)
        assert said.exit_code == 0
        assert "7 of its 60 values" in said.stderr
        assert "column fresh" in said.stderr


@pytest.mark.parametrize(
    "options",
    [{"exclude": ["fresh"]}, {"features": ["n", "town"]}, {"weight": "fresh"}, {"where": "fresh >= 0"}],
)
def test_nothing_is_said_of_columns_that_training_left_out(tmp_path, options):
    frame = table(True)
    path = in_format(frame, tmp_path, "csv", "all")
    model = llsvm.train(path, label="label", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        llsvm.predict(model, path)
        llsvm.evaluate(model, path)
        llsvm.evaluate(model, frame, label="label")


def test_nothing_is_said_of_columns_that_training_left_out_by_position(tmp_path):
    """... wherever they stand in the new data."""
    frame = table(True)
    place = str(list(frame.columns).index("fresh"))
    model = llsvm.train(in_format(frame, tmp_path, "csv", "all"), label="label", exclude=[place])
    moved = in_format(frame[[*reversed(frame.columns)]], tmp_path, "csv", "moved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        llsvm.predict(model, moved)
        llsvm.predict(model, frame.drop(columns="label"))


def test_one_of_a_kind_is_told_of_in_the_singular(tmp_path):
    one = pd.DataFrame({"n": [1.0], "other": [2.0], "label": ["a"]})
    path = in_format(one, tmp_path, "csv", "one")
    with pytest.raises(DataError, match=r"the only row has the label 'a': one class"):
        llsvm.train(path, label="label")
    with pytest.raises(DataError, match=r"the only column is label"):
        llsvm.train(in_format(one[["label"]], tmp_path, "jsonl", "column"), label="y")
    assert run("convert", path, tmp_path / "one.parquet").output.startswith("1 row written")
    model = llsvm.train(
        in_format(one[["n", "label"]].loc[[0, 0]].assign(label=["a", "b"]), tmp_path, "csv", "two"),
        label="label",
    )
    with pytest.warns(LLSVMWarning, match=r"the column other: 1 value in 1 row counts nothing"):
        llsvm.predict(model, path)


def test_values_are_counted_anew_at_each_reading(tmp_path):
    model = llsvm.train(in_format(table(False), tmp_path, "csv", "old"), label="label")
    source = llsvm.scoring.sources.open_for(model, in_format(table(True), tmp_path, "csv", "new"))
    for _ in range(3):
        llsvm.scoring.predictions.predict_file(model, source, io.StringIO())
    assert [note for note in source.info().notes if "7 of its 60" in note] != []
    assert len(source.info().notes) == 2


def fixed(values, width):
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(values[:, :width])), width)


@pytest.mark.parametrize("width", [2, 4])
def test_lists_of_a_fixed_length_that_is_not_the_models(tmp_path, width):
    values = np.random.default_rng(0).normal(size=(60, 4))
    y = values[:, 0] > 0
    model = llsvm.train(pa.table({"v": fixed(values, 3), "y": y}), label="y")
    other = pa.table({"v": fixed(values, width), "y": y})
    said = f"column v: a list of length {width}, where the first row's has 3"
    with pytest.raises(DataError, match=said):
        llsvm.predict(model, other)
    with pytest.raises(DataError, match=said):
        llsvm.evaluate(model, other)
    pq.write_table(pa.table({"v": fixed(values, 3), "y": y}), tmp_path / "1.parquet")
    pq.write_table(other, tmp_path / "2.parquet")
    with pytest.raises(DataError, match=said):
        llsvm.train([str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")], label="y")


OTHER_KINDS = {
    "list<": pa.array([[1.0, 2.0]] * 40),
    "binary": pa.array([b"a", b"b"] * 20),
    "month_day_nano_interval": pa.array([(1, 2, 3)] * 40, pa.month_day_nano_interval()),
    "extension<arrow.opaque": pa.ExtensionArray.from_storage(
        pa.opaque(pa.binary(16), "key", "other"), pa.array([bytes(16)] * 40, pa.binary(16))
    ),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_what_cannot_be_a_category_or_a_list_is_refused_by_its_type(tmp_path, kind):
    y = [0, 1] * 20
    rows = {
        "text, as categories": pa.table({"c": ["a", "b"] * 20, "y": y}),
        "lists of numbers": pa.table({"c": [[1.0, 2.0], [2.0, 1.0]] * 20, "y": y}),
    }
    for expected, table in rows.items():
        other = pa.table({"c": OTHER_KINDS[kind], "y": y})
        if kind == "list<" and expected == "lists of numbers":
            other = pa.table({"c": ["a", "b"] * 20, "y": y})
        model = llsvm.train(table, label="y")
        with pytest.raises(DataError, match=f"column c has type .*, but the model was trained on {expected}"):
            llsvm.predict(model, other)
        pq.write_table(table, tmp_path / "1.parquet")
        if kind != "month_day_nano_interval":  # which Parquet has not
            pq.write_table(other, tmp_path / "2.parquet")
            with pytest.raises(DataError, match=f"column c has type .*, but holds {expected} in "):
                llsvm.train([str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")], label="y")


def test_sparse_columns_of_pandas_beside_text_are_refused_by_name():
    pd = pytest.importorskip("pandas")
    y = np.arange(40) % 2
    frame = pd.DataFrame({"t": list("ab") * 20, "n": pd.arrays.SparseArray(y)})
    said = r"column n has the type Sparse.*make it dense"
    for fitted in (llsvm.train, llsvm.LLSVMClassifier().fit):
        with pytest.raises(DataError, match=said):
            fitted(frame, y)
    model = llsvm.train(frame.assign(n=y), y)
    for scored in (llsvm.predict, llsvm.evaluate):
        with pytest.raises(DataError, match=said):
            scored(model, frame, *([y] if scored is llsvm.evaluate else []))
    numbers = frame[["n"]].assign(m=y * 2.0)
    assert llsvm.evaluate(llsvm.train(numbers, y), numbers, y)["accuracy"] == 1


def test_what_comes_in_batches_beside_labels_is_refused_with_the_remedy():
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    lazy = pl.LazyFrame({"a": [1.0, 2.0], "t": ["a", "b"]})
    for X, kind in ((lazy, "LazyFrame"), (duckdb.sql("select unnest([1.0, 2.0]) a"), "DuckDBPyRelation")):
        with pytest.raises(UsageError, match=f"X is a {kind}, .*give the data frame that collect"):
            llsvm.LLSVMClassifier().fit(X, [0, 1])


@pytest.mark.parametrize("name", ["y", "target"])
def test_labels_that_came_apart_are_found_in_a_column_of_any_data(tmp_path, name):
    frame, y = pd.DataFrame({"a": [1.0, 2.0] * 20, "t": ["a", "b"] * 20}), np.array([0, 1] * 20)
    model = llsvm.train(frame, y)
    labelled = frame.assign(**{name: y})
    labelled.to_csv(tmp_path / "rows.csv", index=False)
    labelled.to_parquet(tmp_path / "rows.parquet")
    table = pa.Table.from_pandas(labelled)
    for data in (labelled, table, table.to_reader(), tmp_path / "rows.csv", tmp_path / "rows.parquet"):
        assert llsvm.evaluate(model, data)["accuracy"] == 1
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match="which column has the labels"):
        llsvm.evaluate(model, tmp_path / "rows.csv")
