"""``llsvm tune`` over losses, penalties and class weights: each candidate has the optimum of its own objective; and
a race ends with the same choice."""

import json

import numpy as np
import pytest
from oracle import rows, small_pages
from sklearn.datasets import load_wine
from test_tune import fold_numbers
from typer.testing import CliRunner

import llsvm
from llsvm import LLSVMClassifierCV
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import UsageError
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import Variant
from llsvm.settings.settings import Settings
from llsvm.training.training import Training
from llsvm.tune import asked
from llsvm.tuning.grid import objectives_of
from llsvm.tuning.scores import SCORES, Row, choose_row
from llsvm.tuning.search import Tuning

QUICK = {"threads": 1, "memory_limit": "2GB"}


def uneven(n=300, seed=2):
    X, y = rows(n=n, d=4, seed=seed, noise=0.6)
    some = np.flatnonzero((y == 0) | (np.arange(n) % 4 == 0))  # one class has a quarter of its rows
    return X[some], y[some]


def found(X, y, given, ledger=100_000_000, costs=(0.01, 1.0), tol=1e-5):
    """The table of a search under a ledger of so many bytes."""
    objectives = objectives_of({"threads": 1, "tol": tol, **given})
    source = open_source(X, y)
    again = lambda _: open_source(X, y)  # noqa: E731
    question = asked(objectives, costs, 5, None, None, None, "best", source, again)
    with Training(source, objectives[0], budget=MemoryBudget(ledger, 0)) as training:
        tuning = Tuning(training, question)
        tuning.run()
        return tuning.as_dict()


def primal_of(X, y, row, **options):
    own = {name: row[name] for name in ("C", "loss", "penalty")}
    own |= {"l1_ratio": row["l1_ratio"]} if row["l1_ratio"] else {}
    model = llsvm.train(X, y, **own, **options, tol=1e-6, **QUICK)
    return model.certificate.total_primal


def test_class_weights_and_losses_have_their_own_optima_in_the_same_passes(monkeypatch):
    small_pages(monkeypatch)
    X, y = uneven()
    numbers = fold_numbers(X, y)
    given = {"loss": ["hinge", "squared_hinge"], "class_weight": [None, "balanced"]}
    table = found(X, y, given)
    assert [each["at_once"] for each in table["searches"]] == [2 * 2 * 6] * 2
    assert [each["batches"] for each in table["searches"]] == [1, 1]
    balanced = dict(enumerate(len(y) / (2 * np.bincount(y))))
    assert len(table["table"]) == 8
    for row in table["table"]:
        assert row["converged"]
        weights = balanced if row["class_weight"] else {0: 1.0, 1: 1.0}
        for fold in (0, 3):
            some = numbers != fold
            optimum = primal_of(X[some], y[some], row, class_weight=weights)
            assert row["primals"][fold] == pytest.approx(optimum, rel=2e-5)
    little = found(X, y, given, ledger=70_000)
    assert max(each["batches"] for each in little["searches"]) > 1
    for one, two in zip(table["table"], little["table"], strict=True):
        np.testing.assert_allclose(two["primals"], one["primals"], rtol=2e-5)
        assert two["mean"] == pytest.approx(one["mean"], abs=0.006)


def test_penalties_with_l1_have_their_own_optima():
    X, y = rows(n=300, d=4, classes=3, seed=2, noise=0.6)
    numbers = fold_numbers(X, y)
    given = {"penalty": ["l2", "l1", "elasticnet"], "l1_ratio": [0.3, 0.7], "loss": "squared_hinge"}
    table = found(X, y, given)
    assert [each["solver"] for each in table["searches"]] == ["llsvm", "smsvm", "smsvm"]
    assert [row["l1_ratio"] for row in table["table"][::2]] == [None, None, 0.3, 0.7]
    for row in table["table"]:
        out = numbers == 1
        assert row["converged"]
        optimum = primal_of(X[~out], y[~out], row)
        assert row["primals"][1] == pytest.approx(optimum, rel=3e-5)
    assert len({round(row["primals"][1], 6) for row in table["table"]}) == 8


def test_the_rule_of_one_standard_error_stays_with_the_best_objective():
    scores = [(0.8, 0.83, 0.86), (0.79, 0.84, 0.89), (0.81, 0.85, 0.86), (0.8, 0.84, 0.91)]
    made = [
        Row(C, of, (1.0,) * 3, (0.0,) * 3, True, number)
        for number, C, of in zip((0, 0, 1, 1), (0.1, 1.0, 0.5, 5.0), scores, strict=True)
    ]
    assert choose_row(made, SCORES["accuracy"], "best").key == (1, 5.0)
    assert choose_row(made, SCORES["accuracy"], "1se").key == (1, 0.5)
    dropped = Row(9.0, (0.99,), (1.0,), (0.0,), True, 1, dropped=True)
    assert choose_row([*made, dropped], SCORES["accuracy"], "best").key == (1, 5.0)


SETS = {
    "wine": lambda: load_wine(return_X_y=True),
    "noise": lambda: rows(n=300, d=4, seed=3, noise=1.0),
    "uneven": uneven,
}


