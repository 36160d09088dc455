"""Crosses of columns and of namespaces: the same as columns of products, in every format, exact and hashed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import llsvm
from llsvm.block import CSR
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.data.crosses import learn_crosses
from llsvm.errors import BudgetError, DataError, ModelError, UsageError
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.estimators.regressor import LLSVMRegressor
from llsvm.memory.budget import MemoryBudget
from llsvm.models.model import Model
from llsvm.models.tables import names_of
from llsvm.stream.stream import Stream

N = 300
ALL = ("country:shop", "country:age", "age:income", "income:shop")


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    found = {
        "country": rng.choice(["FR", "IT", "NO"], n),
        "shop": rng.choice(["web", "a b"], n),
        "age": rng.normal(40, 10, n).round(1),
        "income": rng.normal(3, 1, n).round(2),
    }
    score = (found["country"] == "FR") * (found["age"] - 40) + rng.normal(0, 3, n)
    score += 5.0 * (found["shop"] == "web") * (found["country"] == "IT")
    return found | {"label": np.where(score > 0, "y", "n")}


def distinct(values):
    return list(dict.fromkeys(values.tolist()))


def spelled_out(columns):
    """The same with a column for each product, in the order in which crosses have them."""
    made = {"age": columns["age"], "income": columns["income"], "both": columns["age"] * columns["income"]}
    made |= {f"age{c}": (columns["country"] == c) * columns["age"] for c in distinct(columns["country"])}
    made |= {f"income{c}": (columns["shop"] == c) * columns["income"] for c in distinct(columns["shop"])}
    pairs = np.char.add(np.char.add(columns["country"], "|"), columns["shop"])
    return made | {"country": columns["country"], "shop": columns["shop"], "pair": pairs}


def write(path, columns):
    found = pa.table(columns)
    if path.suffix == ".csv":
        csv.write_csv(found, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in found.to_pylist()))
    elif path.suffix == ".parquet":
        pq.write_table(found, path, row_group_size=97)
    else:
        feather.write_feather(found, str(path), chunksize=41)
    return path


def rows_of(source, max_bytes=1 << 20):
    """(n, d) of all rows, once what is crossed is learned."""
    with Stream(source, MemoryBudget(1 << 30, 0), Path(".")) as stream:
        learn_crosses(stream.source, stream.budget)
    found = []
    for block in source.blocks(max_bytes):
        X = block.X
        if isinstance(X, CSR):
            dense = np.zeros((block.n_rows, source.info().encoder.n_features))
            own = slice(int(X.indptr[0]), int(X.indptr[-1]))
            at = np.repeat(np.arange(block.n_rows), np.diff(X.indptr)), X.indices[own]
            np.add.at(dense, at, X.data[own])
            X = dense
        found.append(X)
    return np.vstack(found)


@pytest.mark.parametrize("scale", ["none", "maxabs", "minmax", "standard", "unit-row"])
def test_the_optimum_is_that_of_columns_of_products(tmp_path, scale):
    """Products and numbers by category are scaled as numbers are."""
    columns = table()
    exact = {"tol": 1e-6, "max_passes": None, "scale": scale}
    crossed = llsvm.train(write(tmp_path / "a.csv", columns), cross=ALL, **exact)
    spelled = write(tmp_path / "b.csv", {**spelled_out(columns), "label": columns["label"]})
    model = llsvm.train(spelled, **exact)
    assert crossed.coef_.shape == model.coef_.shape
    assert crossed.certificate.total_primal == pytest.approx(model.certificate.total_primal, rel=3e-6)
    read_once = llsvm.train(tmp_path / "a.csv", cross=ALL, scale=scale)  # not again as 64-bit floats
    assert read_once.certificate.total_primal == pytest.approx(crossed.certificate.total_primal, rel=2e-3)
    assert llsvm.verify(read_once, tmp_path / "a.csv")["holds"]
    plain = llsvm.train(tmp_path / "a.csv", **exact)
    assert crossed.certificate.total_primal < 0.99 * plain.certificate.total_primal


def test_names_with_commas_may_be_quoted_in_python_too(tmp_path):
    columns = table()
    path = write(
        tmp_path / "a.csv", {"age, years": columns["age"], "shop": columns["shop"], "label": columns["label"]}
    )
    quoted, plain = (llsvm.train(path, cross=[each]) for each in ('"age, years":shop', "age, years:shop"))
    assert quoted.feature_names == plain.feature_names
    assert quoted.feature_names[1].startswith("age, years & shop=")


def test_every_feature_has_its_name_and_its_value(tmp_path):
    columns = table()
    path = write(tmp_path / "a.csv", columns)
    model = llsvm.train(path, cross=ALL, C=0.01)
    names = names_of(model, range(model.n_features_in_))
    assert names[:5] == ["age", "income", "age & income", f"country={columns['country'][0]} & age", names[4]]
    assert names[6:8] == [f"income & shop={shop}" for shop in distinct(columns["shop"])]
    source = open_source(path, options={"cross": ALL})
    X = rows_of(source)
    assert names == source.info().encoder.names_of(range(X.shape[1]))

    def value(name):
        total = np.ones(N)
        for part in name.split(" & "):
            column, equals, category = part.partition("=")
            total = total * ((columns[column] == category) if equals else columns[column])
        return total

    for j, name in enumerate(names):
        np.testing.assert_array_equal(X[:, j], value(name).astype(np.float32))
    pairs = {name for name in names if name.count("=") == 2}
    assert pairs == {
        f"country={c} & shop={s}" for c, s in zip(columns["country"], columns["shop"], strict=True)
    }


def test_each_format_and_each_size_of_blocks_gives_the_same_weights(tmp_path):
    columns = {name: [x.item() for x in values] for name, values in table().items()}
    columns["age"][7] = None
    models, rows = [], []
    for suffix in ("csv", "jsonl", "parquet", "feather"):
        path = write(tmp_path / f"rows.{suffix}", columns)
        models.append(llsvm.train(path, cross=ALL, missing="mean", threads=1))
        for max_bytes in (600, 1 << 20):
            rows.append(rows_of(open_source(path, options={"cross": ALL, "missing": "mean"}), max_bytes))
    for model in models[1:]:
        assert np.array_equal(model.coef_, models[0].coef_)
        assert np.array_equal(model.intercept_, models[0].intercept_)
    for each in rows[1:]:
        np.testing.assert_array_equal(each, rows[0])


def test_a_saved_model_scores_files_and_frames_alike_and_pairs_it_has_not_seen_count_nothing(tmp_path):
    columns = table()
    seen = (columns["country"] != "NO") | (columns["shop"] != "web")
    path = write(tmp_path / "a.csv", {name: values[seen] for name, values in columns.items()})
    for bits in (None, 12):
        model = llsvm.train(
            path, cross=["country:shop", "age:country"], hash_bits=bits, output=tmp_path / "m"
        )
        again = Model.load(tmp_path / "m")
        frame = pa.table(columns)
        scores = model.decision_function(frame)
        np.testing.assert_array_equal(scores, again.decision_function(frame))
        write(tmp_path / "all.parquet", columns)
        predicted = llsvm.predict(tmp_path / "m", tmp_path / "all.parquet")
        np.testing.assert_array_equal(predicted, model.predict(frame))
        if bits is None:
            new = pa.table({"country": ["NO"], "shop": ["web"], "age": [40.0], "income": [3.0]})
            names = names_of(model, range(model.n_features_in_))
            weight = dict(zip(names, model.coef_[0], strict=True))
            assert "country=NO & shop=web" not in weight
            expected = 40 * (weight["age"] + weight["age & country=NO"]) + 3 * weight["income"]
            expected += weight["country=NO"] + weight["shop=web"] + model.intercept_[0]
            assert model.decision_function(new)[0] == pytest.approx(expected, rel=1e-6)


def test_hashed_crosses_are_the_exact_ones_in_other_columns(tmp_path):
    path = write(tmp_path / "a.csv", table())
    exact = rows_of(open_source(path, options={"cross": ALL}))
    source = open_source(path, options={"cross": ALL, "hash_bits": 16})
    assert source.info().encoder.crosses.known  # no reading of its own
    hashed = rows_of(source)

    def used(X):
        return sorted(column.tobytes() for column in X.T if column.any())

    assert used(hashed) == used(exact)  # at 2^16 none of these share a column
    two = open_source(path, options={"cross": ALL, "hash_bits": 1})
    assert rows_of(two).shape[1] == 3 + 2 + 2 + 2
    a = llsvm.train(path, cross=ALL, tol=1e-6, max_passes=None)
    b = llsvm.train(path, cross=ALL, hash_bits=16, tol=1e-6, max_passes=None)
    assert b.certificate.total_primal == pytest.approx(a.certificate.total_primal, rel=3e-6)


@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_what_is_missing_is_replaced_and_then_crossed(tmp_path, missing):
    columns = {name: [x.item() for x in values] for name, values in table().items()}
    columns["age"][3] = columns["age"][11] = columns["country"][5] = columns["country"][11] = None
    ages = np.array([np.nan if age is None else age for age in columns["age"]])
    filled = np.where(np.isnan(ages), np.nanmean(ages) if missing == "mean" else 0.0, ages)
    path = write(tmp_path / "a.parquet", columns)
    source = open_source(
        path, options={"cross": ("age:income", "country:age", "country:shop"), "missing": missing}
    )
    X, names = rows_of(source), source.info().encoder.names_of(range(source.info().encoder.n_features))
    np.testing.assert_allclose(X[:, 2], filled * columns["income"], rtol=1e-6)
    for country in ("FR", "IT", "NO"):
        own = np.array([each == country for each in columns["country"]])
        np.testing.assert_allclose(X[:, names.index(f"country={country} & age")], filled * own, rtol=1e-6)
    assert not X[5, [j for j, name in enumerate(names) if "country=" in name]].any()
    model = llsvm.train(path, cross=["age:income", "country:age"], missing=missing, output=tmp_path / "m")
    frame = pa.table(columns)
    np.testing.assert_array_equal(Model.load(tmp_path / "m").predict(frame), model.predict(frame))
    with pytest.raises(DataError, match="missing in row"):
        llsvm.train(path, cross=["age:income"])


@pytest.mark.parametrize(
    ("cross", "words"),
    [
        (["country"], "names no two columns; write A:B"),
        (["country:nowhere"], "no column 'nowhere'"),
        (["a:b:c"], "no two columns 'a:b:c'"),
        (["country:country"], "with itself"),
        (["country:label"], "column label is the label"),
        (["country:shop", "shop:country"], "country and shop|shop and country"),
        (["country:note"], "column note is text"),
        (["country:income"], "no feature"),
        (["age:w"], "the weight"),
    ],
)
def test_what_cannot_be_crossed_is_refused_in_a_sentence(tmp_path, cross, words):
    columns = table() | {"note": ["so it is"] * N, "w": np.ones(N)}
    path = write(tmp_path / "a.csv", columns)
    with pytest.raises(DataError, match=words) as refused:
        llsvm.train(path, cross=cross, text=["note"], weight="w", exclude=["income"])
    assert "a.csv" in str(refused.value)


def test_other_formats_and_feature_maps_refuse_crosses(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:2\n-1 2:1\n")
    np.save(tmp_path / "X.npy", np.eye(3))
    for path in (tmp_path / "a.svm", tmp_path / "X.npy"):
        with pytest.raises(UsageError, match="no categories and no namespaces to cross"):
            llsvm.train(path, cross=["1:2"], label="last" if path.suffix == ".npy" else None)
    with pytest.raises(UsageError, match="names columns, and X has none"):
        llsvm.train(np.eye(3), [0, 1, 0], cross=["0:1"])
    with pytest.raises(UsageError, match="leave it or cross out"):
        llsvm.train(tmp_path / "a.svm", cross=["1:2"], feature_map="rff")


def test_column_names_may_have_colons(tmp_path):
    columns = {"a:b": ["x", "y"] * 20, "c": ["u", "u", "v", "v"] * 10, "label": [1, -1, -1, 1] * 10}
    model = llsvm.train(write(tmp_path / "a.csv", columns), cross=["a:b:c"])
    assert "a:b=x & c=u" in names_of(model, range(model.n_features_in_))
    assert (
        list(llsvm.predict(model, tmp_path / "a.csv")) == columns["label"]
    )  # exclusive or: only with the cross


def test_more_pairs_than_the_limit_holds_are_refused_with_their_number(tmp_path):
    rng = np.random.default_rng(1)
    n = 200_000
    codes = rng.integers(0, 1500, (2, n))
    columns = {"a": codes[0], "b": codes[1], "label": rng.integers(0, 2, n)}
    path = write(tmp_path / "a.parquet", columns)
    options = {"cross": ("a:b",), "categorical": ("a", "b")}
    n_pairs = len(np.unique(codes[0] * 1500 + codes[1]))
    small = Stream(open_source(path, options=options), MemoryBudget(65_000_000, 0), tmp_path)
    with small, pytest.raises(BudgetError, match=r"pairs of categories, with their weights \(hash_bits\)"):
        learn_crosses(small.source, small.budget)
    source = open_source(path, options=options)
    with Stream(source, MemoryBudget(150_000_000, 0), tmp_path) as stream:
        learn_crosses(stream.source, stream.budget)
        assert stream.budget.reserved_bytes == 0  # what is left is part of the source's library
    assert source.info().encoder.crosses.pair_width == n_pairs
    assert source.info().library_bytes >= 8 * n_pairs


def test_standard_input_is_hashed_or_refused(tmp_path):
    path = write(tmp_path / "a.csv", table())
    command = [
        sys.executable,
        "-m",
        "llsvm",
        "train",
        "-",
        "--format",
        "csv",
        "--cross",
        "country:shop,age:shop",
    ]
    command += ["--model", str(tmp_path / "m")]
    refused = subprocess.run(command, input=path.read_bytes(), capture_output=True)
    assert refused.returncode == 2
    assert b"--hash-bits 20" in refused.stderr
    done = subprocess.run([*command, "--hash-bits", "8"], input=path.read_bytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert Model.load(tmp_path / "m").n_features_in_ == 2 + 3 * 2**8


def test_the_command_line_trains_evaluates_inspects_and_converts(tmp_path):
    run = CliRunner()
    path, model = str(write(tmp_path / "a.csv", table())), str(tmp_path / "m")
    options = ["--cross", "country:shop,age:income", "--cross", "country:age"]
    done = run.invoke(app, ["train", path, "--model", model, *options])
    assert done.exit_code == 0, done.output
    assert list(Model.load(model).settings["cross"]) == ["country:shop", "age:income", "country:age"]
    shown = run.invoke(app, ["inspect", model])
    assert " & " in shown.output
    told = run.invoke(app, ["evaluate", model, path, "--json"])
    assert json.loads(told.output)["accuracy"] > 0.7
    svm = str(tmp_path / "a.svm")
    assert run.invoke(app, ["convert", path, svm, "--positive", "y", *options]).exit_code == 0
    X = rows_of(open_source(path, options={"cross": ("country:shop", "age:income", "country:age")}))
    with open(svm) as lines:
        for row, line in zip(X, lines, strict=True):
            found = np.zeros(len(row))
            for cell in line.split()[1:]:
                j, value = cell.split(":")
                found[int(j) - 1] = float(value)
            np.testing.assert_array_equal(found.astype(np.float32), row.astype(np.float32))


def test_inspect_refuses_crosses_that_cannot_be_learned(tmp_path):
    data = write(tmp_path / "rows.parquet", table())
    command = [sys.executable, "-m", "llsvm", "inspect", str(data), "--cross", "country:age"]
    done = subprocess.run([*command, "--memory-limit", "60MB"], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "memory limit too small" in done.stderr


def test_estimators_take_frames_with_crosses(tmp_path):
    columns = table()
    frame = pa.table({name: values for name, values in columns.items() if name != "label"})
    fitted = LLSVMClassifier(cross=["country:shop", "country:age"], max_iter=None)
    fitted.fit(frame, columns["label"])
    assert fitted.score(frame, columns["label"]) > 0.7
    assert "country=FR & shop=web" in fitted.get_feature_names_out()
    from_file = LLSVMClassifier(cross=["country:shop", "country:age"]).fit_file(
        write(tmp_path / "a.csv", columns)
    )
    assert from_file.n_features_in_ == fitted.n_features_in_
    target = np.where(columns["country"] == "FR", columns["age"], 1.0)
    regressor = LLSVMRegressor(loss="squared_epsilon_insensitive", cross=["country:age"]).fit(frame, target)
    assert np.abs(regressor.predict(frame) - target).mean() < 1


@pytest.mark.parametrize("change", [np.flip, lambda keys: keys + (1 << 40), lambda keys: keys[:-1]])
def test_a_model_whose_pairs_are_damaged_is_refused(tmp_path, change):
    path = write(tmp_path / "a.csv", table())
    model = llsvm.train(path, cross=["country:shop"])
    model.extra["crosses_0"] = change(model.extra["crosses_0"]).copy()
    with pytest.raises(ModelError, match="crosses are damaged"):
        llsvm.predict(model, path)


# -- namespaces of Vowpal Wabbit ----------------------------------------------------------------------------


def vw_rows(n=200):
    rng = np.random.default_rng(3)
    rows, spelled = [], []
    for _ in range(n):
        user, items = rng.choice(list("abcd")), rng.choice(list("xyz"), 2, replace=False)
        value = round(float(rng.normal()), 2)
        y = 1 if (user in "ab") == ("x" in items) else -1
        rows.append(f"{y} |user {user} |item {items[0]}:{value} {items[1]} |other:2 k:0.5")
        spelled.append(f"{rows[-1]} |both {user}{items[0]}:{value} {user}{items[1]}")
    return "\n".join(rows) + "\n", "\n".join(spelled) + "\n"


@pytest.mark.parametrize("bits", [None, 14])
def test_namespaces_are_crossed_as_if_written_out(tmp_path, bits):
    rows, spelled = vw_rows()
    (tmp_path / "a.vw").write_text(rows)
    (tmp_path / "b.vw").write_text(spelled)
    exact = {"tol": 1e-6, "max_passes": None}
    crossed = llsvm.train(
        tmp_path / "a.vw", cross=["user:item"], hash_bits=bits, output=tmp_path / "m", **exact
    )
    model = llsvm.train(tmp_path / "b.vw", **exact)
    assert crossed.coef_.shape == model.coef_.shape
    assert crossed.certificate.total_primal == pytest.approx(model.certificate.total_primal, rel=3e-6)
    if bits is None:
        assert "user^a & item^x" in crossed.feature_names
    predicted = llsvm.predict(tmp_path / "m", tmp_path / "a.vw")
    np.testing.assert_array_equal(predicted, llsvm.predict(model, tmp_path / "b.vw"))


def test_rows_of_many_namespaces_are_crossed_some_at_a_time_with_the_same_columns(tmp_path, monkeypatch):
    (tmp_path / "a.vw").write_text(vw_rows()[0])
    names = []
    for cells, max_bytes in ((1 << 17, 1 << 20), (5, 1 << 20), (1, 64)):
        monkeypatch.setattr("llsvm.data.vw.MAX_CELLS", cells)
        source = open_source(tmp_path / "a.vw", options={"cross": ("user:item", "item:other")})
        blocks = list(source.blocks(max_bytes))
        assert sum(block.n_rows for block in blocks) == 200
        names.append(source.info().feature_names)
    assert names[0] == names[1] == names[2]


@pytest.mark.parametrize(
    ("cross", "words"),
    [
        (
            ["user:shop"],
            r"no row has the namespace 'shop' \(cross user:shop\); there are 'item', 'other', 'user'",
        ),
        (["user:user"], "with itself"),
        (["user"], "names no two namespaces"),
        (["user:item", "item:user"], "crossed twice"),
    ],
)
def test_namespaces_that_cannot_be_crossed_are_refused(tmp_path, cross, words):
    (tmp_path / "a.vw").write_text(vw_rows()[0])
    with pytest.raises(DataError, match=words):
        llsvm.train(tmp_path / "a.vw", cross=cross)
