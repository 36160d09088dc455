"""Runs of two commits, compared (tools/golden.py): a changed bit is noticed, and what certificates tell apart."""

import json
import subprocess
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from llsvm.models.model import Model
from llsvm.objective.certificate import Certificate
from tools import golden, golden_combinations, golden_limits
from tools.golden_data import sparse
from tools.golden_runs import RUNS, command


def saved(folder, coef, dual=0.75, primal=1.0, passes=3):
    model = Model(
        np.array([coef]), np.zeros(1), np.array([-1, 1]), certificate=Certificate((primal,), (dual,), passes)
    )
    model.save(folder / "model")
    return {"exit": 0, "answer": {}} | golden.weights(folder / "model")


def test_one_bit_of_one_weight_is_a_difference(tmp_path):
    base = saved(tmp_path, [0.1, 0.2])
    assert golden.differing_bits(base, saved(tmp_path, [0.1, 0.2])) == []
    (line,) = golden.differing_bits(base, saved(tmp_path, [0.1, np.nextafter(0.2, 1)]))
    assert line.startswith("coef: ")


def test_one_bit_of_the_certificate_is_a_difference_and_all_digits_are_shown(tmp_path):
    base, other = saved(tmp_path, [0.1]), saved(tmp_path, [0.1], dual=float(np.nextafter(0.75, 1)))
    assert golden.differing_bits(base, other) == ["certificate.dual[0]: 0.75 -> 0.7500000000000001"]


def test_times_and_peaks_are_no_difference_and_keys_that_come_or_go_are():
    old = {"exit": 0, "answer": {"seconds": 1.5, "peak_rss_bytes": 10, "solver": "llsvm"}}
    assert golden.differing_bits(old, {"exit": 0, "answer": {"seconds": 2, "solver": "llsvm"}}) == []
    assert golden.differing_bits({"exit": 0}, {"exit": 0, "error": "no"}) == ["error: None -> 'no'"]
    assert golden.differing_bits({"points": [1]}, {"points": [1, 2]}) == ["points: [1] -> [1, 2]"]


def test_certificates_that_overlap_are_the_same_whatever_the_weights(tmp_path):
    base = saved(tmp_path, [0.1])
    assert golden.differing_certificates(base, saved(tmp_path, [0.2], dual=0.9, primal=1.2)) == []
    (line,) = golden.differing_certificates(base, saved(tmp_path, [0.2], dual=1.1, primal=1.2))
    assert line == "problem 0: [0.75, 1.0] -> [1.1, 1.2]"


@pytest.mark.parametrize(
    ("before", "after", "differs"), [(3, 4, 0), (3, 5, 1), (30, 33, 0), (30, 34, 1), (30, 2, 0)]
)
def test_passes_may_be_one_more_or_a_tenth(tmp_path, before, after, differs):
    old, new = (saved(tmp_path, [0.1], passes=passes) for passes in (before, after))
    assert len(golden.differing_certificates(old, new)) == differs


def test_exit_codes_and_peaks_over_the_limit_are_differences(tmp_path):
    base = saved(tmp_path, [0.1])
    lines = golden.differing_certificates(base, {"exit": 3})
    assert [line.split(":")[0] for line in lines] == ["exit", "certificate"]
    over = base | {"answer": {"peak_rss_bytes": 101, "memory_limit_bytes": 100}}
    (line,) = golden.differing_certificates(base, over)
    assert line == "peak: 101 bytes, where 100 are the limit"


@pytest.mark.slow
def test_the_files_here_give_what_their_commit_gives_and_a_planted_change_differs(monkeypatch, capsys):
    names = ["llsvm hinge"]
    assert golden.main(["--against", "HEAD", "--certificates", "--only", *names]) == 0
    other = replace(RUNS["llsvm hinge"], options={"solver": "llsvm", "C": 2})
    real = golden.outcome

    def outcome(run, data, folder, root):
        return real(other if root == golden.ROOT else run, data, folder, root)

    monkeypatch.setattr(golden, "outcome", outcome)
    assert golden.main(["--against", "HEAD", "--certificates", "--only", *names]) == 1
    assert "problem 0: [" in capsys.readouterr().out


@pytest.mark.parametrize("mode", [[], ["--certificates"]])
def test_a_run_that_both_refuse_compares_nothing_and_is_told(monkeypatch, capsys, mode):
    monkeypatch.setattr(golden, "checkout_of", lambda commit: nullcontext(golden.ROOT))
    monkeypatch.setattr(golden, "write_data", lambda folder: None)
    monkeypatch.setattr(golden, "outcome", lambda *words: {"exit": 2, "error": "no such option"})
    assert golden.main(["--against", "HEAD", *mode, "--only", "llsvm hinge"]) == 1
    assert "no such option" in capsys.readouterr().out


def with_state(monkeypatch, found):
    """Compare a run with a state by certificates; what this checkout makes of the commit's state is ``found``."""
    fine = {"exit": 0, "answer": {}, "certificate": {"primal": [1.0], "dual": [0.9], "passes": 3}}
    monkeypatch.setattr(golden, "checkout_of", lambda commit: nullcontext(golden.ROOT))
    monkeypatch.setattr(golden, "write_data", lambda folder: None)
    monkeypatch.setattr(
        golden, "outcome", lambda run, data, folder, *roots: fine | found if roots[1:] else fine
    )
    return golden.main(["--against", "HEAD", "--certificates", "--only", "state, another C"])