@pytest.mark.parametrize(("name", "score"), [("wine", "accuracy"), ("noise", "accuracy"), ("uneven", "f1")])
def test_a_race_ends_with_the_same_choice(name, score):
    X, y = SETS[name]()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    asks = {"C": (1e-9, 0.01, 1.0), "class_weight": [None, {0: 1e-3}], "score": score, **QUICK, "tol": 1e-6}
    whole, race = llsvm.tune(X, y, **asks), llsvm.tune(X, y, race=True, **asks)
    assert (race.best, race.best_score) == (whole.best, pytest.approx(whole.best_score, abs=1e-9))
    dropped = [row for row in race.table if row["dropped"]]
    assert all(1 <= len(row["scores"]) < 5 for row in dropped)
    assert not any(row["dropped"] for row in whole.table)
    assert race.details["candidates"] == sum(len(row["scores"]) for row in race.table)
    assert dropped or name != "wine"


def test_the_command_tells_all_of_a_grid(tmp_path):
    X, y = uneven()
    lines = [",".join(map(str, [*x, label])) for x, label in zip(X, y, strict=True)]
    (tmp_path / "r.csv").write_text("\n".join(["a,b,c,d,label", *lines]) + "\n")
    words = ["tune", str(tmp_path / "r.csv"), "--model", str(tmp_path / "m"), "--folds", "2"]
    few = [*words, "--C", "0.01,1", "--loss", "hinge,squared_hinge", "--penalty", "l2,l1", "--score", "f1"]
    done = CliRunner().invoke(app, [*few, "--plot", str(tmp_path / "s.svg")])
    assert done.exit_code == 0, done.stderr
    assert "squared_hinge with l1: 4 by solver smsvm, one after the other" in done.stdout
    assert "hinge: 4 by solver llsvm, all at once" in done.stdout
    assert (tmp_path / "s.svg").read_text().count("penalty l1") >= 2
    answer = json.loads(CliRunner().invoke(app, [*few, "--json"]).stdout)
    assert len(answer["table"]) == 8
    best = max(answer["table"], key=lambda row: row["mean"])
    assert answer["best"] == {name: best[name] for name in answer["best"]}
    settings = llsvm.load(tmp_path / "m").settings
    assert {name: settings[name] for name in ("C", "loss", "penalty", "class_weight")} == {
        name: value for name, value in answer["best"].items() if name != "l1_ratio"
    }
    raced = CliRunner().invoke(
        app, [*words, "--C", "1e-9,1", "--class-weight", "none,0=1e-3", "--race", "-q"]
    )
    assert raced.exit_code == 0, raced.stderr
    assert "dropped after" in raced.stdout


def test_the_estimator_has_a_list_of_shares_of_l1():
    X, y = rows(n=200, d=4, seed=1, noise=0.6)
    made = LLSVMClassifierCV(Cs=(0.01, 1.0), cv=3, penalty="elasticnet", l1_ratios=(0.2, 0.8), n_jobs=1).fit(
        X, y
    )
    assert made.scores_.shape == (3, 2, 2)
    assert made.best_score_ == made.scores_.mean(axis=0).max()
    assert made.l1_ratio_ in (0.2, 0.8)
    with pytest.raises(UsageError, match="l1_ratio has no meaning here"):
        LLSVMClassifierCV(Cs=(0.01, 1.0), l1_ratios=(0.2, 0.8)).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": ["hinge", "huber"]}, "hinge and huber are for labels of two kinds"),
        ({"loss": ["hinge", "hing"]}, "loss must be one of"),
        ({"loss": ["hinge", "logistic"], "score": "log_loss"}, "loss hinge gives none"),
        ({"penalty": "l1", "l1_ratio": [0.1, 0.5]}, "pass penalty elasticnet"),
        ({"penalty": ["l2", "l1"], "multiclass": "crammer-singer"}, "crammer-singer"),
        ({"race": True, "rule": "1se"}, "leave one of them out"),
        ({"race": True, "holdout": 0.2}, "leave it or holdout out"),
        ({"C": 1.0}, "nothing to choose"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(options, message):
    X, y = rows(n=40)
    with pytest.raises(UsageError) as caught:
        llsvm.tune(X, y, **options)
    assert message in str(caught.value)


def test_options_of_a_loss_go_to_it_alone():
    given = {"loss": ["epsilon_insensitive", "huber"], "epsilon": 0.2, "delta": 2.0}
    one, other = objectives_of(given)
    assert (one.epsilon, one.delta, other.epsilon, other.delta) == (0.2, 1.0, 0.1, 2.0)
    assert len(objectives_of({"class_weight": {"1": 5.0}})) == 1
    with pytest.raises(UsageError, match="epsilon"):
        objectives_of({"loss": ["hinge", "logistic"], "epsilon": 0.2})


def test_values_of_rows_are_weighted_by_class():
    variant, y = Variant(class_weight=(2.0, 0.0)), np.array([0, 1, 0], np.int32)
    values = np.ones(3, np.float32)
    np.testing.assert_array_equal(variant.weighted(values, y), [2.0, 0.0, 2.0])
    assert variant.weighted(values, y, -1)[0] == 0.5
    assert np.isfinite(variant.weighted(values, y, -1)).all()
    assert Variant().weighted(values, y) is values


def test_a_model_that_a_signal_ends_has_its_probabilities(tmp_path):
    X, y = rows(n=200, d=3, seed=1, noise=0.6)
    settings = Settings(threads=1)
    source = open_source(X, y)
    question = asked([settings], (0.01, 1.0), 5, None, None, None, "best", source, None, "platt")
    with Training(source, settings, budget=MemoryBudget(100_000_000, 0)) as training:
        tuning = Tuning(training, question)
        said = []
        tuning.run(lambda report: said.append(tuning.save_so_far(str(tmp_path / "m"))))
    assert said[0].startswith(", no model is written")
    assert said[-1].startswith(", and the model so far is written")
    assert llsvm.load(tmp_path / "m").predict_proba(X).shape == (200, 2)
