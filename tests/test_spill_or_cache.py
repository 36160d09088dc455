"""Where most rows are wanted again, coordinate descent reads the binary cache again and writes no spill."""

import numpy as np
import pytest
from oracle import small_pages, write_svmlight

from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.losses import new_loss
from llsvm.settings.objective import KINDS, REGRESSION
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.llsvm.tuning import DEFAULT, FREE, tuning_of
from llsvm.stream.stream import Stream

LEDGER = 60_000


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Train on wide sparse rows out of core; returns the reports, and bytes spilled and read."""
    small_pages(monkeypatch)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(1500, 120)) * (rng.random((1500, 120)) < 0.08)).astype(np.float32)
    z = X @ rng.normal(size=120) + 0.3 * rng.standard_t(3, size=1500)

    def with_(loss, tuning=None, cache="auto", C=0.1):
        y = z.round(3) if KINDS[loss] == REGRESSION else np.where(z > 0, 1, -1)
        path = write_svmlight(tmp_path / f"{loss}.svm", X, y)
        settings = Settings(solver="llsvm", loss=loss, tol=1e-3, C=C, max_passes=None)
        source = open_source(path, label_kind=KINDS[loss])
        with Stream(source, MemoryBudget(LEDGER, 0), tmp_path, cache=cache) as stream:
            stream.read()
            solver = LLSVM(settings, np.ones(1 if KINDS[loss] == REGRESSION else 2), tuning=tuning)
            reports = list(solver.solve(stream))
            assert not stream.in_one_block
            return reports, stream.bytes_spilled, stream.bytes_read

    return with_


FREE_LOSSES = ["logistic", "least-squares", "squared_epsilon_insensitive", "huber"]


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_rows_that_are_all_free_are_read_from_the_cache(train, loss):
    """No more passes, fewer bytes spilled than where every pass spills; without a cache, they are spilled."""
    reports, spilled, read = train(loss)
    always, spilled_always, read_always = train(loss, DEFAULT)
    assert reports[-1].converged
    assert always[-1].converged
    assert reports[-1].certificate.relative_gap <= 1e-3
    assert spilled < 0.7 * spilled_always
    assert read < 1.2 * read_always
    assert reports[-1].passes <= always[-1].passes + 1
    _, without_cache, _ = train(loss, cache="never")
    assert without_cache > 0


@pytest.mark.parametrize("loss", ["squared_hinge", "quantile"])
def test_losses_whose_dual_variables_rest_spill(train, loss):
    _, spilled, read = train(loss)
    assert (spilled, read) == train(loss, DEFAULT)[1:]
    assert spilled > 0


def test_whether_a_loss_spills():
    assert [tuning_of(new_loss(loss)) for loss in FREE_LOSSES] == [FREE] * len(FREE_LOSSES)
    for loss in ("hinge", "squared_hinge", "epsilon_insensitive", "quantile"):
        assert tuning_of(new_loss(loss)) == DEFAULT
