"""The gaps at which epochs over survivors end."""

from types import SimpleNamespace

import numpy as np
import pytest

from llsvm.solvers.llsvm.enough import Enough
from llsvm.solvers.llsvm.tuning import DEFAULT

TOL = 1e-3
SIZES = np.array([100.0, 200.0, 400.0])


def enough():
    run = SimpleNamespace(
        tuning=DEFAULT,
        settings=SimpleNamespace(tol=TOL),
        sizes=SIZES,
        sweeps=SimpleNamespace(w=np.zeros((3, 5))),
        stream=SimpleNamespace(in_one_block=False),
    )
    return Enough(run)


@pytest.mark.parametrize("passes", [1, 5])
def test_epochs_over_spilled_rows_end_at_a_share_of_what_there_was_or_of_the_tolerance(passes):
    of, first = enough(), np.array([0.0, 1.0, 100.0])
    of.begin(passes)
    expected = np.maximum(DEFAULT.survivors_until * first, DEFAULT.tol_share * TOL * SIZES)
    np.testing.assert_allclose(of.spilled(first), expected)


def test_epochs_over_rows_in_memory_end_likewise():
    of = enough()
    of.begin(2)
    assert of.at_hand(0.0, 1) == pytest.approx(DEFAULT.tol_share * TOL * 200.0)
    assert of.at_hand(50.0, 1) == pytest.approx(DEFAULT.survivors_until * 50.0)
