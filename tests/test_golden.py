"""The record of training runs (tools/golden.py): a changed bit is noticed; only what is accepted is rewritten."""

import json

import numpy as np
import pytest

from llsvm.models.model import Model
from llsvm.objective.certificate import Certificate
from tools import golden
from tools.golden_data import sparse

RUN = golden.Run(("few.svm",))


def saved(folder, coef, dual=0.75):
    model = Model(
        np.array([coef]),
        np.zeros(1),
        np.array([-1, 1]),
        certificate=Certificate((1.0,), (dual,), 3),
    )
    model.save(folder / "model")
    return golden.weights(folder / "model")


@pytest.fixture
def runs(monkeypatch):
    """What the runs "one" and "two" give, to be changed by a test; nothing is trained."""
    found = {name: {"exit": 0, "passes": 3, "gap": (0.25).hex()} for name in ("one", "two")}
    monkeypatch.setattr(golden, "RUNS", dict.fromkeys(found, RUN))
    monkeypatch.setattr(golden, "ANSWER", {})
    monkeypatch.setattr(golden, "AMOUNTS", {})
    monkeypatch.setattr(golden, "write_data", lambda folder: None)
    monkeypatch.setattr(golden, "files_of", lambda run, folder: [])
    left = []

    def outcome(run, files, folder):
        left[:] = left or list(found)
        return dict(found[left.pop(0)])

    monkeypatch.setattr(golden, "outcome", outcome)
    return found


def test_one_bit_of_one_weight_is_a_difference(tmp_path):
    base = saved(tmp_path, [0.1, 0.2])
    assert base["coef"]["bytes"] == 16
    assert base["primal"] == [(1.0).hex()]
    assert base["gap"] == (0.25).hex()
    assert base["passes"] == 3
    assert golden.differences(base, saved(tmp_path, [0.1, 0.2])) == []
    (line,) = golden.differences(base, saved(tmp_path, [0.1, np.nextafter(0.2, 1)]))
    assert line.startswith("coef: ")


def test_one_bit_of_the_certificate_is_a_difference_and_all_digits_are_shown(tmp_path):
    base, other = saved(tmp_path, [0.1]), saved(tmp_path, [0.1], dual=float(np.nextafter(0.75, 1)))
    lines = golden.differences(base, other)
    assert [line.split(":")[0] for line in lines] == ["dual", "gap"]
    assert lines[0] == "dual: [0.75] -> [0.7500000000000001]"


def test_a_key_that_comes_or_goes_is_a_difference():
    assert golden.differences({"exit": 0}, {"exit": 0, "error": "no"}) == ["error: None -> 'no'"]
    assert golden.differences({"exit": 0, "passes": None}, {"exit": 0}) == ["passes: None -> None"]


def test_compare_says_which_run_differs_and_accept_rewrites_that_alone(tmp_path, runs, capsys):
    path = tmp_path / "base.json"
    assert golden.main(["record", str(path)]) == 0
    assert golden.main(["compare", str(path)]) == 0
    assert "all 2 as recorded" in capsys.readouterr().out
    runs["one"]["passes"], runs["two"]["gap"] = 4, (0.5).hex()
    assert golden.main(["compare", str(path)]) == 1
    out = capsys.readouterr().out
    assert "passes: 3 -> 4" in out
    assert "gap: 0.25 -> 0.5" in out
    assert golden.main(["compare", str(path), "--accept", "one"]) == 1
    kept = json.loads(path.read_text())["runs"]
    assert (kept["one"]["passes"], kept["two"]["gap"]) == (4, (0.25).hex())


def test_a_run_that_is_gone_differs_until_that_is_accepted(tmp_path, runs, monkeypatch):
    path = tmp_path / "base.json"
    golden.main(["record", str(path)])
    monkeypatch.setattr(golden, "RUNS", {"one": RUN})
    runs.pop("two")
    assert golden.main(["compare", str(path)]) == 1
    assert golden.main(["compare", str(path), "--accept", "two"]) == 0
    assert list(json.loads(path.read_text())["runs"]) == ["one"]


def test_a_run_that_fails_is_told_in_the_record_and_in_the_exit_code(tmp_path, runs):
    runs["two"] = {"exit": 1, "error": "broken"}
    assert golden.main(["record", str(tmp_path / "base.json")]) == 1


def test_no_such_run(tmp_path, runs, capsys):
    path = tmp_path / "base.json"
    golden.main(["record", str(path)])
    assert golden.main(["compare", str(path), "--only", "three"]) == 2
    assert "no such run: 'three'" in capsys.readouterr().out


def test_every_option_of_every_run_has_its_name(tmp_path):
    for name, run in golden.RUNS.items():
        assert "--model" in golden.command(run, [tmp_path], tmp_path), name


def test_data_are_the_same_each_time():
    assert sparse(20, 50, seed=1) == sparse(20, 50, seed=1) != sparse(20, 50, seed=2)
