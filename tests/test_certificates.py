"""Certificates: a proof or none, whatever the solver; settled is not converged."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import llsvm.sweeps
from llsvm import LLSVMClassifier
from llsvm.cli import app
from llsvm.cli.train import outcome
from llsvm.errors import EXIT_INTERNAL, EXIT_NOT_CONVERGED, CertificateError
from llsvm.model import Model
from llsvm.report import Certificate
from llsvm.settings import Settings


def problem(n=60, d=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.integers(0, classes, n)


def write(path, X, y):
    with path.open("w") as file:
        for row, label in zip(X, y, strict=True):
            file.write(f"{label} " + " ".join(f"{j + 1}:{v:.17g}" for j, v in enumerate(row)) + "\n")
    return path


# -- the one place where certificates are made --------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_objectives_that_are_not_finite_certify_nothing(bad):
    good = (1.0, 2.0, 3.0)
    for place in range(3):  # wherever it stands
        values = tuple(bad if i == place else value for i, value in enumerate(good))
        for primal, dual in ((values, good), (good, values)):
            with pytest.raises(CertificateError, match=f"problem {place + 1} of 3 is not finite"):
                Certificate(primal, dual, 1)


def test_a_dual_above_the_primal_is_refused():
    with pytest.raises(CertificateError, match=r"above the primal \(1.12 > 1\)"):
        Certificate((2.0, 1.0), (1.0, 1.12), 1)
    rounded = Certificate((1.0,), (1.0 + 1e-9,), 1)
    assert rounded.relative_gap == pytest.approx(1e-9)  # what rounding amounts to, not "better than optimal"


def test_outcome_knows_no_negative_gap():
    summary = {
        "converged": True, "passes": 3, "seconds": 1.0, "solver": "llsvm", "relative_gap": 0.0, "primal": 1.0,
        "dual": 1.0, "rows": 1, "features": 1, "classes": [0, 1], "bytes_read": 1, "peak_rss_bytes": 1,
    }  # fmt: skip
    summary["relative_gap"] = Certificate((1.0,), (1.0 + 1e-12,), 3).relative_gap
    assert "within 0.000% of the optimum" in outcome(summary, Settings())


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_infinite_objectives_end_in_a_sentence(multi_class):
    X, y = problem(classes=3)
    classifier = LLSVMClassifier(multi_class=multi_class, class_weight={2: 1e308}, C=100.0, max_iter=5)
    with pytest.raises(CertificateError, match="not finite"), np.errstate(all="ignore"):
        classifier.fit(X, y)


def test_a_dual_that_has_gone_wrong_ends_the_run_without_a_model(tmp_path, monkeypatch):
    X, y = problem(300)
    data, model = write(tmp_path / "rows.svm", X, y), tmp_path / "m"
    sweep, calls = llsvm.sweeps.sweep_dense, itertools.count()

    def forgets(*arguments):
        moving = sweep(*arguments)
        arguments[-1][0] += next(calls) * 1e4  # a gain that no step has made
        return moving

    monkeypatch.setattr(llsvm.sweeps, "sweep_dense", forgets)
    arguments = ["train", str(data), "--model", str(model), "--solver", "llsvm", "--memory", "400MB"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == EXIT_INTERNAL
    assert "above the primal" in result.output
    assert not model.exists()


def test_a_saved_certificate_that_proves_nothing_is_none(tmp_path, monkeypatch):
    X, y = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LLSVMClassifier().fit(X, y).model_
    certificate = model.certificate
    monkeypatch.setattr(Certificate, "__post_init__", lambda self: None)
    model.certificate = Certificate(certificate.primal, (certificate.primal[0] * 1.12,), 3)
    model.save(tmp_path / "m")
    monkeypatch.undo()
    again = Model.load(tmp_path / "m")
    assert again.certificate is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# -- settled is not converged -------------------------------------------------------------------------------


def test_paper_mode_does_not_call_settled_converged(tmp_path):
    X, y = problem(400, 5)
    data, model = write(tmp_path / "rows.svm", X, y), tmp_path / "m"
    arguments = ["train", str(data), "--model", str(model), "--paper", "-C", "10", "--memory", "400MB"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == EXIT_NOT_CONVERGED, result.output
    assert "not converged" in result.output
    assert "--exact" in result.output
    loaded = Model.load(model)
    assert loaded.certificate.relative_gap > 1e-3
    assert not loaded.converged
