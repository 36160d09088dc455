"""The strongest features of a model: by weight times spread where training has learned it, else by weight."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.models import words
from llsvm.models.model import Model

N = 400
RNG = np.random.default_rng(0)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def table(k=3):
    rng = np.random.default_rng(0)
    columns = {"small": rng.normal(size=N), "large": 1000 * rng.normal(size=N), "same": np.full(N, 3.0)}
    columns["town"] = rng.choice(["Oslo", "Lima", "Rome"], N, p=[0.6, 0.39, 0.01])
    y = np.digitize(columns["small"] + columns["large"] / 1000, np.linspace(-1, 1, k - 1))
    return pd.DataFrame(columns | {"label": [f"class {i}" for i in y]})


@pytest.mark.parametrize("options", [{}, {"scale": "minmax"}, {"scale": "none", "missing": "mean"}])
@pytest.mark.parametrize("limit", ["2GB", "smallest"])
def test_spreads_are_standard_deviations(options, limit, tmp_path):
    frame = table()
    frame.to_csv(tmp_path / "t.csv", index=False)
    if limit == "smallest":
        told = run(
            "inspect", tmp_path / "t.csv", "--json", *(w for k, v in options.items() for w in (f"--{k}", v))
        )
        limit = json.loads(told.stdout)["smallest_memory_bytes"]
    model = llsvm.train(tmp_path / "t.csv", memory_limit=limit, tol=0.1, output=tmp_path / "m", **options)
    columns = pd.get_dummies(frame.drop(columns="label"), prefix_sep="=").astype(np.float32)
    expected = columns[list(model.feature_names)].astype(float).std(ddof=0)
    for each in (model, Model.load(tmp_path / "m")):
        assert words.spreads_of(each) == pytest.approx(expected.to_numpy(), rel=1e-5)


def test_spreads_of_rows_that_are_read_again_for_more_digits(tmp_path):
    frame = table()
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = llsvm.train(tmp_path / "t.csv", tol=1e-9, max_passes=0, missing="mean", memory_limit="2GB")
    assert model.extra["double"]  # it was: the first reading is the second one's beginning
    columns = pd.get_dummies(frame.drop(columns="label"), prefix_sep="=").astype(float)
    expected = columns[list(model.feature_names)].std(ddof=0)
    assert words.spreads_of(model) == pytest.approx(expected.to_numpy(), rel=1e-5)


@pytest.mark.parametrize(
    "options", [{"scale": "none"}, {"scale": "unit-row"}, {"hash_bits": 4}, {"text": ["town"]}]
)
def test_spreads_that_are_not_known_are_not_made_up(options, tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    model = llsvm.train(tmp_path / "t.csv", tol=0.5, **options)
    assert words.ranked_by(model) == "weight"
    assert "contribution" not in words.of_all(model, 3)[0]


def model_of(k, d=100, spread=True):
    coef = np.asfortranarray(RNG.permutation(max(k, 1) * d).reshape(-1, d) - k * d / 2.0)
    extra = {"spread": RNG.integers(0, 4, d).astype(np.float32)} if spread else {}
    return Model(coef, np.zeros(len(coef)), np.arange(k if k > 1 else 2), extra=extra)


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("k", [1, 3])
def test_they_are_looked_for_in_pieces(k, spread, monkeypatch):
    """Equal ones in the order of their columns."""
    monkeypatch.setattr(words, "PIECE_WEIGHTS", 7)
    model = model_of(k, spread=spread)
    share = model.coef_ * (model.extra["spread"] if spread else 1)
    for each, own in zip(words.of_each_problem(model, 10), share, strict=True):
        order = [str(j + 1) for j in np.argsort(-np.abs(own), kind="stable")[:10]]
        assert [feature["feature"] for feature in each["features"]] == order
    assert words.of_each_class(model, 10) == words.of_each_problem(model, 10)
    model.extra["text"] = {}
    signed = share if k == 3 else [-share[0], share[0]]
    for each, own in zip(words.of_each_class(model, 60), signed, strict=True):
        order = [str(j + 1) for j in np.argsort(-own, kind="stable")[:60] if own[j] > 0]
        assert [feature["feature"] for feature in each["features"]] == order
    key = "contribution" if spread else "weight"
    found = [abs(each[key]) for each in words.of_all(model, 10)]
    assert found == np.sort(np.abs(share).ravel())[::-1][:10].tolist()


@pytest.mark.parametrize(
    "spread", [np.ones(3), np.ones(3, np.float32), np.full(100, np.nan, np.float32), "wide"]
)
def test_damaged_spreads_are_not_relied_on(spread):
    model = model_of(3)
    model.extra["spread"] = spread
    assert words.ranked_by(model) == "weight"


def test_inspect_shows_so_many_of_each_class(tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    model = llsvm.train(tmp_path / "t.csv", C=3, output=tmp_path / "m")
    told = json.loads(run("inspect", tmp_path / "m", "--top", 2, "--json").stdout)
    assert told["ranked_by"] == "contribution"
    assert [each["class"] for each in told["strongest"]] == model.labels
    assert [len(each["features"]) for each in told["strongest"]] == [2, 2, 2]
    assert told["strongest"][2]["features"][0]["feature"] in ("small", "large")
    assert model.strongest(2) == told["strongest"]
    rows = list(csv.DictReader(io.StringIO(run("inspect", tmp_path / "m", "--top", 2, "--csv").stdout)))
    flat = [(each["class"], f) for each in told["strongest"] for f in each["features"]]
    assert [(row["class"], row["feature"]) for row in rows] == [(name, f["feature"]) for name, f in flat]
    assert [float(row["contribution"]) for row in rows] == [f["contribution"] for _, f in flat]
    shown = run("inspect", tmp_path / "m", "--top", 2).stdout
    assert shown.count("strongest, + for class") == 3
    plain = run("inspect", tmp_path / "m").stdout
    first, settings = (
        plain.split("settings are as by default: --all-settings shows them")[0],
        told["settings"],
    )
    assert " C " in first
    assert " tol " not in first
    assert " scale " not in first  # standard is what "auto" means for a table
    assert " bias " not in first
    run("train", tmp_path / "t.csv", "--model", tmp_path / "raw", "--scale", "none", "--bias", 0, "-q")
    assert json.loads(run("inspect", tmp_path / "raw", "--json").stdout)["changed_settings"] == [
        "bias",
        "scale",
    ]  # typed
    whole = run("inspect", tmp_path / "m", "--all-settings").stdout
    assert all(f" {name} " in whole for name in settings)
    assert whole.index(" C ") < whole.index(" tol ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["t.csv", "--top", "3"], "t.csv is no model: leave --top out"),
        (["t.csv", "--csv"], "is no model: leave --csv out"),
        (["m", "--top", "0"], "--top must be 1 or more, not 0"),
        (["m", "--csv", "--json"], "leave one of them out"),
        (["m", "--label", "town"], "m is a model: leave --label out"),
    ],
)
def test_what_makes_no_sense_is_refused(words, says, tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    llsvm.train(tmp_path / "t.csv", tol=0.5, output=tmp_path / "m")
    done = run("inspect", tmp_path / words[0], *words[1:])
    assert done.exit_code == 2
    assert says in done.output
