"""A path's points are what training at their λ₁ alone gives."""

import numpy as np
import pytest

import llsvm
from llsvm.data import open_source
from llsvm.path import path
from llsvm.settings.settings import Settings


@pytest.mark.parametrize("more", [{"penalty": "l1"}, {"penalty": "elasticnet", "lambda2": 1e-3}])
def test_each_point_is_trained_with_its_own_lambda1(more):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=400))
    settings = Settings(tol=1e-4, memory_limit="1GB", threads=1, lambda1=1.0, **more)
    points = list(path(open_source(X, y), settings, np.array([0.2, 0.05, 0.01])))
    assert [point.lambda1 for point in points] == [0.2, 0.05, 0.01]
    for point in points:
        alone = llsvm.train(X, y, tol=1e-4, lambda1=point.lambda1, threads=1, memory_limit="1GB", **more)
        assert point.model.certificate.total_primal == pytest.approx(alone.certificate.total_primal, rel=3e-4)
    weights = [np.abs(point.model.coef_).sum() for point in points]
    assert weights == sorted(weights)
    assert weights[0] < 0.5 * weights[-1]
