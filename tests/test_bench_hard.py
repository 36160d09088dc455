"""The table of hard problems: its referee, data, peers, verdicts, and that it goes on where it was stopped."""

import json
import os
import tomllib
from pathlib import Path

import numpy as np
import pytest
from oracle import liblinear, write_svmlight
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC, OneClassSVM

from llsvm.settings.objective import LOSSES
from tools.bench import hard, hard_data, losses
from tools.bench.__main__ import CONFIG
from tools.bench.cells import BIG_BYTES, Machine, Problem
from tools.bench.datasets import Dataset, Missing, facts_of
from tools.bench.kernel_models import evaluate_kernel, read_llsvm_kernel, read_rows_kernel
from tools.bench.ladders import Ladder
from tools.bench.models import Linear
from tools.bench.objective import evaluate, guesses
from tools.bench.peers import PeerRun
from tools.bench.results import keep
from tools.bench.row_losses import JOINT, KNOWN, OF_MARGINS, OF_RESIDUALS, Objective
from tools.bench.verdicts import Aim, summary, verdict


@pytest.fixture
def made(tmp_path):
    """A file of three classes and its arrays."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)).astype(np.float32).astype(float), rng.integers(0, 3, 40)
    path = write_svmlight(tmp_path / "three.svm", X, y)
    return Dataset("three", path, path, 1.0, facts_of(path)), X, y


def brute_force(scores, y, multiclass, phi):
    total = 0.0
    for s, own in zip(scores, y, strict=True):
        if multiclass == "ovr":
            total += sum(phi(s[c] if c == own else -s[c]) for c in range(3))
        elif multiclass == "ovo":
            for p, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
                total += phi(s[p]) if own == i else phi(-s[p]) if own == j else 0.0
        else:
            excess = [1 + s[c] - s[own] for c in range(3) if c != own]
            total += {
                "crammer-singer": max(0.0, *excess),
                "weston-watkins": sum(max(0.0, each) for each in excess),
                "softmax": np.log(1 + sum(np.exp(each - 1) for each in excess)),
            }[multiclass]
    return total


@pytest.mark.parametrize("multiclass", ["ovr", "ovo", *JOINT])
@pytest.mark.parametrize("loss", OF_MARGINS)
def test_what_rows_cost_is_brute_forces(made, multiclass, loss):
    dataset, X, y = made
    rng = np.random.default_rng(1)
    model = Linear(np.hstack([np.zeros((3, 1)), rng.normal(size=(3, 4))]), rng.normal(size=3), np.arange(3.0))
    found = evaluate(model, dataset.train, Objective(0.7, loss, multiclass)).primal
    phi = {
        "hinge": lambda m: max(0.0, 1 - m),
        "squared_hinge": lambda m: max(0.0, 1 - m) ** 2,
        "least-squares": lambda m: (1 - m) ** 2,
        "logistic": lambda m: np.log(1 + np.exp(-m)),
    }[loss]
    scores = X @ model.coef[:, 1:].T + model.intercept
    squares = (model.coef**2).sum() + (model.intercept**2).sum()
    assert found == pytest.approx(0.5 * squares + 0.7 * brute_force(scores, y, multiclass, phi), rel=1e-12)


def test_what_numbers_cost():
    r = np.array([[-3.0], [0.05], [0.8]])
    costs = {
        name: Objective(1.0, name, quantile=0.9).costs(-r, np.zeros(3), np.zeros(0)) for name in OF_RESIDUALS
    }
    assert costs == {
        "epsilon_insensitive": pytest.approx(2.9 + 0.7),
        "squared_epsilon_insensitive": pytest.approx(2.9**2 + 0.7**2),
        "quantile": pytest.approx(0.1 * 3 + 0.9 * 0.85),
        "huber": pytest.approx(2.5 + 0.05**2 / 2 + 0.32),
    }


def test_one_class_costs_what_its_dual_says(made, tmp_path):
    _, X, y = made
    X = X + 3
    path = write_svmlight(tmp_path / "shifted.svm", X, y)
    svm = OneClassSVM(kernel="linear", nu=0.3, tol=1e-10).fit(X)
    coef = np.hstack([np.zeros((1, 1)), svm.coef_])
    model = Linear(coef, svm.intercept_, np.array([-1.0, 1.0]))
    found = evaluate(model, path, Objective(1.0, "one_class", nu=0.3)).primal
    assert found == pytest.approx(-0.5 * (coef**2).sum(), rel=1e-6)  # the dual of Schölkopf et al.


def test_pairs_vote():
    scores = np.array([[1.0, 1.0, 5.0], [-1.0, -1.0, -0.1], [-1.0, 1.0, 1.0]])
    assert guesses(scores, np.array([3.0, 5.0, 7.0]), "ovo").tolist() == [3, 7, 5]
    assert guesses(scores, np.array([3.0, 5.0, 7.0]), "ovr").tolist() == [7, 7, 5]


@pytest.mark.slow
def test_kernel_machines_are_judged_by_their_files(made, tmp_path):
    _, X, y = made
    two = write_svmlight(tmp_path / "two.svm", X, np.where(y == 2, 1, -1))
    problem = Problem(
        Dataset("two", two, two, 1.0, facts_of(two)), Objective(10.0), kernel=True, intercept=True
    )
    machine = Machine(tmp_path, Path(os.environ.get("NUMBA_CACHE_DIR", tmp_path)))
    answer = machine.train(problem, BIG_BYTES, 60)
    assert answer["exit_code"] == 0
    assert answer["primal"] == pytest.approx(answer["said_primal"], rel=1e-6)
    svm = SVC(C=10.0, gamma=0.25, tol=1e-9).fit(X, np.where(y == 2, 1, -1))
    dual = np.zeros((40, 1))
    dual[svm.support_, 0] = svm.dual_coef_
    np.savez(tmp_path / "m.npz", coef=dual, intercept=svm.intercept_, classes=[-1, 1])
    theirs = evaluate_kernel(read_rows_kernel(tmp_path / "m.npz", two, 0.25), two, problem.objective)
    assert theirs.primal == pytest.approx(answer["primal"], rel=1e-3)
    assert theirs.accuracy == svm.score(X, np.where(y == 2, 1, -1))
    assert read_llsvm_kernel(machine.model).gamma == 0.25


@pytest.mark.slow
def test_ladder_ends_near_the_optimum_and_is_kept(made, tmp_path, monkeypatch):
    dataset, X, y = made
    best = 0.0
    for i, j in ((0, 1), (0, 2), (1, 2)):
        mine = (y == i) | (y == j)
        best += liblinear(X[mine], y[mine], 1.0, "squared_hinge")[0]
    problem = Problem(dataset, Objective(1.0, "squared_hinge", "ovo"))
    ladder = Ladder(problem, tmp_path / "ladders", 60)
    ladder.climb(best, 1e-3)
    assert best * (1 - 1e-9) <= ladder.best <= best * 1.001
    assert ladder.nearest(best * 1.001, "wall_seconds") == ladder.rungs[-1]
    assert ladder.nearest(best * 0.9, "wall_seconds") is None
    monkeypatch.setattr("tools.bench.ladders.run_peer", None)  # nothing is run twice
    again = Ladder(problem, tmp_path / "ladders", 60)
    again.climb(best, 1e-3)
    assert again.rungs == ladder.rungs


CELL = {
    "exit_code": 0,
    "wall_seconds": 20.0,
    "cpu_seconds": 5.0,
    "timed_out": False,
    "primal": 100.05,
    "said_primal": 100.05,
    "dual": 99.98,
    "gap": 7e-4,
    "passes": 4,
    "sentence": "stall: scale",
    "peered": True,
}
AIM = Aim(within=1e-3, least_seconds=10.0, tol=1e-3)


@pytest.mark.parametrize(
    ("change", "peer", "word", "said"),
    [
        ({}, 25.0, "met", ""),
        ({}, 8.0, "slower", "2.0 times the 10.0 s"),
        ({"wall_seconds": 9.0}, 0.01, "met", ""),
        ({}, None, "met", ""),  # the peer never came there
        ({"peered": False}, None, "slower", "2.0 times"),  # there is no peer
        ({"exit_code": 5, "gap": 0.3}, 25.0, "NOT certified", "gap 0.3 after 4 passes: stall: scale"),
        ({"gap": 2e-3}, 25.0, "NOT certified", "gap 0.002"),
        ({"exit_code": 4, "primal": None, "sentence": "no room"}, 25.0, "refused", "no room"),
        ({"exit_code": 1, "primal": None, "sentence": "KeyError"}, 25.0, "CRASHED", "exit code 1: KeyError"),
        ({"exit_code": -9, "primal": None, "timed_out": True}, 25.0, "NOT certified", "killed after 20 s"),
        ({"dual": 100.02}, 25.0, "CONTRADICTED", "a dual of 100.02 is above a known primal, 100"),
        ({"primal": 100.2}, 25.0, "CONTRADICTED", "the primal is 100.2, not 100.05"),
    ],
)
def test_verdicts(change, peer, word, said):
    found, detail = verdict(CELL | change, 100.0, peer, AIM)
    assert found == word
    assert said in detail


def test_verdicts_by_processor_time():
    assert verdict(CELL, 100.0, 1.0, Aim(1e-3, 10.0, 1e-3, "cpu_seconds"))[0] == "met"


@pytest.mark.parametrize(("peers", "rungs"), [("none", []), ("slow", ["100"]), ("all", ["1", "100"])])
def test_peers_run_where_they_are_wanted(tmp_path, monkeypatch, capsys, peers, rungs):
    """Of four kept cells one took longer than is always allowed; its ladder ends at what the other limit proved."""
    (tmp_path / "w").mkdir()
    facts_of(write_svmlight(tmp_path / "w" / "iris.svm", np.eye(2), np.array([1, -1])))
    cells = {
        f"iris|{C}|hinge|two|{limit}": dict(CELL, limit_bytes=1)
        for C in (1, 100)
        for limit in ("big", "small")
    }
    cells["iris|100|hinge|two|small"] |= {"exit_code": 5, "cpu_seconds": 11.0, "primal": 200.0}
    keep(tmp_path / "o", cells)
    asked: list[str] = []

    def run_peer(problem, program, setting, *_):
        asked.append(f"{problem.objective.C:g}")
        return PeerRun(program, setting, 7.0, 7.0, 100.0)

    monkeypatch.setattr("tools.bench.ladders.run_peer", run_peer)
    monkeypatch.setattr("tools.bench.ladders.liblinear_programs", lambda problem: ["mine"])
    config = tomllib.loads(CONFIG.read_text())
    words = ["--work", str(tmp_path / "w"), "--out", str(tmp_path / "o"), "--data", "iris", "--loss", "hinge"]
    assert hard.main([*words, "--C", "1,100", "--clock", "cpu", "--peers", peers], config) == 0
    assert asked == rungs
    assert capsys.readouterr().out.count("mine -e 1 ") == 2 * len(rungs)


def test_summary_names_what_is_not_met():
    row = {"key": "wine|1", "word": "slower", "detail": "2.0 times the 10.0 s", "profile": "3.1 s epochs.py"}
    text = summary(
        [row, {"key": "a", "word": "met", "detail": ""}, {"key": "b", "word": "refused", "detail": "no"}]
    )
    assert text.splitlines() == [
        "3 cells: 1 met, 1 slower, 1 refused",
        "- slower: wine|1: 2.0 times the 10.0 s (profile: 3.1 s epochs.py)",
        "- refused, 1 cells: no",
    ]


def test_data_are_the_same_each_time_and_float32(tmp_path):
    for folder in ("a", "b"):
        made = hard_data.make("separable", tmp_path / folder)
        assert made.facts["rows"] == 5000
    assert (tmp_path / "a" / "separable.svm").read_bytes() == (tmp_path / "b" / "separable.svm").read_bytes()
    fewer = hard_data.make("separable", tmp_path / "a", 1000)
    assert (fewer.name, fewer.facts["rows"]) == ("separable-1000", 1000)
    word = fewer.train.read_text().split()[1].partition(":")[2]
    assert f"{np.float32(word):.9g}" == word
    with pytest.raises(Missing, match="no data set is called"):
        hard_data.make("sepparable", tmp_path)


def test_config_names_what_there_is():
    config = tomllib.loads(CONFIG.read_text())
    named = config["losses"]
    assert {
        *named["data"],
        *named["data_of_numbers"],
        *named["joint_only"],
        *named["data_unlabelled"],
    } <= set(hard_data.MAKERS)
    config = config["hard"]
    assert set(config["data"]) <= set(hard_data.MAKERS)
    assert set(config["quick"]["data"]) <= set(config["data"])
    assert set(config["multiclass"]) - {"rbf"} <= {"ovr", "ovo", *JOINT}
    assert set(config["loss"]) <= {*OF_MARGINS}


@pytest.mark.slow
def test_losses_are_held_against_oracles(tmp_path, capsys):
    config = tomllib.loads(CONFIG.read_text())
    config["losses"] |= {"data": ["breast-cancer"], "joint_only": []}
    asked = ["--work", str(tmp_path / "w"), "--out", str(tmp_path / "o"), "--limit", "big", "--rounds", "1"]
    assert losses.main([*asked, "--loss", "squared_hinge", "--C", "1e-6", "--timeout", "60"], config) == 0
    text = capsys.readouterr().out
    assert "| squared_hinge | l2 | breast-cancer | two | 4,000 MB |" in text
    assert "2 cells, 0 not as they should be" in text
    (kept,) = (tmp_path / "w" / "oracles").glob("*two.json")
    X, y = load_breast_cancer(return_X_y=True)
    best, _ = liblinear(X.astype(np.float32), y, 1e-6, "squared_hinge")
    assert json.loads(kept.read_text())["primal"] == pytest.approx(best, rel=1e-4)


def test_every_loss_that_is_offered_is_known_to_the_referee():
    assert [loss for loss in LOSSES if losses.offered(loss)]
    assert not {*LOSSES} - {*KNOWN}
    assert not {form for loss in LOSSES for _, form in losses.offered(loss)} - {"ovr", "ovo", *JOINT}


LOSS_CELL = {
    "exit_code": 0,
    "primal": 100.05,
    "said_primal": 100.05,
    "dual": 99.98,
    "gap": 7e-4,
    "sentence": "slow",
}


@pytest.mark.parametrize(
    ("change", "best", "said"),
    [
        ({}, 100.0, ""),
        ({}, None, ""),
        ({"dual": 100.04}, 100.0, "CONTRADICTED: a dual"),
        ({"primal": 100.1}, 100.0, "CONTRADICTED: the primal is"),
        ({"gap": 1e-4}, 99.97, "farther above 99.97 than its gap"),
        ({"exit_code": 5, "gap": 0.2}, 100.0, "NOT certified: gap 0.2: slow"),
        ({"exit_code": 2, "primal": None}, 100.0, "exit code 2: slow"),
    ],
)
def test_verdicts_of_losses(change, best, said):
    found = losses.verdict(LOSS_CELL | change, best)
    assert bool(found) == bool(said)
    assert said in found


@pytest.mark.slow
def test_a_run_goes_on_where_it_was(tmp_path, capsys):
    config = tomllib.loads(CONFIG.read_text())
    asked = ["--work", str(tmp_path / "w"), "--out", str(tmp_path / "o"), "--data", "iris", "--peers", "none"]
    asked += ["--multiclass", "ovr", "--loss", "squared_hinge", "--timeout", "60"]
    assert hard.main([*asked, "--C", "1", "--limit", "big"], config) == 0
    first = json.loads((tmp_path / "o" / "results.json").read_text())["cells"]
    assert list(first) == ["iris|1|squared_hinge|ovr|big"]
    assert hard.main([*asked, "--C", "1,10", "--limit", "big,small"], config) == 0
    cells = json.loads((tmp_path / "o" / "results.json").read_text())["cells"]
    assert cells["iris|1|squared_hinge|ovr|big"] == first["iris|1|squared_hinge|ovr|big"]
    assert len(cells) == 4
    assert cells["iris|1|squared_hinge|ovr|small"] == {"tiny": True}
    text = (tmp_path / "o" / "table.md").read_text()
    assert "| iris | 10 | squared_hinge | ovr | 4,000 MB |" in text
    assert "2 cells: 2 met" in text
    assert text in capsys.readouterr().out
