"""Tables: categories, dates, missing values, labels; what a model remembers of them."""

import datetime as dt
import decimal
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from format_files import rows
from test_formats import dense_of
from typer.testing import CliRunner

from llsvm import evaluate, predict
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import DataError, ModelError
from llsvm.features.table_options import KeptColumns
from llsvm.scoring.measure import measure
from llsvm.scoring.predictions import predict_file
from llsvm.scoring.sources import open_for
from llsvm.train import load, train

LINES = ["age,town,size,label", "30,Rome,1.5,yes", "41,Oslo,2,no", "22,Rome,0,no", "35,Bern,7,yes"]


def csv(folder, *lines, name="rows.csv"):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def llsvm(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_categories_become_columns_in_the_order_of_their_rows(tmp_path):
    source = open_source(csv(tmp_path, *LINES))
    X, y = dense_of(source)
    assert source.info().feature_names == ("age", "size", "town=Rome", "town=Oslo", "town=Bern")
    np.testing.assert_array_equal(
        X, [[30, 1.5, 1, 0, 0], [41, 2, 0, 1, 0], [22, 0, 1, 0, 0], [35, 7, 0, 0, 1]]
    )
    assert y.tolist() == ["yes", "no", "no", "yes"]


def test_the_order_of_categories_does_not_depend_on_block_sizes(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{a},{b},{a % 2}" for a, b in rng.integers(0, 40, (3000, 2))]
    path = csv(tmp_path, "a,b,label", *lines)
    names = []
    for max_bytes in (1000, 1 << 20):
        source = open_source(path, options={"categorical": ("a", "b")})
        list(source.blocks(max_bytes))
        names.append(source.info().feature_names)
    assert names[0] == names[1]


def test_hashed_categories_keep_their_number_of_columns(tmp_path):
    source = open_source(csv(tmp_path, *LINES), options={"hash_bits": 3})
    X, _ = dense_of(source)
    assert X.shape == (4, 2 + 8)
    assert (X[:, 2:].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(X[0, 2:], X[2, 2:])


def test_colliding_hashes_are_summed(tmp_path):
    source = open_source(csv(tmp_path, "a,b,label", "x,y,1", "z,w,0"), options={"hash_bits": 1})
    X, _ = dense_of(source)
    np.testing.assert_array_equal(X.sum(axis=1), [2, 2])


def test_dates_booleans_decimals_and_dictionaries(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.table(
        {
            "day": pa.array([dt.date(1970, 1, 2), dt.date(1971, 1, 1)]),
            "time": pa.array([dt.datetime(1970, 1, 1, 12), dt.datetime(1970, 1, 3)]),
            "flag": [True, False],
            "price": pa.array([decimal.Decimal("1.25"), decimal.Decimal("-3.5")]),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "label": [0, 1],
        }
    )
    pq.write_table(table, path)
    X, _ = dense_of(open_source(path))
    np.testing.assert_array_equal(X, [[1, 0.5, 1, 1.25, 1, 0], [365, 2, 0, -3.5, 0, 1]])


def test_columns_are_chosen(tmp_path):
    path = csv(tmp_path, "x1,x2,z,w,label", "1,2,3,4,0", "5,6,7,8,1")
    source = open_source(path, options={"features": ("x*", "z"), "exclude": ("x2",), "weight": "w"})
    block = next(source.blocks(1 << 20))
    np.testing.assert_array_equal(block.X, [[1, 3], [5, 7]])
    np.testing.assert_array_equal(block.weight, [4, 8])


def test_options_that_name_columns_may_be_repeated(tmp_path):
    path = csv(tmp_path, '"a,b",c,d,e,label', *("1,x,2,y,0", "2,y,3,x,1") * 5)
    train = ("train", path, "--model", tmp_path / "m", "-q")
    done = llsvm(*train, "--exclude", '"a,b"', "--exclude", "d", "--categorical", "c", "--categorical", "e")
    assert done.exit_code == 0, done.output
    assert load(tmp_path / "m").feature_names == ("c=x", "e=y", "c=y", "e=x")
    out = tmp_path / "p.csv"
    assert llsvm("predict", tmp_path / "m", path, "-o", out, "--keep", "d", "--keep", "c").exit_code == 0
    assert out.read_text().splitlines()[:2] == ["d,c,prediction", "2,x,0"]
    saved = tmp_path / "run.toml"
    assert llsvm(*train, "--exclude", '"a,b"', "--exclude", "d", "--save-run", saved).exit_code == 0
    first = (tmp_path / "m").read_bytes()
    assert llsvm("run", saved, "-q").exit_code == 0
    assert (tmp_path / "m").read_bytes() == first


@pytest.mark.parametrize("label", ["last", "2", "c"])
def test_labels_by_name_and_position(tmp_path, label):
    _, y = dense_of(open_source(csv(tmp_path, "a,b,c", "1,2,3", "4,5,6"), options={"label": label}))
    np.testing.assert_array_equal(y, [3, 6])


def test_decimals_further_down_do_no_harm(tmp_path):
    path = csv(tmp_path, "a,label", *["1,0"] * 400_000, "2.5,1")
    last = list(open_source(path).blocks(1 << 20))[-1]
    assert last.X[-1, 0] == 2.5


def test_quotes_and_line_ends_within_values(tmp_path):
    path = csv(tmp_path, "a,t,label", '1,"x, ""y""\nz",0', "2,w,1")
    source = open_source(path)
    list(source.blocks(1 << 20))
    assert source.info().feature_names == ("a", 't=x, "y"\nz', "t=w")


@pytest.mark.parametrize(("how", "value"), [("zero", 0.0), ("mean", 3.0)])
@pytest.mark.parametrize("scale", ["none", "maxabs", "standard"])
def test_missing_values(tmp_path, how, value, scale):
    lines = ["a,b,label", "1,2,0", "5,,0", "3,4,1", "2,3,1"]
    filled = [line.replace(",,", f",{value},") for line in lines]
    options = {"tol": 1e-6, "bias": 1.0, "scale": scale, "max_passes": 1000}
    model = train(csv(tmp_path, *lines), missing=how, **options)
    plain = train(csv(tmp_path, *filled, name="filled.csv"), **options)
    assert model.certificate.total_primal == pytest.approx(plain.certificate.total_primal, rel=1e-4)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    ours = measure(loaded, open_for(loaded, tmp_path / "rows.csv"))
    theirs = measure(plain, open_for(plain, tmp_path / "filled.csv"))
    assert ours["confusion"] == theirs["confusion"]


@pytest.fixture
def trained(tmp_path):
    X, _ = rows(200, 2)
    towns = np.array(["Rome", "Oslo", "Bern"])[np.random.default_rng(1).integers(0, 3, 200)]
    y = np.where(X[:, 0] + (towns == "Rome") > 0.3, "yes", "no")
    table = pa.table({"age": X[:, 0], "town": towns, "size": X[:, 1], "label": y})
    path = tmp_path / "train.parquet"
    pq.write_table(table, path)
    model = train(path, bias=1.0, tol=1e-5, scale="standard", max_passes=1000)
    model.save(tmp_path / "model")
    return load(tmp_path / "model"), table, tmp_path


def predictions(model, path):
    import io

    out = io.StringIO()
    predict_file(model, open_for(model, path), out, more="scores")
    return out.getvalue()


def test_a_model_finds_its_columns_by_name(trained):
    model, table, folder = trained
    expected = predictions(model, folder / "train.parquet")
    assert len(set(expected.split("\n"))) > 10
    reordered = table.select(["size", "label", "town", "age"]).append_column("more", pa.array(["x"] * 200))
    pq.write_table(reordered, folder / "reordered.parquet")
    assert predictions(model, folder / "reordered.parquet") == expected
    pq.write_table(table.drop_columns(["label"]), folder / "unlabelled.parquet")
    assert predictions(model, folder / "unlabelled.parquet") == expected
    import pyarrow.csv as pacsv

    pacsv.write_csv(table, folder / "rows.csv")
    ours = [line.split("\t")[0] for line in predictions(model, folder / "rows.csv").split("\n")]
    assert ours == [line.split("\t")[0] for line in expected.split("\n")]


def test_predictions_do_not_look_at_labels(trained):
    model, table, folder = trained
    expected = predictions(model, folder / "train.parquet")
    for values in (pa.nulls(200, pa.string()), pa.array([2**60 + i for i in range(200)])):
        pq.write_table(table.set_column(3, "label", values), folder / "other.parquet")
        assert predictions(model, folder / "other.parquet") == expected


def test_missing_columns_are_refused_by_name(trained):
    model, table, folder = trained
    pq.write_table(table.drop_columns(["town"]), folder / "less.parquet")
    with pytest.raises(DataError, match="columns is missing: town"):
        open_for(model, folder / "less.parquet")
    renamed = table.rename_columns(["age", "town", "length", "label"])
    pq.write_table(renamed, folder / "renamed.parquet")
    with pytest.raises(DataError, match="columns is missing: size"):
        open_for(model, folder / "renamed.parquet")
    pq.write_table(table.drop_columns(["label"]), folder / "unlabelled.parquet")
    with pytest.raises(DataError, match="'label' with the labels"):
        open_for(model, folder / "unlabelled.parquet", need_label=True)


def test_missing_values_at_prediction_name_a_remedy_that_is_there(trained):
    model, table, folder = trained
    pq.write_table(table.set_column(0, "age", pa.nulls(200, pa.float64())), folder / "gone.parquet")
    with pytest.raises(
        DataError, match=r"column age: the value is missing in row 1 .* fill it in, or train with"
    ):
        predictions(model, folder / "gone.parquet")


def test_a_table_model_wants_a_table(trained):
    from format_files import write

    model, _, folder = trained
    X, y = rows(20, 2)
    for kind in ("svm", "npz", "h5"):
        with pytest.raises(
            ModelError,
            match=r"is no table of named columns, but the model was trained on .* columns age.*pass format",
        ):
            open_for(model, write(folder, kind, X, y))


def test_a_model_without_names_takes_the_frame_that_pandas_reads_from_its_file(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f"{a:.3f},{'xyz'[b]},{b * 2},{'no' if a < 0 else 'yes'}"
        for a, b in zip(rng.normal(size=60), [0, 1, 2] * 20, strict=True)
    ]
    path = csv(tmp_path, *lines)
    model = train(path, label="last", header="no")
    frame = pd.read_csv(path, header=None)
    wanted = predict(model, path)
    assert predict(model, frame).tolist() == wanted.tolist()
    assert predict(model, frame[[0, 1, 2]]).tolist() == wanted.tolist()
    assert evaluate(model, frame)["accuracy"] == evaluate(model, path)["accuracy"]
    with pytest.raises(DataError, match="put them in order"):
        predict(model, frame[[1, 0, 2, 3]])


def test_a_model_without_names_wants_as_many_columns(tmp_path):
    from format_files import write

    model = train(write(tmp_path, "npz", *rows(50, 3)), max_passes=3)
    for kind in ("npz", "h5", "parquet", "csv"):
        with pytest.raises(ModelError, match="4 columns of features, but the model was trained on 3"):
            open_for(model, write(tmp_path, kind, *rows(50, 4)))
        open_for(model, write(tmp_path, kind, *rows(50, 3)))
    with pytest.raises(ModelError, match="has text columns"):
        open_for(model, csv(tmp_path, "a,b,c,label", "1,2,x,0"))


def test_inspect_and_convert_take_tables_with_columns_that_are_no_features(tmp_path):
    path, target = tmp_path / "rows.parquet", tmp_path / "out.arrow"
    nested = pa.array([[{"u": 1, "v": [1, 2]}], None, [{"u": 2, "v": []}]])
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "nested": nested, "label": [0, 1, 0]}), path)
    run = llsvm("inspect", path)
    assert run.exit_code == 0, run.stderr
    assert "nested" in run.stdout
    run = llsvm("convert", path, target)
    assert run.exit_code == 0, run.stderr
    assert pa.ipc.open_file(target).read_all()["nested"].to_pylist() == nested.to_pylist()
    assert "--exclude nested" in llsvm("train", path, "--model", tmp_path / "m").stderr


def test_convert_makes_columns_of_the_fields_of_structs(tmp_path):
    path, target = tmp_path / "rows.parquet", tmp_path / "out.arrow"
    user = pa.array([{"age": i % 7, "town": "ab"[i % 2]} if i % 9 else None for i in range(40)])
    pq.write_table(pa.table({"user": user, "label": [i % 2 for i in range(40)]}), path)
    assert llsvm("convert", path, target).exit_code == 0
    assert pa.ipc.open_file(target).schema.names == ["user.age", "user.town", "label"]
    both = [train(each, label="label", missing="zero") for each in (path, target)]
    np.testing.assert_array_equal(both[0].coef_, both[1].coef_)
    assert both[0].feature_names == both[1].feature_names


@pytest.mark.parametrize("option", ["exclude", "features", "text", "categorical"])
def test_options_name_objects_of_the_data_and_no_beginnings_of_names(tmp_path, option):
    """In a CSV file ``price.usd`` is a name like any other."""
    path = csv(
        tmp_path, "age,price.usd,price.eur,label", *(f"{i},{i % 3},{i % 5},{i % 2}" for i in range(20))
    )
    with pytest.raises(DataError, match=rf"there is no column 'price' \({option}\)"):
        open_source(path, options={"label": "label", option: ("price",)})


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_options_may_name_a_struct_whose_field_is_the_label(tmp_path, form):
    path = tmp_path / f"rows.{form}"
    rows = [{"user": {"age": i % 7, "town": "ab"[i % 2], "y": i % 2}, "x": i % 3} for i in range(40)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for options, names in (
        ({"features": ("user",)}, ("user.age", "user.town=a", "user.town=b")),
        ({"exclude": ("user",)}, ("x",)),
        ({"exclude": ("user",), "keep": KeptColumns(("user",))}, ("x",)),
    ):
        source = open_source(path, options={"label": "user.y", **options})
        blocks = list(source.blocks(1 << 20))
        assert source.info().feature_names == names
        if "keep" in options:
            assert blocks[0].kept.schema.names == ["user.age", "user.town", "user.y"]


def test_an_unknown_column_is_told_beside_fields_that_are_known(tmp_path):
    rows = [{"a.b": i % 7, "label": i % 2} for i in range(40)]
    model = train(pa.Table.from_pylist(rows), label="label")
    path = csv(tmp_path, "a,a.b,label", *(f"{i},{row['a.b']},{row['label']}" for i, row in enumerate(rows)))
    frames = pd.DataFrame({"a": range(40), "a.b": [row["a.b"] for row in rows]}), path
    structs = pa.Table.from_pylist([{"a": {"b": row["a.b"]}} for row in rows])
    for data, told in ((frames[0], True), (frames[1], True), (structs, False), (structs.to_pandas(), False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            predict(model, data)
        assert any("does not know the column a:" in str(each.message) for each in caught) == told


def test_a_struct_without_fields_is_refused_by_its_name(tmp_path):
    path, target = tmp_path / "rows.arrow", tmp_path / "out.arrow"
    empty = pa.array([{}] * 40, pa.struct([]))
    inner = pa.StructArray.from_arrays([empty, pa.array(range(40))], ["more", "age"])
    feather.write_feather(pa.table({"meta": empty, "user": inner, "label": [i % 2 for i in range(40)]}), path)
    with pytest.raises(DataError, match=r"column meta has type struct<>.*exclude meta"):
        train(path, label="label")
    with pytest.raises(DataError, match=r"column user\.more has type struct<>.*exclude user\.more"):
        train(path, label="label", exclude=["meta"])
    assert train(path, label="label", exclude=["meta", "user.more"]).feature_names == ("user.age",)
    assert llsvm("convert", path, target).exit_code == 0
    assert pa.ipc.open_file(target).schema.names == ["meta", "user.more", "user.age", "label"]


def test_a_column_named_as_a_field_of_a_struct_is_refused_with_both(tmp_path):
    path = tmp_path / "rows.parquet"
    user = pa.array([{"age": i} for i in range(40)])
    pq.write_table(pa.table({"user.age": range(40), "user": user, "label": [i % 2 for i in range(40)]}), path)
    with pytest.raises(
        DataError, match=r"named 'user.age', of which one is a field of column 'user'; rename"
    ):
        train(path, label="label")


def test_text_where_the_model_knows_numbers(trained):
    model, table, folder = trained
    wrong = table.set_column(0, "age", pa.array(["old"] * 200))
    pq.write_table(wrong, folder / "wrong.parquet")
    with pytest.raises(
        DataError, match=r"wrong.parquet: row 1: column age: 'old' is not a number; write a plain"
    ):
        list(open_for(model, folder / "wrong.parquet").blocks(1 << 20))


def test_unknown_categories_are_all_zero(trained):
    model, table, folder = trained
    new = table.slice(0, 1).set_column(1, "town", pa.array(["Lima"]))
    pq.write_table(new, folder / "new.parquet")
    score = float(predictions(model, folder / "new.parquet").split("\t")[1])
    weights = dict(zip(model.feature_names, model.coef_[0], strict=True))
    row = {name: table[name][0].as_py() for name in ("age", "size")}
    expected = model.intercept_[0] + sum(weights[name] * value for name, value in row.items())
    assert score == pytest.approx(expected, rel=1e-5)


def test_categories_that_are_all_unknown_are_noted(trained):
    """Written in capitals, say: predictions would be made without the column, and nobody would know."""
    model, table, folder = trained
    capitals = [town.upper() for town in table["town"].to_pylist()]
    path = folder / "capitals.parquet"
    for towns, noted in ((capitals, True), ([*capitals[:-1], table["town"][-1].as_py()], False)):
        changed = table.set_column(1, "town", pa.array(towns))
        pq.write_table(changed, path)
        source = open_for(model, path)
        list(source.blocks(1000))
        notes = [
            note for note in source.info().notes if "column town: the model knows none of its values" in note
        ]
        assert bool(notes) == noted
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.predict(changed)
        assert any("knows none of its values" in str(each.message) for each in caught) == noted


def test_space_around_categories_is_no_part_of_them(tmp_path):
    """As after the comma: the same towns, and the same model."""
    spaced = csv(
        tmp_path, *(line.replace(",", ", ") for line in LINES), "30, Rome ,1.5, yes", name="spaced.csv"
    )
    source = open_source(spaced)
    X, _ = dense_of(source)
    assert source.info().feature_names == ("age", "size", "town=Rome", "town=Oslo", "town=Bern")
    np.testing.assert_array_equal(X[0], X[-1])
    plain = pa.table({"town": ["Rome", " Rome", "Oslo"], "label": [0, 1, 0]})
    pq.write_table(plain, tmp_path / "rows.parquet")
    X, _ = dense_of(open_source(tmp_path / "rows.parquet"))
    np.testing.assert_array_equal(X, [[1, 0], [1, 0], [0, 1]])


def test_one_label_against_the_rest(tmp_path):
    path = csv(
        tmp_path,
        "a,label",
        *[f"{i % 7},{'spam' if i % 7 < 3 else 'ham' if i % 2 else 'news'}" for i in range(50)],
    )
    model = train(path, positive="spam", bias=1.0, scale="standard")
    assert model.classes_.tolist() == ["not spam", "spam"]
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert measure(loaded, open_for(loaded, path, need_label=True))["accuracy"] == 1


@pytest.mark.parametrize("to", ["svm", "parquet", "feather", "h5"])
@pytest.mark.parametrize("start", ["csv", "svm", "npz", "h5ad", "sparse.parquet"])
def test_convert(tmp_path, start, to):
    from format_files import OPTIONS, write

    from llsvm.convert import convert

    X, y = rows(200)
    path = write(tmp_path, start, X, y)
    target = tmp_path / f"out.{to}"
    n = convert(open_source(path, options=OPTIONS.get(start, {}), zero_based="no"), str(target))
    assert n == 200
    found, labels = dense_of(open_source(target))
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(labels, y)


def test_the_command_line_from_table_to_predictions(tmp_path):
    lines = [
        f"{i % 13},{'abc'[i % 3]},{'up' if i % 13 + 5 * (i % 3 == 1) > 8 else 'down'}" for i in range(400)
    ]
    path = csv(tmp_path, *lines, name="raw.data")
    model = tmp_path / "m.llsvm"
    run = llsvm("train", path, "--model", model, "--label", "last", "--scale", "standard", "--bias", 1)
    assert run.exit_code == 0, run.stderr
    run = llsvm("evaluate", model, path)
    assert "accuracy" in run.stdout
    assert float(run.stdout.split()[1].rstrip("%:")) > 95
    run = llsvm("predict", model, path)
    assert set(run.stdout.split()) == {"up", "down"}
    run = llsvm("inspect", path)
    assert "a label?" in run.stdout
    run = llsvm("convert", path, tmp_path / "out.parquet")
    assert "400 rows written" in run.stdout


def test_kdd_and_covertype_straight_from_csv(tmp_path, data_dir):
    """One command each, the scaled optimum certified, the paper's accuracy reached: on a part of the rows."""
    import gzip
    import lzma

    with gzip.open(data_dir / "kddcup99" / "corrected.gz") as file:
        kdd = tmp_path / "kdd.data"
        kdd.write_bytes(b"".join(line for i, line in enumerate(file) if i % 30 == 0))
    with lzma.open(data_dir / "covtype" / "covtype.data.xz") as file:
        cov = tmp_path / "cov.data"
        cov.write_bytes(b"".join(line for i, line in zip(range(400_000), file, strict=False) if i % 40 == 0))
    for path, positive, least in ((kdd, "normal.", 0.96), (cov, "2", 0.7)):
        model = train(path, label="last", positive=positive, scale="minmax")
        assert model.certificate.relative_gap <= 1e-3
        assert measure(model, open_for(model, path))["accuracy"] > least
