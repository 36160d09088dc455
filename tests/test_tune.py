"""``llsvm tune``: candidates have their own optima, scores are scikit-learn's, and memory changes neither."""

import gc
import inspect
import json
import sys
from functools import partial

import numpy as np
import pytest
from oracle import liblinear, rows, small_pages, write_svmlight
from sklearn.metrics import (
    average_precision_score,
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.svm import LinearSVC
from typer.main import get_command
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import DataError, UsageError
from llsvm.memory.budget import MemoryBudget
from llsvm.scoring.ranking import Areas, rank
from llsvm.settings.objective import KINDS
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.stream.survivors import Survivors
from llsvm.training.training import Training
from llsvm.tune import asked
from llsvm.tuning import candidates
from llsvm.tuning.folds import holdout, needs_of_folds, stratified
from llsvm.tuning.scores import SCORES, Row, choose_row
from llsvm.tuning.search import Tuning
from tools.bench import measure
from tools.bench.generate import generate

COSTS = (0.01, 0.1, 1.0, 10.0)


def fold_numbers(X, y, folds=5, seed=0, held=None, **options):
    """(n,) the fold of each row, as tune makes them; −1 for rows that are never held out."""
    with Training(open_source(X, y, **options), Settings(seed=seed)) as training:
        dataset, stream = training.read(), training.stream
        stream.prepare(needs_of_folds(dataset))
        made = stratified(stream, folds, seed) if held is None else [holdout(stream, held, seed)]
        ids = (
            np.searchsorted(dataset.classes, y).astype(np.int32)
            if len(dataset.classes)
            else np.zeros(len(y), int)
        )
        numbers = np.full(len(y), -1)
        for number, fold in enumerate(made):
            numbers[fold.contains(np.arange(len(y)), ids)] = number
    return numbers


def tuned(X, y, ledger=None, costs=COSTS, score=None, again=True, show=lambda report: None, **options):
    """The run's plain values and its model; ledger: bytes for all but the process, None for plenty."""
    settings = Settings(**{"threads": 1, **options})
    opened = partial(open_source, X, y)
    source = opened()
    question = asked(
        [settings], costs, 5, None, None, score, "best", source, (lambda _: opened()) if again else None
    )
    with Training(source, settings, budget=MemoryBudget(ledger or 100_000_000, 0)) as training:
        tuning = Tuning(training, question)
        tuning.run(show)
        return tuning.as_dict(), training.model


# -- folds ---------------------------------------------------------------------------------------------------


def test_folds_have_the_same_share_of_each_class():
    rng = np.random.default_rng(0)
    y = rng.choice([0, 1, 2], size=5000, p=[0.9, 0.094, 0.006])
    X = rng.normal(size=(5000, 2))
    numbers = fold_numbers(X, y)
    for c in range(3):
        counts = np.bincount(numbers[y == c], minlength=5)
        assert counts.sum() == (y == c).sum()
        assert counts.max() - counts.min() <= 3
    assert (fold_numbers(X, y, seed=1) != numbers).mean() > 0.6
    np.testing.assert_array_equal(fold_numbers(X, y), numbers)
    held = fold_numbers(X, y, held=0.1)
    assert [np.sum(held[y == c] == 0) for c in range(3)] == pytest.approx(
        [np.sum(y == c) / 10 for c in range(3)], abs=1.5
    )


# -- the optimum, and the scores ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_each_candidate_has_the_optimum_of_its_rows_and_the_scores_of_a_grid_search(loss):
    X, y = rows(n=300, d=4, seed=2, noise=0.6)
    numbers, costs = fold_numbers(X, y), (0.01, 0.1, 1.0)
    svm = LinearSVC(loss=loss, fit_intercept=False, tol=1e-6, max_iter=1_000_000)
    names = ["accuracy", "balanced_accuracy", "roc_auc", "average_precision", "f1"]
    grid = GridSearchCV(svm, {"C": costs}, scoring=names, cv=PredefinedSplit(numbers), refit=False).fit(X, y)
    for score in names:
        ours = llsvm.tune(X, y, C=costs, loss=loss, score=score, tol=1e-6, threads=1, memory_limit="2GB")
        means = [row["mean"] for row in ours.table]
        np.testing.assert_allclose(means, grid.cv_results_[f"mean_test_{score}"], atol=0.002)
        for fold in range(5):
            scores = [row["scores"][fold] for row in ours.table]
            np.testing.assert_allclose(scores, grid.cv_results_[f"split{fold}_test_{score}"], atol=0.01)
        assert ours.best_score == max(means)
        assert ours.best_C == costs[means.index(max(means))]
    for row in ours.table:
        assert row["converged"]
        for fold in range(5):
            some = numbers != fold
            optimum, _ = liblinear(X[some], y[some], row["C"], loss)
            assert row["primals"][fold] == pytest.approx(optimum, rel=2e-6)
            assert row["gaps"][fold] <= 1e-6
    alone = llsvm.train(X, y, C=ours.best_C, loss=loss, tol=1e-6, threads=1, memory_limit="2GB")
    assert ours.model.certificate.total_primal == pytest.approx(alone.certificate.total_primal, rel=2e-6)
    assert ours.model.settings["C"] == ours.best_C
    assert ours.model.converged


@pytest.mark.parametrize(
    "score", ["accuracy", "balanced_accuracy", "roc_auc", "average_precision", "f1", "mae", "r2"]
)
def test_scores_are_by_sample_weights(score):
    X, y = rows(n=300, d=4, seed=2, noise=0.6)
    options = {"threads": 1, "memory_limit": "2GB", "tol": 1e-6}
    if score in ("mae", "r2"):
        y, options = 1.0 * y + X[:, 0], options | {"loss": "huber"}
    weight = np.random.default_rng(0).integers(0, 4, 300) * 1.0
    ours = llsvm.tune(X, y, sample_weight=weight, C=(0.01, 1.0), score=score, **options)
    numbers = fold_numbers(X, y, **({"label_kind": "regression"} if score in ("mae", "r2") else {}))
    for row in ours.table:
        for fold in range(5):
            out = numbers == fold
            model = llsvm.train(X[~out], y[~out], sample_weight=weight[~out], C=row["C"], **options)
            figures = llsvm.evaluate(model, X[out], y[out], sample_weight=weight[out])
            if score == "f1":
                figures |= figures["classes"][1]
            name = "mean_absolute_error" if score == "mae" else score
            assert row["scores"][fold] == pytest.approx(figures[name], abs=2e-3)


@pytest.mark.parametrize(("form", "score"), [("ovr", "f1"), ("ovo", "accuracy")])
def test_several_classes(form, score):
    X, y = rows(n=400, d=5, classes=3, seed=1)
    numbers = fold_numbers(X, y)
    ours = llsvm.tune(X, y, C="0.01,1", multiclass=form, score=score, tol=1e-6, threads=1, memory_limit="2GB")
    for row in ours.table:
        for fold in range(0, 5, 2):
            out = numbers == fold
            model = llsvm.train(
                X[~out], y[~out], C=row["C"], multiclass=form, tol=1e-6, threads=1, memory_limit="2GB"
            )
            figures = llsvm.evaluate(model, X[out], y[out])
            assert row["scores"][fold] == pytest.approx(
                figures["accuracy" if score == "accuracy" else "macro_f1"], abs=0.01
            )


@pytest.mark.parametrize("solver", ["llsvm", "smsvm"])
def test_candidates_of_classes_against_the_rest_have_their_weights(solver):
    X, y = rows(n=300, d=4, classes=3, seed=1)
    options = {"threads": 1, "memory_limit": "2GB", "tol": 1e-6}
    penalty = {"penalty": "l1", "loss": "squared_hinge"} if solver == "smsvm" else {}
    weights = [None, {0: 0.3, 1: 1.0, 2: 4.0}]
    ours = llsvm.tune(X, y, C=(0.1, 1.0), folds=3, class_weight=weights, **penalty, **options)
    numbers = fold_numbers(X, y, 3)
    for row in ours.table:
        for fold in range(3):
            some = numbers != fold
            more = {"C": row["C"], "class_weight": row["class_weight"], **penalty, **options}
            primal = llsvm.train(X[some], y[some], **more).certificate.total_primal
            assert row["primals"][fold] == pytest.approx(primal, rel=3e-6)


def test_logistic_regression_is_scored_by_its_probabilities():
    X, y = rows(n=300, d=4, seed=3)
    numbers = fold_numbers(X, y)
    ours = llsvm.tune(
        X, y, C=(0.01, 1.0), loss="logistic", score="log_loss", tol=1e-6, threads=1, memory_limit="2GB"
    )
    for row in ours.table:
        for fold in range(0, 5, 2):
            out = numbers == fold
            model = llsvm.train(
                X[~out], y[~out], C=row["C"], loss="logistic", tol=1e-6, threads=1, memory_limit="2GB"
            )
            assert row["scores"][fold] == pytest.approx(
                llsvm.evaluate(model, X[out], y[out])["log_loss"], rel=1e-4
            )
    assert ours.best_score == min(row["mean"] for row in ours.table)


def predicted_without(out, X, t, **options):
    """Of the rows ``out``, by a model of the others, whose targets are scaled as those of all rows."""
    options = {name: value for name, value in options.items() if name != "target_scale"}
    model = llsvm.train(X[~out], ((t - t.mean()) / t.std())[~out], target_scale="none", **options)
    return t.mean() + t.std() * model.predict(X[out])


@pytest.mark.parametrize(
    ("score", "theirs"), [("r2", r2_score), ("mae", mean_absolute_error), ("mse", mean_squared_error)]
)
def test_regression(score, theirs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    t = 50 + 10 * X[:, 0] + 5 * rng.normal(size=300)
    numbers = fold_numbers(X, t, label_kind="regression")
    options = {"loss": "epsilon_insensitive", "epsilon": 0.05, "target_scale": "standard", "bias": 1.0}
    options |= {"tol": 1e-5, "threads": 1, "memory_limit": "2GB"}
    ours = llsvm.tune(X, t, C=(0.001, 0.1, 10.0), score=score, **options)
    for row in ours.table:
        for fold in range(0, 5, 2):
            out = numbers == fold
            found = predicted_without(out, X, t, C=row["C"], **options)
            assert row["scores"][fold] == pytest.approx(theirs(t[out], found), rel=1e-2)
    worst = min if score == "r2" else max
    assert ours.best_score != worst(row["mean"] for row in ours.table)


@pytest.mark.parametrize("q", [0.1, 0.9])
def test_quantiles_are_chosen_by_their_pinball_loss(q):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    t = 50 + 3 * X[:, 0] + rng.exponential(2, 300)
    numbers = fold_numbers(X, t, label_kind="regression")
    options = {"loss": "quantile", "quantile": q, "target_scale": "standard", "bias": 1.0}
    options |= {"tol": 1e-6, "threads": 1, "memory_limit": "2GB"}
    ours = llsvm.tune(X, t, C=(0.001, 0.1, 10.0), **options)
    assert ours.score == "pinball"
    for row in ours.table:
        for fold in range(0, 5, 2):
            out = numbers == fold
            found = predicted_without(out, X, t, C=row["C"], **options)
            expected = mean_pinball_loss(t[out], found, alpha=q)
            assert row["scores"][fold] == pytest.approx(expected, rel=1e-2)
    assert ours.best_score == min(row["mean"] for row in ours.table)


def test_each_loss_has_its_score():
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(60, 2)), rng.normal(size=60)
    wanted = {
        "hinge": "accuracy",
        "squared_hinge": "accuracy",
        "logistic": "accuracy",
        "least-squares": "accuracy",
    }
    wanted |= {
        "epsilon_insensitive": "mae",
        "squared_epsilon_insensitive": "r2",
        "huber": "mae",
        "quantile": "pinball",
    }
    assert {*wanted, "one_class"} == set(KINDS)
    for loss, score in wanted.items():
        y = t if KINDS[loss] == "regression" else t > 0
        assert llsvm.tune(X, y, C=(0.1, 1.0), loss=loss).score == score
    several = ["quantile", "huber"]
    assert llsvm.tune(X, t, C=(0.1, 1.0), loss=several).score == "mae"
    with pytest.raises(llsvm.UsageError, match="pinball is of a quantile"):
        llsvm.tune(X, t, C=(0.1, 1.0), loss=several, score="pinball")


# -- memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["accuracy", "average_precision"])
def test_batches_that_a_small_limit_forces_give_the_same_table(monkeypatch, score):
    small_pages(monkeypatch)
    X, y = rows(n=400, d=4, seed=5, noise=0.6)
    options = {"score": score, "tol": 1e-5, "costs": (0.01, 0.1, 1.0)}
    plenty, model = tuned(X, y, **options)
    assert (plenty["batches"], plenty["at_once"]) == (1, 18)
    seen = set()
    for ledger in (BATCHES, SPILLS):
        little, other = tuned(X, y, ledger=ledger, **options)
        seen.add((little["at_once"], little["batches"]))
        for one, two in zip(plenty["table"], little["table"], strict=True):
            assert two["converged"]
            assert two["mean"] == pytest.approx(one["mean"], abs=0.0026)  # a row may be on either side of w
            np.testing.assert_allclose(two["primals"], one["primals"], rtol=2e-5)
        assert other.certificate.total_primal == pytest.approx(model.certificate.total_primal, rel=2e-5)
    assert seen == {(6, 3), (12, 2)}


@pytest.mark.parametrize(("ledger", "begun"), [("BATCHES", True), ("SPILLS", False)])
def test_batches_begin_at_those_before_where_rows_are_in_memory(monkeypatch, ledger, begun):
    small_pages(monkeypatch)
    X, y = rows(n=400, d=4, seed=5, noise=0.6)
    ways, begin_at = list[int](), candidates.LLSVM.begin_at

    def look(solver, shares, sums=None):
        ways.append(len(solver.problems))
        return begin_at(solver, shares, sums)

    monkeypatch.setattr(candidates.LLSVM, "begin_at", look)
    found, _ = tuned(X, y, ledger=globals()[ledger], costs=(0.01, 0.1, 1.0))
    assert found["batches"] > 1
    assert any(n > 1 for n in ways) is begun  # the model, a problem of its own, does in any case


BATCHES, SPILLS = 200_000, 70_000


def test_survivors_of_one_batch_are_gone_before_the_next_and_the_model(monkeypatch):
    small_pages(monkeypatch)
    X, y = rows(n=400, d=4, seed=5, noise=0.6)
    alive = list[int]()

    def look(report):
        alive.append(sum(isinstance(each, Survivors) for each in gc.get_objects()))

    gc.collect()
    gc.disable()
    try:
        found, _ = tuned(X, y, ledger=SPILLS, costs=(0.01, 0.1, 1.0), show=look)
    finally:
        gc.enable()
    assert found["batches"] > 1
    assert max(alive) == 1


def test_candidates_that_take_too_many_passes_are_trained_alone(monkeypatch):
    small_pages(monkeypatch)
    monkeypatch.setattr(candidates, "MAX_PASSES", 2)
    X, y = rows(n=800, d=6, seed=5, noise=0.6)
    X = X * np.array([1, 4, 1, 1, 16, 1])  # exact as 32-bit floats
    plenty, _ = tuned(X, y, tol=1e-4)
    little, _ = tuned(X, y, ledger=150_000, tol=1e-4)
    assert plenty["trained_alone"] == 0
    assert little["trained_alone"] > 0
    for one, two in zip(plenty["table"], little["table"], strict=True):
        assert two["converged"]
        np.testing.assert_allclose(two["primals"], one["primals"], rtol=2e-4)
        assert two["mean"] == pytest.approx(one["mean"], abs=0.005)
    once, _ = tuned(X, y, ledger=150_000, tol=1e-4, again=False)
    assert once["trained_alone"] == 0
    assert not all(row["converged"] for row in once["table"])


def test_what_is_held_while_candidates_are_trained_alone_is_signed_for(tmp_path):
    X, y = rows(n=400, d=6, seed=5, noise=0.6)
    path, ledgers = write_svmlight(tmp_path / "rows.svm", X, y), []
    settings = Settings(threads=1, tol=1e-16, max_passes=2)
    budget = MemoryBudget(100_000_000, 0)

    def again(settings):
        ledgers.append(dict(budget.lines))
        return open_source(path)

    question = asked([settings], (0.01, 10.0), 5, None, None, None, "best", open_source(path), again)
    with Training(open_source(path), settings, budget=budget) as training:
        tuning = Tuning(training, question)
        tuning.run()
        assert training.stream.place == "memory"
        assert tuning.as_dict()["trained_alone"] == len(ledgers) > 0
    for lines in ledgers:
        assert lines["all rows"] >= 4 * X.size
        assert lines["weights of candidates"] == 8 * 2 * 6 * (training.stream.dataset.n_columns + 1)
        assert lines["dual variables to begin at"] == 4 * 2 * len(y)


def test_again_it_is_the_same_byte_for_byte(tmp_path):
    X, y = rows(n=300, d=5, seed=1)
    data = write_svmlight(tmp_path / "rows.svm", X, y)
    tables = []
    for name in ("one", "two"):
        words = [
            "tune",
            str(data),
            "--model",
            str(tmp_path / name),
            "--C",
            "0.1,1,10",
            "--json",
            "--threads",
            "2",
        ]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.stderr
        tables.append(json.loads(done.stdout)["table"])
    assert tables[0] == tables[1]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("file", ["adult/a9a.xz"])
def test_all_candidates_take_few_more_passes_than_training_once(data_dir, file):
    path = str(data_dir / file)
    found = llsvm.tune(path, threads=1, memory_limit="2GB")
    alone = llsvm.train(path, threads=1, memory_limit="2GB")
    assert found.details["candidates"] == 35
    assert found.details["batches"] == 1
    assert found.details["search_passes"] <= 3 * len(alone.history)
    assert all(row["converged"] for row in found.table)


# -- what is held out, and the choice ---------------------------------------------------------------------------


def test_a_share_of_the_rows_is_held_out_once():
    X, y = rows(n=400, d=4, seed=3)
    held = fold_numbers(X, y, held=0.2) == 0
    ours = llsvm.tune(X, y, C=(0.01, 1.0), holdout=0.2, tol=1e-6, threads=1, memory_limit="2GB")
    for row in ours.table:
        model = llsvm.train(X[~held], y[~held], C=row["C"], tol=1e-6, threads=1, memory_limit="2GB")
        assert row["scores"] == [pytest.approx(llsvm.evaluate(model, X[held], y[held])["accuracy"], abs=0.02)]
        assert row["spread"] is None
    assert ours.model.n_rows == 400


@pytest.mark.parametrize("score", ["accuracy", "roc_auc"])
def test_a_file_is_scored_by_models_of_all_rows(tmp_path, score):
    X, y = rows(n=400, d=4, seed=3)
    for name, part in (("train.csv", slice(250)), ("held.csv", slice(250, None))):
        order = [0, 1, 2, 3, 4] if name == "train.csv" else [4, 2, 0, 1, 3]
        names = ",".join(np.array(["a", "b", "c", "d", "label"])[order])
        np.savetxt(
            tmp_path / name, np.c_[X, y][part][:, order], delimiter=",", header=names, comments="", fmt="%.9g"
        )
    train, held = str(tmp_path / "train.csv"), str(tmp_path / "held.csv")
    words = [
        "tune",
        train,
        "--validation",
        held,
        "--C",
        "0.001,1",
        "--model",
        str(tmp_path / "m"),
        "--tol",
        "1e-6",
    ]
    done = CliRunner().invoke(app, [*words, "--score", score, "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    for row in found["table"]:
        model = llsvm.train(train, C=row["C"], tol=1e-6)
        if score == "accuracy":
            assert row["mean"] == pytest.approx(llsvm.evaluate(model, held)["accuracy"], abs=0.007)
        else:
            assert row["mean"] == pytest.approx(
                roc_auc_score(y[250:], model.decision_function(X[250:])), abs=1e-3
            )
    assert llsvm.load(tmp_path / "m").settings["C"] == found["best_C"]
    arrays = llsvm.tune(X[:250], y[:250], validation=(X[250:], y[250:]), C=(0.001, 1.0), score=score)
    assert len(arrays.table) == 2
    shown = CliRunner().invoke(app, words)
    assert "chosen" in shown.stdout
    assert "model written to" in shown.stdout


def test_the_rule_of_one_standard_error_takes_a_smaller_C():
    made = [Row(C, scores, (1.0,) * 3, (0.0,) * 3, True) for C, scores in ROWS]
    assert choose_row(made, SCORES["accuracy"], "best").C == 10.0
    assert (
        choose_row(made, SCORES["accuracy"], "1se").C == 1.0
    )  # 0.83 is within 0.0577 / √3 of 0.84, 0.7 is not
    assert choose_row(made, SCORES["mae"], "best").C == 0.1
    assert made[1].spread == pytest.approx(np.std(ROWS[1][1], ddof=1))


ROWS = [
    (0.1, (0.7, 0.7, 0.7)),
    (1.0, (0.8, 0.83, 0.86)),
    (10.0, (0.79, 0.84, 0.89)),
    (100.0, (0.84, 0.84, 0.84)),
]


@pytest.mark.parametrize("digits", [None, 1, 0])
@pytest.mark.parametrize("max_rows", [10_000, 300, 40])
def test_rankings_are_scikit_learns_however_few_rows_are_held(digits, max_rows):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=3000)
    y = scores + rng.normal(size=3000) > 0
    scores = scores if digits is None else np.round(scores, digits)
    signed = np.where(y, 1.0, -1.0)
    found = Areas()
    rank(lambda: ((scores[i : i + 700], signed[i : i + 700]) for i in range(0, 3000, 700)), max_rows, found)
    assert found.roc_auc == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    assert found.average_precision == pytest.approx(average_precision_score(y, scores), abs=1e-12)


def test_options_are_those_of_train_with_the_same_defaults():
    ours, theirs = (inspect.signature(each).parameters for each in (llsvm.tune, llsvm.train))
    shared = set(ours) & set(theirs) - {"C"}
    assert {"memory_limit", "loss", "seed", "class_weight", "text"} <= shared
    for name in shared:
        assert ours[name].default == theirs[name].default, name
        if name not in ("loss", "penalty", "l1_ratio", "class_weight", "multiclass"):  # or lists of them
            assert ours[name].annotation == theirs[name].annotation, name
    typed = {each.name: each for each in get_command(app).commands["tune"].params}
    assert {"costs", "folds", "validation", "holdout", "score", "rule"} <= set(typed)
    for name, each in typed.items():
        if name in OPTIONS and name in ours:
            assert (each.default or None) == (OPTIONS[name].default or None), name


# -- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 1.0}, "there is nothing to choose from one C"),
        ({"C": "10..1"}, "a range goes from a smaller to a larger C"),
        ({"C": "1,x"}, "'x' is no positive number"),
        ({"C": (1.0, -1.0)}, "'-1.0' is no positive number"),
        ({"score": "log_loss"}, "needs probabilities, and loss hinge gives none"),
        ({"score": "r2"}, "predicts classes"),
        ({"score": "accuracy", "loss": "huber"}, "predicts numbers"),
        ({"score": "best"}, "must be one of accuracy"),
        ({"folds": 1}, "must be a whole number, 2 or more"),
        ({"folds": 3, "holdout": 0.1}, "several ways to hold rows out"),
        ({"holdout": 1.5}, "must be a share of the rows"),
        ({"rule": "1se", "holdout": 0.1}, "needs several folds"),
        ({"rule": "least"}, "must be best or 1se"),
        ({"loss": "one_class"}, "has no C to choose"),
        ({"multiclass": "crammer-singer"}, "crammer-singer"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(options, message):
    X, y = rows(n=40)
    with pytest.raises(UsageError) as caught:
        llsvm.tune(X, y, **options)
    assert message in str(caught.value)


def test_a_class_of_few_rows_is_named():
    X, y = rows(n=100)
    y = np.where(np.arange(100) < 3, 2, y)
    with pytest.raises(DataError, match="class 2 has 3 rows in all, so that a fold would have none of it"):
        llsvm.tune(X, y, C=(0.1, 1.0))
    with pytest.raises(DataError, match="3 rows are too few"):
        llsvm.tune(X[:3], np.arange(3.0), C=(0.1, 1.0), loss="huber")


def test_more_than_two_classes_are_not_ranked():
    X, y = rows(n=100, classes=3)
    with pytest.raises(DataError, match="score roc_auc is for two classes"):
        llsvm.tune(X, y, C=(0.1, 1.0), score="roc_auc")


def test_a_validation_file_that_does_not_fit_is_refused_before_anything_is_trained(tmp_path):
    X, y = rows(n=60, d=2)
    np.savetxt(tmp_path / "rows.csv", np.c_[X, y], delimiter=",", header="a,b,label", comments="")
    np.savetxt(tmp_path / "other.csv", np.c_[X, y], delimiter=",", header="a,x,label", comments="")
    np.savetxt(tmp_path / "labels.csv", np.c_[X, y + 5], delimiter=",", header="a,b,label", comments="")
    words = [
        "tune",
        str(tmp_path / "rows.csv"),
        "--model",
        str(tmp_path / "m"),
        "--C",
        "0.1,1",
        "--validation",
    ]
    other = CliRunner().invoke(app, [*words, str(tmp_path / "other.csv")])
    assert other.exit_code == 3
    assert "columns is missing: b" in other.stderr
    assert "pass 1" not in other.stderr
    labels = CliRunner().invoke(app, [*words, str(tmp_path / "labels.csv")])
    assert labels.exit_code == 3
    assert "is none of the training data's classes: leave its rows out" in labels.stderr
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("command", [["tune", "--model", "none.llsvm"], ["path"]])
def test_a_limit_that_is_too_small_for_anything_is_refused(tmp_path, command):
    X, y = rows(n=60)
    data = write_svmlight(tmp_path / "rows.svm", X, y)
    done = CliRunner().invoke(app, [*command, str(data), "--memory-limit", "20MB"])
    assert done.exit_code == 4
    assert "the limit is 20 MB" in done.stderr


@pytest.mark.slow
def test_a_cgroup_of_the_limit_is_enough_and_batches_give_the_same_table(tmp_path):
    data = tmp_path / "rows.svm"
    generate("text", data, 20_000)
    words = ["tune", str(data), "--model", str(tmp_path / "m"), "--C", "0.01,0.1,1,10", "--tol", "1e-4"]
    words += ["--json", "-q"]
    tables, batches = [], []
    for limit in (1000, 350, 320):  # MB
        command = [sys.executable, "-m", "llsvm", *words, "--threads", "1", "--memory-limit", f"{limit}MB"]
        try:
            with measure.memory_cgroup(limit * 1_000_000) as group:
                done = measure.run(command, cgroup=group)
        except OSError as error:
            pytest.skip(f"no memory cgroup to be had here: {error}")
        assert done.exit_code == 0, done.stderr
        found = json.loads(done.stdout)
        assert done.peak_rss_bytes <= limit * 1_000_000
        assert all(row["converged"] for row in found["table"])
        tables.append(found["table"])
        batches.append(found["batches"])
    assert batches[0] == 1
    assert min(batches[1:]) > 1
    for table in tables[1:]:
        for one, two in zip(tables[0], table, strict=True):
            np.testing.assert_allclose(two["primals"], one["primals"], rtol=1e-4)
            assert two["mean"] == pytest.approx(one["mean"], abs=0.002)
