"""Facts of the rows of two shards, merged, are those of all rows: property tests of each ``merge``."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from llsvm.block import CSR, Block
from llsvm.errors import DataError
from llsvm.features.labels import LabelEncoder
from llsvm.features.scaling import ColumnStatistics
from llsvm.features.targets import NoLabels, Targets
from llsvm.stream.row_facts import RowShape, SampleWeights

MANY = settings(max_examples=50, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
WORDS = np.array(["a", "b", "c d", "", "é"], object)


def shards(rng, n):
    """The rows of two shards, either of which may have none."""
    at = int(rng.integers(0, n + 1))
    return slice(0, at), slice(at, n)


def weights_of(rng, n, kind):
    """Weights (n,): None, whole numbers with zeros among them, or such as are far apart."""
    if kind == "none":
        return None
    return rng.integers(0, 4, n).astype(float) if kind == "whole" else 10.0 ** rng.uniform(-9, 9, n)


def learned(make, update, parts):
    """Return what ``make`` has learned of some parts, one after the other."""
    facts = make()
    for part in parts:
        update(facts, part)
    return facts


@MANY
@given(SEEDS, st.sampled_from(["float", "int", "text"]), st.sampled_from(["none", "whole"]))
def test_labels(seed, kind, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    y = rng.integers(-3, 4, n)
    y = WORDS[np.abs(y)] if kind == "text" else y.astype(float if kind == "float" else np.int64)
    weight, (left, right) = weights_of(rng, n, weighted), shards(rng, n)

    def encode(labels, rows):
        if len(y[rows]):
            labels.encode(y[rows], None if weight is None else weight[rows])

    whole, here, there = (learned(LabelEncoder, encode, p) for p in ([left, right], [left], [right]))
    ids = here.merge(there)
    assert here.classes.tolist() == whole.classes.tolist()
    for name in ("counts", "sums"):
        assert (
            getattr(here, name)[np.argsort(here.rank)].tolist()
            == getattr(whole, name)[np.argsort(whole.rank)].tolist()
        )
    if len(there):
        assert here.classes[here.rank[ids]].tolist() == there.classes[there.rank].tolist()
    assert here.final(y).tolist() == whole.final(y).tolist()


def test_labels_of_two_types_are_refused():
    words, numbers = LabelEncoder(), LabelEncoder()
    words.encode(np.array(["a", "b"], object))
    numbers.encode(np.array([1.0, 2.0]))
    with pytest.raises(DataError, match="text in some rows and numbers in others"):
        words.merge(numbers)


@MANY
@given(SEEDS, st.sampled_from(["none", "whole", "apart"]), st.sampled_from([1.0, 1e-8, 1e150]))
def test_targets(seed, weighted, spread):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    y = spread * (rng.normal() * 100 + rng.normal(size=n))
    weight, (left, right) = weights_of(rng, n, weighted), shards(rng, n)

    def encode(targets, rows):
        targets.encode(y[rows], None if weight is None else weight[rows])

    for make in (Targets, NoLabels):
        whole, here, there = (learned(make, encode, p) for p in ([left, right], [left], [right]))
        here.merge(there)
        assert here.counts.tolist() == whole.counts.tolist()
        np.testing.assert_allclose(here.sums, whole.sums, rtol=1e-14)
    whole, here, there = (learned(Targets, encode, p) for p in ([left, right], [left], [right]))
    assume(whole.sums[0] > 0)
    here.merge(there)
    ours, theirs = here.target, whole.target
    assert (ours.smallest, ours.largest) == (theirs.smallest, theirs.largest)
    np.testing.assert_allclose(ours.mean + ours.rest, theirs.mean + theirs.rest, rtol=1e-13)
    np.testing.assert_allclose(ours.std, theirs.std, rtol=1e-9, atol=1e-13 * abs(theirs.mean))


@MANY
@given(
    SEEDS,
    st.sampled_from(["none", "whole", "apart"]),
    st.sampled_from([1.0, 1e-60, 1e120]),
    st.booleans(),
    st.sampled_from(["standard", "minmax", "maxabs"]),
)
@example(0, "apart", 1e120, True, "standard")
def test_columns(seed, weighted, size, dense, kind):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 40)), 4
    X = rng.normal(size=(n, d)) * size * 10.0 ** rng.integers(-3, 4, d) + size * rng.normal(size=d)
    X[rng.random((n, d)) < 0.3] = 0.0
    X[rng.random((n, d)) < 0.1] = np.nan
    weight, (left, right) = weights_of(rng, n, weighted), shards(rng, n)

    def add(statistics, rows):
        part = X[rows]
        if not dense:
            row, column = np.nonzero(part)
            sparse = sp.csr_matrix((part[row, column], (row, column)), part.shape)
            part = CSR(sparse.indptr.astype(np.int64), sparse.indices.astype(np.int32), sparse.data)
        statistics.add(part, None if weight is None else weight[rows])

    whole, here, there = (learned(ColumnStatistics, add, p) for p in ([left, right], [left], [right]))
    here.merge(there)
    assert here.n_columns == whole.n_columns
    counting = n if weight is None else float(weight.sum())
    assume(counting > 0)
    ours, theirs = (each.scaling(kind, counting, d, dense) for each in (here, whole))
    np.testing.assert_allclose(ours.scale, theirs.scale, rtol=1e-9)
    np.testing.assert_allclose(ours.shift, theirs.shift, rtol=1e-9, atol=1e-12 * np.nanmax(np.abs(X)))
    np.testing.assert_allclose(ours.fill, theirs.fill, rtol=1e-9, atol=1e-12 * np.nanmax(np.abs(X)))


@MANY
@given(SEEDS, st.sampled_from(["none", "whole", "apart"]))
def test_weights_and_shape(seed, weighted):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    X = sp.random(n, d, 0.5, "csr", np.float32, random_state=seed)
    y, weight, (left, right) = rng.integers(0, 3, n), weights_of(rng, n, weighted), shards(rng, n)

    def update(facts, rows):
        labels, weights, shape = facts
        part = X[rows]
        if not part.shape[0]:
            return
        matrix = CSR(part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data)
        given_weight = None if weight is None else weight[rows]
        raw = Block(matrix, y[rows].astype(float), np.arange(part.shape[0]), given_weight)
        page = Block(matrix, labels.encode(raw.y, raw.weight), raw.rows, raw.weight)
        weights.expect(raw)
        weights.update(page, "data")
        shape.widen(int(part.indices.max(initial=-1)) + 1)
        shape.update(raw, page)

    def make():
        return LabelEncoder(), SampleWeights(), RowShape()

    whole, here, there = (learned(make, update, p) for p in ([left, right], [left], [right]))
    here[1].merge(there[1], here[0].merge(there[0]))
    here[2].merge(there[2])
    assert (here[1].given, here[1].largest) == (whole[1].given, whole[1].largest)
    np.testing.assert_allclose(here[1].total, whole[1].total, rtol=1e-13)
    np.testing.assert_allclose(here[1].squares(here[0]), whole[1].squares(whole[0]), rtol=1e-12)
    for name in ("n_rows", "nnz", "n_columns", "dtype"):
        assert getattr(here[2], name) == getattr(whole[2], name)
