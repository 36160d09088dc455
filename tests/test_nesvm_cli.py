"""NESVM, kernels and feature maps from the command line and as a scikit-learn estimator."""

import json
import subprocess
import sys

import numpy as np
import pytest
from oracle import write_svmlight
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC
from typer.testing import CliRunner

from llsvm import LLSVMClassifier, Model, train
from llsvm.cli import app
from llsvm.errors import EXIT_NOT_CONVERGED, DataError
from llsvm.settings.settings import Settings

CLI = [sys.executable, "-c", "from llsvm.cli import main; main()"]


def llsvm(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def moons(n=300, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32).astype(float)
    score = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * rng.normal(size=n)
    return X, np.digitize(score, [1.0] if classes == 2 else [0.3, 1.5])


@pytest.fixture
def files(tmp_path):
    """The folder, with rows.svm and test.svm of three classes in it."""
    for name, seed in (("rows", 0), ("test", 1)):
        write_svmlight(tmp_path / f"{name}.svm", *moons(seed=seed, classes=3))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("--loss least-squares --intercept", {"loss": "least-squares", "intercept": True}),
        ("--penalty l1 -C 0.1 --max-passes 2000", {"penalty": "l1", "C": 0.1, "max_passes": 2000}),
        ("--multiclass ovo --bias 1", {"multiclass": "ovo", "bias": 1.0}),
        (
            "--kernel rbf --gamma 0.3 --intercept --multiclass ovo",
            {"kernel": "rbf", "gamma": 0.3, "intercept": True, "multiclass": "ovo"},
        ),
        (
            "--kernel poly --gamma 0.3 --degree 2 --coef0 1 --intercept --max-passes 2000",
            {
                "kernel": "poly",
                "gamma": 0.3,
                "degree": 2,
                "coef0": 1.0,
                "intercept": True,
                "max_passes": 2000,
            },
        ),
        (
            "--feature-map rff --components 60 --bias 1 --max-passes 2000",
            {"feature_map": "rff", "components": 60, "bias": 1.0, "max_passes": 2000},
        ),
        (
            "--feature-map nystroem --kernel poly --degree 2 --coef0 1 --components 30 --max-passes 5000",
            {
                "feature_map": "nystroem",
                "kernel": "poly",
                "degree": 2,
                "coef0": 1.0,
                "components": 30,
                "max_passes": 5000,
            },
        ),
        (
            "--step paper --stop change --tol 0.1 --mu 2 --mu-end 1 --max-passes 5000",
            {"step": "paper", "stop": "change", "tol": 0.1, "mu": 2.0, "mu_end": 1.0, "max_passes": 5000},
        ),
        ("--no-homotopy --mu 0.01 --max-passes 2000", {"homotopy": False, "mu": 0.01, "max_passes": 2000}),
    ],
)
def test_every_option_does_what_it_does_in_python(files, words, settings):
    model = files / "m"
    common = ["--solver", "nesvm", "--threads", "1", "--quiet", "--json"]
    done = llsvm("train", files / "rows.svm", "--model", model, *common, *words.split())
    settled = settings.get("stop") == "change"  # with a gap above the tolerance here
    assert done.exit_code == (EXIT_NOT_CONVERGED if settled else 0), done.output
    summary = json.loads(done.stdout)
    same = train(files / "rows.svm", solver="nesvm", threads=1, **settings)
    assert summary["primal"] == pytest.approx(same.certificate.total_primal, rel=1e-12)
    assert summary["solver"] == "nesvm"
    saved = Model.load(model)
    assert {name: saved.settings[name] for name in settings} == settings
    Z, z = moons(seed=1, classes=3)
    np.testing.assert_array_equal(saved.predict(Z), same.predict(Z))
    labels = files / "labels.txt"
    assert llsvm("predict", model, files / "test.svm", "--output", labels).exit_code == 0
    np.testing.assert_array_equal(np.loadtxt(labels), same.predict(Z))
    answer = llsvm("evaluate", model, files / "test.svm", "--json")
    assert json.loads(answer.stdout)["accuracy"] == pytest.approx(np.mean(same.predict(Z) == z))


