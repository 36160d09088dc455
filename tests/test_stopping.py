"""StoppingRule: when runs have converged, stall, are at the rounding of their values, or out of passes."""

import numpy as np
import pytest

from llsvm.objective.certificate import Certificate
from llsvm.solvers.base import NO_ROOM, ROUNDED, STALLED
from llsvm.solvers.stopping import WINDOW, StoppingRule, is_within


def certificate(primal, dual, passes=1, rounding=(), part=0.0):
    return Certificate(tuple(np.atleast_1d(primal)), tuple(np.atleast_1d(dual)), passes, rounding, part, part)


def causes(rule, gaps, primal=100.0):
    """What ``rule`` names after each pass: gaps has a number, or one of each problem, for each of them."""
    primal = np.atleast_1d(primal)
    return [rule.judge(certificate(primal, primal - gap, p)).cause for p, gap in enumerate(gaps, 1)]


def test_a_run_has_converged_when_all_problems_are_within_the_tolerance():
    rule = StoppingRule(1e-3)
    verdict = rule.judge(certificate([1.0, 1.0], [0.9, 0.9995]))
    assert (verdict.converged, verdict.open, verdict.ends) == (False, [0], False)
    verdict = rule.judge(certificate([1.0, 1.0], [0.9991, 0.9995]))
    assert (verdict.converged, verdict.open, verdict.ends) == (True, [], True)
    some = StoppingRule(1e-3, required=np.array([False, True]))
    assert some.judge(certificate([1.0, 1.0], [0.9, 0.9995])).converged
    assert is_within(1e-3, 1.0, 0.9995)


def test_a_run_ends_with_its_passes():
    rule = StoppingRule(1e-3, 1, least_passes=2)
    assert not rule.judge(certificate(1.0, 0.5, passes=1)).ends
    assert rule.judge(certificate(1.0, 0.5, passes=2)).is_last
    assert not StoppingRule(1e-3, 0).judge(certificate(1.0, 0.5, passes=10**6)).ends


def test_a_run_ends_where_only_rounding_is_missing():
    lost = certificate(1.0, 0.9975, rounding=(0.002,), part=0.00445)  # 0.0045, of which 0.00445 are rounding
    verdict = StoppingRule(1e-3).judge(lost)
    assert (verdict.converged, verdict.cause, verdict.ends) == (False, ROUNDED, True)
    assert StoppingRule(1e-2).judge(lost).cause == ""  # which it proves
    more = certificate(1.0, 0.9965, rounding=(0.002,), part=0.00445)
    assert StoppingRule(1e-3).judge(more).cause == ""


def test_a_stall_is_seen():
    slow = causes(StoppingRule(1e-3, 200), [90.0 - 0.01 * p for p in range(1, 60)])
    assert not any(slow[:WINDOW])
    assert set(slow[WINDOW:]) == {STALLED}
    assert not any(causes(StoppingRule(1e-3, 200), [90.0 * 0.97**p for p in range(1, 60)]))


@pytest.mark.parametrize(("max_passes", "steady"), [(None, True), (200, False)])
def test_where_anything_may_still_happen_only_standing_is_a_stall(max_passes, steady):
    rule = StoppingRule(1e-3, max_passes, falls_steadily=steady, stall_cause=NO_ROOM)
    seen = causes(rule, [90.0 - 0.01 * min(p, 60) for p in range(1, 60 + WINDOW + 1)])
    assert not any(seen[:-1])
    assert seen[-1] == NO_ROOM


def test_a_stall_counts_where_no_problem_gets_on():
    falling = [np.array([90.0, 90.0 * 0.97**p]) for p in range(1, 60)]
    assert not any(causes(StoppingRule(1e-3, 200), falling, [100.0, 100.0]))
    done = [np.array([90.0, 0.01])] * 60  # one converged long ago, the other stands
    assert causes(StoppingRule(1e-3, 200), done, [100.0, 100.0])[-1] == STALLED


def test_passes_at_the_same_weights_are_no_stall():
    rule = StoppingRule(1e-3)
    for p in range(2 * WINDOW):
        assert not rule.judge(certificate(1.0, 0.5, p), at_new_weights=p % 2 == 0).cause
    rule.forget()
    assert not any(causes(rule, [0.5] * WINDOW, 1.0))


def test_which_share_of_the_gap_the_last_pass_left():
    rule = StoppingRule(1e-3)
    rule.judge(certificate([10.0, 5.0], [0.0, 1.0]))
    assert rule.last_share == 1.0
    rule.judge(certificate([10.0, 3.0], [5.0, 2.0]))
    assert rule.last_share == 0.5  # (10 - 5) / 10: the larger of both
    rule.judge(certificate([10.0, 2.0], [6.0, 2.0]))
    assert rule.last_share == 0.8
    rule.judge(certificate([10.0, 2.0], [10.0, 2.0]))
    assert rule.last_share == 1.0  # the second had no gap left, which is no progress


@pytest.mark.parametrize("max_passes", [None, 60])
@pytest.mark.parametrize("stop", [0, 1, WINDOW, WINDOW + 7])
def test_a_stall_is_seen_when_it_would_have_been(max_passes, stop):
    gaps = [np.array([2.0 + 1.0 / (p + 1), 5.0 / (p + 1)]) for p in range(50)]

    def seen(rule, numbers):
        return [rule.judge(certificate(1.0 + gaps[p], [1.0, 1.0], p + 1)).cause for p in numbers]

    expected = seen(StoppingRule(1e-3, max_passes), range(50))
    assert max_passes is None or any(expected)
    first, second = StoppingRule(1e-3, max_passes), StoppingRule(1e-3, max_passes)
    got = seen(first, range(stop))
    second.restore({name: array.copy() for name, array in first.arrays.items()})
    assert got + seen(second, range(stop, 50)) == expected


def test_gaps_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="gaps of shape"):
        StoppingRule(1e-3).restore({"last_gaps": np.zeros(3)})
