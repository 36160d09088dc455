"""scikit-learn's callbacks: what they are told of a fit, pass by pass."""

import numpy as np
import pytest
from oracle import rows
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from llsvm import LLSVMClassifier, LLSVMOutlierDetector, LLSVMRegressor, LLSVMWarning

callback = pytest.importorskip("sklearn.callback")
SAME = {"random_state": 0, "n_jobs": 1, "tol": 1e-5}
X, Y = make_classification(500, 10, flip_y=0.2, random_state=0)


class Recorder:
    """All hooks, in their order."""

    def __init__(self, stop_after=None):
        self.calls, self.fitted, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.calls.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X=None, metadata=None, fitted_estimator=None):
        self.calls.append(("end", context.task_name, context.task_id))
        self.fitted.append((fitted_estimator, X, metadata))
        return context.task_name == "pass" and context.task_id + 1 == self.stop_after


def test_each_pass_is_a_task():
    recorder = Recorder()
    weight = np.ones(len(X))
    made = LLSVMClassifier(**SAME).set_callbacks(recorder).fit(X, Y, weight)
    n = made.n_iter_
    passes = [("pass", i) for i in range(n + 1)]  # the last is begun, and then there is none
    told = [(what, *task) for task in passes for what in ("begin", "end")]
    assert recorder.calls == ["setup", ("begin", "fit", 0), *told, ("end", "fit", 0), "teardown"]
    assert made.coef_.tobytes() == LLSVMClassifier(**SAME).fit(X, Y, weight).coef_.tobytes()
    fitted = [each for each, _, _ in recorder.fitted]
    assert fitted[n] is None
    gaps = [each.certificate_.relative_gap for each in fitted[:n]]
    assert gaps[-1] == made.certificate_.relative_gap < gaps[0]
    for each, given, metadata in recorder.fitted[:n]:
        assert given.shape == X.shape
        assert metadata["sample_weight"].tolist() == weight.tolist()
        assert each.predict(X).shape == Y.shape
    assert (fitted[n - 1].predict(X) == made.predict(X)).all()


def test_one_that_has_enough_stops_the_fit():
    recorder = Recorder(stop_after=2)
    with pytest.warns(
        LLSVMWarning, match="stopped: this is the best certified model so far, after 2 full passes"
    ):
        made = LLSVMClassifier(**SAME).set_callbacks(recorder).fit(X, Y)
    assert made.n_iter_ == 2
    assert recorder.calls[-1] == "teardown"


def test_a_fit_that_fails_tears_down():
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise ArithmeticError("of its own")

    recorder = Failing()
    with pytest.raises(ArithmeticError, match="of its own"):
        LLSVMClassifier(**SAME).set_callbacks(recorder).fit(X, Y)
    assert recorder.calls == ["setup", ("begin", "fit", 0), ("begin", "pass", 0), "teardown"]


@pytest.mark.parametrize("estimator", [LLSVMRegressor(**SAME), LLSVMOutlierDetector(**SAME)])
def test_other_estimators_have_them_too(estimator):
    recorder = Recorder()
    rows_ = np.abs(X)
    estimator = clone(estimator).set_callbacks(recorder).fit(rows_, rows_.sum(axis=1))
    last = recorder.fitted[estimator.n_iter_ - 1][0]
    np.testing.assert_array_equal(last.predict(rows_), estimator.predict(rows_))


def test_scores_and_progress_of_scikit_learn(capsys):
    data, labels = rows(n=300, classes=3)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    made = LLSVMClassifier(**SAME).set_callbacks(monitor, callback.ProgressBar()).fit(data, labels)
    scores = [each["accuracy"] for each in monitor.get_logs().data if each["task_name"] == "pass"]
    assert len(scores) == made.n_iter_
    assert scores[-1] == made.score(data, labels)
    search = GridSearchCV(LLSVMClassifier(**SAME).set_callbacks(monitor), {"C": [0.1, 1.0]}, cv=2)
    search.fit(data, labels)
    assert len(monitor.get_logs(select="all")) > 1


def test_files_and_pipelines(tmp_path):
    recorder = Recorder()
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.c_[X, Y], delimiter=",", header=",".join("abcdefghij") + ",label", comments="")
    made = LLSVMClassifier(**SAME).set_callbacks(recorder).fit_file(path)
    assert len(recorder.fitted) == made.n_iter_ + 2
    assert all(given is None for _, given, _ in recorder.fitted)
    assert (recorder.fitted[made.n_iter_ - 1][0].predict(X) == made.predict(X)).all()
    recorder = Recorder()
    make_pipeline(StandardScaler(), LLSVMClassifier(**SAME).set_callbacks(recorder)).fit(X, Y)
    assert recorder.calls.count("teardown") == 1