@pytest.mark.parametrize(
    "found", [{}, {"exit": 3, "error": "a: a state of version 2, and this llsvm goes on from version 3"}]
)
def test_a_state_of_the_commit_is_gone_on_from_or_refused_for_its_version(monkeypatch, found):
    assert with_state(monkeypatch, found) == 0


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"exit": 1, "error": "KeyError: 'alpha'"}, "state handed over: KeyError: 'alpha'"),
        ({"certificate": {"primal": [0.5], "dual": [0.4], "passes": 3}}, "state handed over: problem 0"),
    ],
)
def test_a_state_of_the_commit_that_is_misread_is_a_difference(monkeypatch, capsys, found, told):
    assert with_state(monkeypatch, found) == 1
    assert told in capsys.readouterr().out


def printed(monkeypatch, old, new):
    monkeypatch.setattr(golden, "_printed", lambda commit, program: [json.dumps(old), json.dumps(new)])


def test_a_change_of_combinations_is_told_once_and_a_bug_always(monkeypatch, capsys):
    old = {"a": "refused: exit 2", "b": "refused: exit 2", "c": "accepted: llsvm", "d": "BUG: KeyError"}
    printed(
        monkeypatch, old, {**old, "d": "accepted: smsvm"} | {"a": "accepted: llsvm", "b": "accepted: llsvm"}
    )
    assert golden.main(["--against", "HEAD", "--combinations"]) == 1
    told = capsys.readouterr().out
    assert "2 such as a\n    old: refused: exit 2\n    new: accepted: llsvm" in told
    assert "3 of 4 combinations differ (4 are accepted, 0 end in a bug)" in told
    printed(monkeypatch, old, {name: old[name] for name in "abc"})
    assert golden.main(["--against", "HEAD", "--combinations"]) == 1  # one that is not there any more
    printed(monkeypatch, old, old)
    assert golden.main(["--against", "HEAD", "--combinations"]) == 1
    assert "BUG        d: BUG: KeyError" in capsys.readouterr().out
    printed(monkeypatch, {"c": old["c"]}, {"c": old["c"]})
    assert golden.main(["--against", "HEAD", "--combinations"]) == 0


def test_combinations_are_accepted_by_somebody_or_refused_with_the_options_named(monkeypatch):
    given = {"loss": "hinge", "multiclass": "ovr", "penalty": "l2", "solver": "auto"}
    assert golden_combinations.outcome(given) == "accepted: llsvm, 3 certified problems"
    assert golden_combinations.outcome({**given, "data": "two"}) == "accepted: llsvm, 1 certified problems"
    refused = golden_combinations.outcome({**given, "penalty": "l1", "solver": "llsvm"})
    assert refused == "refused: exit 2, UsageError, names --penalty --solver"
    monkeypatch.setattr(golden_combinations, "sp", None)
    assert golden_combinations.outcome({**given, "data": "sparse"}).startswith("BUG: AttributeError: ")


def test_names_of_combinations_tell_them_apart():
    names = [name for name, _ in golden_combinations.asked()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [(250, 250, 0), (250, 270, 0), (250, 271, 1), (250, 100, 0), (250, "exit 2", 1), ("exit 2", "exit 2", 0)],
)
def test_a_smallest_limit_may_rise_by_a_twelfth(monkeypatch, capsys, before, after, differs):
    printed(monkeypatch, {"rows.npy": before}, {"rows.npy": after})
    assert golden.main(["--against", "HEAD", "--limits"]) == differs
    assert ("DIFFERS" in capsys.readouterr().out) == differs


def test_a_smallest_limit_is_named_without_at_least(monkeypatch):
    """As one that is asked under 1 MB knows little of the data."""
    sentences = {
        "1MB": (4, "at least 255 MB are needed; pass --memory-limit 255MB or rather more"),
        "255MB": (4, "300 MB are needed; pass --memory-limit 300MB or more"),
    }

    def run(command, **_):
        code, sentence = sentences[command[-1]]
        return subprocess.CompletedProcess(command, code, "", sentence)

    monkeypatch.setattr(golden_limits.subprocess, "run", run)
    assert golden_limits.smallest([]) == 300
    sentences["255MB"] = (5, "")
    assert golden_limits.smallest([]) == 255
    sentences["255MB"] = (2, "usage\nno such option")
    assert golden_limits.smallest([]) == "exit 2: no such option"


def test_no_such_run(capsys):
    assert golden.main(["--against", "HEAD", "--only", "three"]) == 2
    assert "no such run: 'three'" in capsys.readouterr().out


def test_every_option_of_every_run_has_its_name(tmp_path):
    for name, run in RUNS.items():
        assert "--memory-limit" in command(run, [tmp_path], tmp_path), name


def test_data_are_the_same_each_time():
    assert sparse(20, 50, seed=1) == sparse(20, 50, seed=1) != sparse(20, 50, seed=2)


def test_work_that_grew_by_more_than_a_tenth_is_told(tmp_path):
    base, dearer = saved(tmp_path, [0.2]), saved(tmp_path, [0.2])
    counts = {"updated_rows": 1_000_000, "of_another_commit": 3}
    base["answer"], dearer["answer"] = {"work": counts}, {"work": {"updated_rows": 1_250_000}}
    (line,) = golden.differing_certificates(base, dearer)
    assert line.startswith("work: 0.100 s -> 0.125 s")
    assert golden.differing_certificates(dearer, base) == []
    del base["answer"]["work"]
    assert golden.differing_certificates(base, dearer) == []
