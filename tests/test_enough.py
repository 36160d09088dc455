"""The gaps at which epochs over survivors end."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from llsvm.solvers.llsvm.enough import Enough
from llsvm.solvers.llsvm.tuning import DEFAULT, NUMBERS

TOL = 1e-3
SIZES = np.array([100.0, 200.0, 400.0])
NEVER = np.zeros(3, bool)
FIRST = np.zeros(3)


def enough(tuning=DEFAULT):
    run = SimpleNamespace(
        tuning=tuning,
        settings=SimpleNamespace(tol=TOL),
        sizes=SIZES,
        sweeps=SimpleNamespace(w=np.zeros((3, 5))),
        stream=SimpleNamespace(in_one_block=False),
    )
    return Enough(run)


def shares(of):
    """The gaps of spilled rows that are small enough, as shares of those that are asked for."""
    return of.spilled(FIRST, NEVER) / (TOL * SIZES)


def test_epochs_end_nearer_to_the_tolerance_where_a_pass_found_no_more_than_they_had_met():
    of = enough()
    of.begin(1, np.full(3, 50.0))
    np.testing.assert_allclose(shares(of), DEFAULT.spill_tol_share)  # nothing has been met yet
    of.met = np.array([2.0, 2.0, 2.0])
    of.begin(2, np.array([1.9, 2.1, 2.0]))
    told, plain = DEFAULT.told_tol_share, DEFAULT.spill_tol_share
    np.testing.assert_allclose(shares(of), [told, plain, told])


def test_what_a_round_before_the_last_had_met_says_nothing():
    of = enough()
    of.begin(1, np.full(3, 50.0))
    of.met = np.full(3, 2.0)
    of.begin(2, np.full(3, 1.0))
    of.begin(3, np.full(3, 0.5))  # no rows were spilled between
    np.testing.assert_allclose(shares(of), DEFAULT.spill_tol_share)


@pytest.mark.parametrize("first", [0.0, 5.0])
def test_a_share_of_what_there_was_is_enough_all_the_same(first):
    of = enough(replace(DEFAULT, spill_until=0.5))
    of.begin(1, np.full(3, 50.0))
    of.met = np.full(3, 2.0)
    of.begin(2, np.full(3, 1.0))
    found = of.spilled(np.full(3, first), NEVER)
    np.testing.assert_allclose(found, np.maximum(0.5 * first, DEFAULT.told_tol_share * TOL * SIZES))


def test_regressions_end_as_they_did():
    assert NUMBERS.told_tol_share == NUMBERS.spill_tol_share