def test_precomputed_kernel_from_a_file(tmp_path):
    X, y = moons(120)
    K = rbf_kernel(X, gamma=0.3)
    np.save(tmp_path / "rows.npy", np.c_[K, y])
    args = ("--solver", "nesvm", "--kernel", "precomputed", "--intercept", "--label", "last", "--json", "-q")
    done = llsvm("train", tmp_path / "rows.npy", "--model", tmp_path / "m", *args)
    assert done.exit_code == 0, done.output
    svm = SVC(kernel="precomputed", tol=1e-6).fit(K, y)
    Z = moons(500, seed=1)[0]
    scores = Model.load(tmp_path / "m").predict(rbf_kernel(Z, X, gamma=0.3))
    assert np.mean(scores == svm.predict(rbf_kernel(Z, X, gamma=0.3))) >= 0.99


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("--solver llsvm --kernel rbf", "--feature-map nystroem or rff"),
        ("--solver llsvm --intercept", "pass --solver smsvm or nesvm or smo"),
        ("--solver llsvm --penalty l1", "pass --solver smsvm or nesvm"),
        ("--solver llsvm --step paper", "pass --solver nesvm"),
        ("--solver llsvm --mu 1", "pass --solver nesvm"),
        ("--solver nesvm --mu-end 1", "pass --stop change"),
        ("--solver nesvm --loss squared_hinge --mu 2", "--mu 2.0 is of how a loss with a kink is smoothed"),
        ("--loss least-squares --intercept --no-homotopy", "--no-homotopy is of how a loss with a kink"),
        ("--kernel rbf --loss squared_hinge --mu 2", "--loss squared_hinge has none: leave one of them out"),
        ("--gamma 1", "pass --kernel rbf or poly"),
        ("--degree 2", "pass --kernel poly"),
        (
            "--kernel rbf --degree 2",
            "--degree has no meaning with --kernel rbf: pass --kernel poly, or leave it out",
        ),
        (
            "--kernel linear --gamma 1",
            "--gamma has no meaning with --kernel linear: pass --kernel rbf or poly",
        ),
        ("--feature-map nystroem --coef0 0", "--coef0 has no meaning with --kernel rbf: pass --kernel poly"),
        ("--components 7", "pass --feature-map"),
        ("--solver nesvm --multiclass crammer-singer", "leave --solver out"),
        ("--solver nesvm --paper", "--step paper"),
        ("--solver nesvm --kernel rbf --penalty l1", "--penalty l1 does not go with --kernel rbf"),
        ("--solver nesvm --intercept --bias 1", "choose one"),
    ],
)
def test_wrong_combinations_name_the_remedy(files, words, remedy):
    done = llsvm("train", files / "rows.svm", "--model", files / "m", *words.split())
    assert done.exit_code == 2
    assert remedy in done.stderr
    assert not (files / "m").exists()


def test_matrix_larger_than_the_disk_limit_is_refused_with_its_bytes(tmp_path):
    rng = np.random.default_rng(0)
    write_svmlight(tmp_path / "rows.svm", rng.normal(size=(9000, 2)).round(2), rng.integers(0, 2, 9000))
    options = ("--solver", "nesvm", "--kernel", "rbf", "--memory", "300MB", "--disk-limit", "100MB")
    done = in_a_process(tmp_path / "rows.svm", tmp_path, *options)
    assert done.returncode == 4
    assert "648000000 bytes" in done.stderr
    assert "--feature-map nystroem or rff" in done.stderr
    assert not list((tmp_path / "spill").iterdir())


def test_inspect_and_export_know_kernel_machines(files):
    model = files / "m"
    args = ("--solver", "nesvm", "--kernel", "rbf", "--intercept", "-q")
    assert llsvm("train", files / "rows.svm", "--model", model, *args).exit_code == 0
    assert "kernel machine (rbf kernel, gamma 0.2" in llsvm("inspect", model).stdout
    done = llsvm("export", model, files / "x")
    assert done.exit_code == 3
    assert "linear" in done.stderr
    assert not (files / "x").exists()


