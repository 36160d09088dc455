"""``verify`` of kernel machines with a state: which rows are held, and how many of them are worked on at a time."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from kept_duals import found_in, with_shares
from oracle import small_pages
from test_verify_sums import BANDS, CASES, WEIGHTS, Y

import llsvm
from llsvm.block import ROW_BYTES
from llsvm.settings.settings import Settings
from llsvm.verification import dual as dual_module
from llsvm.verification import machines, products, sums
from llsvm.verification.claim import measure_objectives
from llsvm.verification.dual import KeptDual
from llsvm.verification.rows import rows_of, settings_of


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """By name: the model and the folder of its state; trained once."""

    @cache
    def of(name):
        features, labels, options = CASES[name]
        state = tmp_path_factory.mktemp("state")
        return llsvm.train(features, labels, sample_weight=WEIGHTS, state=state, **options), state

    return of


@pytest.mark.parametrize("name", ["kernel", "matrix", "matrix, sparse"])
def test_rows_are_held_where_their_kernel_takes_them_again(name, trained, tmp_path, monkeypatch):
    """Those with dual variables; of a matrix none."""
    features, labels, _ = CASES[name]
    model, state = trained(name)

    def change(shares):
        shares[...] = 0.0
        shares[[3, 16, 59]] = 0.25
        return shares

    made, new_sums = [], machines.KernelMachine.new_sums
    monkeypatch.setattr(
        machines.KernelMachine, "new_sums", lambda *given: made.append(new_sums(*given)) or made[-1]
    )
    small_pages(monkeypatch)
    monkeypatch.setattr(products, "PIECE_VALUES", 17)
    found_in(model, features, labels, WEIGHTS, with_shares(state, tmp_path / "S", change))
    held = [int(row) for block in made[0].rows for row in block.rows]
    assert sorted(held) == ([3, 16, 59] if name == "kernel" else [])
    assert all(block.n_rows for block in made[0].rows)


def test_of_kernels_no_more_is_held_than_is_asked_for(trained):
    """A number of each row and problem, and the rows that have dual variables."""
    features, labels, _ = CASES["kernel, pairs"]
    model, state = trained("kernel, pairs")
    settings = settings_of(model, Settings(threads=1))
    with KeptDual(state) as kept, rows_of(model, settings, features, labels, WEIGHTS, kept) as stream:
        block, dataset = next(iter(stream.all())), stream.dataset
        used = kept.rows_used()
        held = sums.KernelSums(model.feature_map, 6, 60)
        held.add(block, np.ones((60, 6)) * kept.get(block.rows).any(axis=1)[:, None])
        assert sum(each.n_rows for each in held.rows) == used
        rows_bytes = sum(each.nbytes for each in held.rows)
        most = sums.kernel_sums_bytes(dataset, 6, used)
        assert most == 8 * 60 * 6 + used * (dataset.bytes_per_row + ROW_BYTES)
        assert most - 48 * used <= 8 * 60 * 6 + rows_bytes <= most
        assert stream.budget.lines["rows with dual variables"] == most
        mixture = np.arange(6.0) - 2.0
        v = held._v @ mixture
        gamma = model.feature_map.function.gamma
        K = np.exp(-gamma * ((features[:, None] - features) ** 2).sum(axis=2))
        assert held.squares(stream, mixture) == pytest.approx([v @ K @ v], rel=1e-12)
        assert held.squares(stream) == pytest.approx(np.einsum("ic,ij,jc->c", held._v, K, held._v), rel=1e-12)


def in_steps(n, step):
    return [min(step, n - start) for start in range(0, n, step)]


@pytest.mark.parametrize("values", [3, 40, 100, 400, 100_000])
@pytest.mark.parametrize("name", ["kernel", "kernel, sparse"])
@pytest.mark.parametrize("others", [0, 40])
def test_kernels_of_few_rows_are_worked_out_at_a_time(name, others, values, trained, tmp_path, monkeypatch):
    """others: from which row on they have dual variables, but for one row, so that its block has fewer than there
    are features."""
    features, labels, _ = CASES[name]
    model, state = trained(name)
    used = ((np.arange(60) >= others) | (np.arange(60) == 3))[:, None]
    state = with_shares(state, tmp_path / "S", lambda shares: np.where(used, 0.5, 0.0))
    found, calls = found_in(model, features, labels, WEIGHTS, state).dual, []
    monkeypatch.setattr(products, "PIECE_VALUES", 900)  # blocks of some 15 rows
    monkeypatch.setattr(sums, "PIECE_VALUES", values)
    kernel = sums.kernel
    monkeypatch.setattr(
        sums, "kernel", lambda *given: calls.append((len(given[4]), len(given[5]))) or kernel(*given)
    )
    settings = settings_of(model, Settings(threads=1))
    with KeptDual(state) as kept, rows_of(model, settings, features, labels, WEIGHTS, kept) as stream:
        again = measure_objectives(model, settings, stream, saved_dual=kept).dual
        held = again._w.rows
    assert again.values == pytest.approx(found.values, rel=1e-12)
    wanted = []
    assert len(held) > 2
    for some in held:
        step = max(1, values // max(some.n_rows, model.feature_map.n_features))
        wanted += [(some.n_rows, n) for others in held for n in in_steps(others.n_rows, step)]
    assert calls == wanted


@pytest.mark.parametrize("values", [2, 17, 60, 1000])
@pytest.mark.parametrize("name", ["kernel", "kernel, pairs"])
def test_dual_variables_are_counted_a_few_at_a_time(name, values, trained, monkeypatch):
    monkeypatch.setattr(dual_module, "PIECE_VALUES", values)
    seen, get = [], KeptDual.get
    monkeypatch.setattr(KeptDual, "get", lambda self, rows: seen.append(rows.tolist()) or get(self, rows))
    with KeptDual(trained(name)[1]) as kept:
        kept.rows_used()
        width = kept.shape[1]
    assert list(map(len, seen)) == in_steps(60, max(1, values // width))
    assert [row for some in seen for row in some] == list(range(60))


@pytest.mark.parametrize("name", ["kernel", "kernel, pairs"])
@pytest.mark.parametrize("values", [17, 1000])
def test_rows_that_have_dual_variables_are_counted(name, values, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(dual_module, "PIECE_VALUES", values)

    def change(shares):
        shares[...] = 0.0
        shares[[0, 3, 16, 17, 18, 59], shares.shape[1] - 1] = 0.25
        return shares

    with KeptDual(with_shares(trained(name)[1], tmp_path / "S", change)) as kept:
        assert kept.rows_used() == 6


def test_a_matrix_may_have_rows_of_zeros_and_columns_of_no_use():
    """Those of rows that count nothing, the last ones."""
    K, weight = BANDS.copy(), WEIGHTS.copy()
    K[24:36], K[:, 24:36], weight[55:] = 0.0, 0.0, 0.0
    options = {"kernel": "precomputed", "solver": "smo", "threads": 1, "bias": 0.7}
    model = llsvm.train(sp.csr_matrix(K), Y, sample_weight=weight, **options)
    assert model.feature_map.landmarks.max() < 55
    settings = settings_of(model, Settings(threads=1))
    with rows_of(model, settings, sp.csr_matrix(K), Y, weight) as stream:
        machine = machines.machine_of(model, settings, stream.dataset, None, np.float32)
        (block,) = stream.all()
        for first in range(0, 60, 12):
            some = np.arange(first, first + 12)
            found = machine.scores(block.take(some))[0][:, 0]
            assert found == pytest.approx(model.decision_function(sp.csr_matrix(K[some])), rel=1e-12)
    assert llsvm.verify(model, sp.csr_matrix(K), Y, weight)["differences"] == []
