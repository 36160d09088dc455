"""A path's points are what training at their λ₁ alone gives, measured on rows that were held out."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_diabetes
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.data import open_source, open_with_settings
from llsvm.errors import UsageError
from llsvm.path import path
from llsvm.settings.settings import Settings


@pytest.mark.parametrize("more", [{"penalty": "l1"}, {"penalty": "elasticnet", "lambda2": 1e-3}])
def test_each_point_is_trained_with_its_own_lambda1(more):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=400))
    settings = Settings(tol=1e-4, memory_limit="2GB", threads=1, lambda1=1.0, **more)
    points = list(path(open_source(X, y), settings, np.array([0.2, 0.05, 0.01])))
    assert [point.lambda1 for point in points] == [0.2, 0.05, 0.01]
    for point in points:
        alone = llsvm.train(X, y, tol=1e-4, lambda1=point.lambda1, threads=1, memory_limit="2GB", **more)
        assert point.model.certificate.total_primal == pytest.approx(alone.certificate.total_primal, rel=3e-4)
    weights = [np.abs(point.model.coef_).sum() for point in points]
    assert weights == sorted(weights)
    assert weights[0] < 0.5 * weights[-1]


@pytest.mark.parametrize(
    ("options", "figures"),
    [
        (["--loss", "hinge"], ["accuracy"]),
        (["--loss", "logistic", "--intercept"], ["accuracy", "log_loss", "brier_score"]),
        (["--loss", "huber", "--delta", "0.5"], ["r2", "mean_absolute_error", "mean_squared_error"]),
        (
            ["--loss", "quantile", "--quantile", "0.4", "--intercept"],
            ["r2", "mean_absolute_error", "mean_squared_error"],
        ),
    ],
)
def test_held_out_rows_are_measured_at_each_point(tmp_path, options, figures):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    t = 20.0 + 3 * X[:, 0] + rng.normal(size=300)
    label = t if figures[0] == "r2" else (t > 21).astype(int)
    for name, part in (("train.csv", slice(200)), ("held.csv", slice(200, None))):
        rows = np.c_[X, label][part]
        np.savetxt(tmp_path / name, rows, delimiter=",", header="a,b,c,d,label", comments="", fmt="%.6f")
    files = [str(tmp_path / "train.csv"), "--validation", str(tmp_path / "held.csv")]
    done = CliRunner().invoke(app, ["path", *files, *options, "--points", "6", "--json"])
    assert done.exit_code == 0, done.stderr
    points = json.loads(done.stdout)["points"]
    assert all(set(figures) <= set(point) for point in points)
    assert points[0]["nonzero_weights"] <= 1  # at the largest λ₁ there is
    assert points[-1]["nonzero_weights"] >= 1
    assert points[-1][figures[0]] > 0.7
    assert figures[0].replace("_", " ") in done.stderr
    if figures[0] == "r2":
        model = llsvm.train(
            str(tmp_path / "train.csv"),
            penalty="l1",
            lambda1=points[-1]["lambda1"],
            **{"loss": options[1], options[2][2:]: float(options[3]), "intercept": "--intercept" in options},
        )
        answer = llsvm.evaluate(model, str(tmp_path / "held.csv"))
        assert points[-1]["mean_squared_error"] == pytest.approx(answer["mean_squared_error"], rel=0.05)


def test_where_rounding_hides_the_optimum_the_rest_is_of_64_bit_floats(tmp_path):
    X, t = load_diabetes(return_X_y=True, scaled=False)
    np.savetxt(
        tmp_path / "rows.csv", np.c_[X, t], delimiter=",", header="a,b,c,d,e,f,g,h,i,j,target", comments=""
    )
    asked = [
        "path",
        str(tmp_path / "rows.csv"),
        "--loss",
        "squared_epsilon_insensitive",
        "--points",
        "8",
        "--json",
    ]
    ran = CliRunner().invoke(app, asked)
    points = json.loads(ran.stdout)["points"]
    assert ran.exit_code == 0
    assert all(point["converged"] for point in points)
    lambdas = [point["lambda1"] for point in points]
    assert lambdas == sorted(lambdas, reverse=True)
    assert len(lambdas) == 8
    assert points[0]["nonzero_weights"] == 0
    assert min(point["passes"] for point in points) >= 1


def test_once_time_is_over_no_other_point_is_begun(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt(
        tmp_path / "rows.csv", np.c_[rng.normal(size=(300, 4)), rng.integers(0, 2, 300)], delimiter=","
    )
    header = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text("a,b,c,d,label\n" + header)
    asked = ["path", str(tmp_path / "rows.csv"), "--points", "7", "--max-seconds"]
    hurried = CliRunner().invoke(app, [*asked, "1e-9", "--json", "--quiet"])
    assert hurried.exit_code == 5
    told = json.loads(hurried.stdout)
    assert (len(told["points"]), told["left_out"]) == (1, 6)
    assert told["points"][0]["relative_gap"] is not None
    assert "--max-seconds 1e-09 were over: 1 of 7 points are trained; give it more time" in hurried.stderr
    calm = CliRunner().invoke(app, [*asked, "1000", "--json"])
    assert calm.exit_code == 0, calm.stderr
    assert (len(json.loads(calm.stdout)["points"]), json.loads(calm.stdout)["left_out"]) == (7, 0)
    assert "were over" not in calm.stderr


def spoken(n=90, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    words = [["plot", "film", "actor"][i] for i in rng.integers(0, 3, n)]
    shops = [["web", "town"][i] for i in rng.integers(0, 2, n)]
    told = zip(y, words, shops, strict=True)
    return [
        {"label": int(a), "review": f"a {('dull', 'lovely')[a]} {w}", "shop": s, "price": 1.5 + a}
        for a, w, s in told
    ]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "ft"])
def test_a_path_over_documents_ends_in_the_models_that_training_gives(tmp_path, suffix):
    rows, file = spoken(), tmp_path / f"rows.{suffix}"
    options = {"text": ("review",), "cross": ("shop:price",)}
    if suffix == "csv":
        csv.write_csv(pa.Table.from_pylist(rows), file)
    elif suffix == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_text("".join(f"__label__{row['label']} {row['review']}\n" for row in rows))
        options = {}
    plot, chosen = tmp_path / "path.svg", []
    for name, each in options.items():
        chosen += [f"--{name}", ",".join(each)]
    told = [
        "--lambda1",
        "0.05",
        "--lambda1",
        "0.01",
        "--validation",
        str(file),
        "--plot",
        str(plot),
        "--json",
    ]
    done = CliRunner().invoke(app, ["path", str(file), *chosen, *told])
    assert done.exit_code == 0, done.output
    points = json.loads(done.stdout)["points"]
    assert points[-1]["accuracy"] == 1
    more = {"penalty": "l1", "solver": "smsvm", "memory_limit": "2GB", "threads": 1, "tol": 1e-4, **options}
    settings = Settings(lambda1=1.0, **more)
    found = list(path(open_with_settings(settings, file), settings, np.array([0.05, 0.01])))
    for point in found:
        alone = llsvm.train(file, lambda1=point.lambda1, **more)
        assert point.model.certificate.total_primal == pytest.approx(alone.certificate.total_primal, rel=3e-4)
        assert point.model.coef_.shape == alone.coef_.shape
    assert plot.stat().st_size > 1000


def test_a_path_over_hashed_documents(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in spoken()))
    options = ["--text", "review", "--hash-bits", "8", "--points", "3", "--json"]
    done = CliRunner().invoke(app, ["path", str(file), *options])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["points"][-1]["nonzero_weights"] >= 1


def test_a_path_is_not_pruned():
    settings = Settings(penalty="l1", lambda1=1.0, prune=0.1)
    with pytest.raises(UsageError, match="prune is for one training"):
        next(iter(path(open_source(np.eye(4), np.arange(4) % 2), settings)))