def test_kernels_that_have_no_optimum_are_refused():
    X, y = moons(200)
    with pytest.raises(DataError, match="semi-definite"):
        train(np.tanh(2 * X @ X.T - 1), y, solver="nesvm", kernel="precomputed", intercept=True)
    with pytest.raises(DataError, match="smaller gamma or degree"):
        train(1e80 * X, y, solver="nesvm", kernel="poly")


def test_fewer_rows_than_columns():
    X, y = moons(40)
    wide = np.hstack([X, np.zeros((40, 60))])
    options = {"solver": "nesvm", "kernel": "rbf", "gamma": 0.3, "intercept": True}
    np.testing.assert_allclose(
        train(wide, y, **options).decision_function(wide),
        train(X, y, **options).decision_function(X),
        atol=1e-9,
    )


def test_estimator_as_support_vector_machine():
    X, y = load_digits(n_class=5, return_X_y=True)
    X, y = X[:600] / 16, y[:600]
    machine = LLSVMClassifier(solver="nesvm", kernel="rbf", penalize_intercept=False, multi_class="ovo")
    ours, theirs = cross_val_score(machine, X, y, cv=3), cross_val_score(SVC(gamma=1 / 64), X, y, cv=3)
    np.testing.assert_allclose(ours, theirs, atol=0.011)
    given = clone(machine).set_params(kernel="precomputed")
    np.testing.assert_allclose(cross_val_score(given, rbf_kernel(X, gamma=1 / 64), y, cv=3), ours, atol=0.006)
    mapped = LLSVMClassifier(feature_map="nystroem", components=200).fit(X, y)
    assert mapped.score(X, y) > 0.9
    assert mapped.coef_.shape == (5, 200)
    assert mapped.n_features_in_ == 64


# -- promises, in processes of their own -------------------------------------------------------------------


def in_a_process(data, folder, *options):
    command = [*CLI, "train", data, "--model", folder / "m", "--spill-dir", folder / "spill", "--json", "-q"]
    return subprocess.run([*map(str, command), *options], capture_output=True, text=True, check=False)


def summary_of(data, folder, *options):
    done = in_a_process(data, folder, *options)
    assert done.returncode == 0, done.stderr
    assert not list((folder / "spill").iterdir())
    return json.loads(done.stdout)


@pytest.mark.slow
def test_kernel_matrix_larger_than_the_limit_stays_under_it(tmp_path):
    """The limit leaves some 36 MB beside the interpreter and its libraries: not an eighth of the matrix."""
    n, limit = 8_700, 300_000_000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0).astype(np.float32)
    np.save(tmp_path / "rows.npy", np.c_[X, y])
    options = ("--solver", "nesvm", "--kernel", "rbf", "--intercept", "-C", "0.01", "--label", "last")
    summary = summary_of(tmp_path / "rows.npy", tmp_path, *options, "--memory", "300MB")
    assert 4 * n * n >= limit
    assert summary["converged"]
    assert summary["peak_rss_bytes"] <= limit
    assert summary["peak_disk_bytes"] >= 4 * n * n  # the values have no pattern that could be packed
    assert "spill" in summary["note"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "limit"),
    [
        *((words, 280) for words in ("", "--intercept", "--loss least-squares", "--penalty l1 -C 0.01")),
        ("--feature-map rff --components 20", 300),
    ],
)
def test_models_from_blocks_on_disk_stay_under_the_limit(words, limit, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700_000, 20)).astype(np.float32)
    y = (X @ rng.normal(size=20) + 3 * rng.normal(size=len(X)) > 0).astype(np.float32)
    np.save(tmp_path / "rows.npy", np.c_[X, y])
    options = ("--solver", "nesvm", "--label", "last", "--memory", f"{limit}MB", "--cache", "always")
    summary = summary_of(tmp_path / "rows.npy", tmp_path, *options, *words.split())
    assert summary["converged"]
    assert summary["peak_rss_bytes"] <= limit * 1_000_000
    assert summary["read_from"] == "cache"


def test_grids_from_python_may_vary_the_kernel():
    """Only what somebody types is refused: one set of parameters goes with every kernel of a grid."""
    assert Settings(kernel="linear", gamma=1.0, degree=2, coef0=1.0).kernel == "linear"
