"""What tells a data set from others does not depend on blocks, and sees labels, weights, values and files."""

from itertools import pairwise

import numpy as np
import pytest

from llsvm.block import CSR, Block
from llsvm.features.labels import LabelEncoder
from llsvm.files.fingerprint import FileFingerprint
from llsvm.stream.row_facts import EVERY, FIRST_ROWS, RowsDigest

N = FIRST_ROWS + 50 * EVERY


def digest(y, X, weight=None, step=997, files=None):
    taken, labels = RowsDigest(), LabelEncoder()
    for start in range(0, len(y), step):
        part = slice(start, min(start + step, len(y)))
        rows = np.arange(part.start, part.stop)
        block = Block(X[part], y[part], rows, None if weight is None else weight[part])
        taken.add(block, labels.encode(block.y))
    return taken.of(labels.rank, files)


def data():
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, 3, N))[::-1].astype(float)  # the last classes come first
    return y, rng.normal(size=(N, 2)).astype(np.float32), rng.random(N).astype(np.float32)


@pytest.mark.parametrize("step", [1, 13, 4096, N])
def test_blocks_make_no_difference(step):
    y, X, weight = data()
    y, X, weight = y[-700:], X[-700:], weight[-700:]
    assert digest(y, X, weight, step) == digest(y, X, weight)


def test_nor_do_they_beyond_the_first_rows():
    y, X, weight = data()
    assert digest(y, X, weight, 4096) == digest(y, X, weight, N) == digest(y, X, weight)


@pytest.mark.parametrize("what", ["label", "later label", "value", "weight", "rows", "file"])
def test_what_is_seen(what):
    y, X, weight = data()
    before = digest(y, X, weight)
    files = None
    if what == "label":
        y[[5, -1]] = y[[-1, 5]]  # as many of each as before
    elif what == "later label":
        at = FIRST_ROWS + (-FIRST_ROWS) % EVERY + EVERY
        y[at] = 5.0
    elif what == "value":
        X[FIRST_ROWS - 1, 1] += 1
    elif what == "weight":
        weight[3] += 1
    elif what == "rows":
        y, X, weight = y[:-1], X[:-1], weight[:-1]
    else:
        files = [FileFingerprint("a", 3, (("bytes", b"12345678"),))]
    assert digest(y, X, weight, files=files) != before


def test_sparse_rows():
    y, rng = np.arange(40) % 2, np.random.default_rng(0)
    X = CSR(np.arange(41) * 3, rng.integers(0, 9, 120).astype(np.int32), rng.random(120).astype(np.float32))

    def of(X, cuts):
        taken = RowsDigest()
        for start, stop in pairwise(cuts):
            part = Block(X, y, np.arange(40), None).slice(start, stop)
            taken.add(part, part.y.astype(np.int32))
        return taken.of(np.arange(2, dtype=np.int32), None)

    assert of(X, [0, 40]) == of(X, [0, 7, 40])
    assert of(X._replace(indices=X.indices + 1), [0, 40]) != of(X, [0, 40])
    assert of(X._replace(data=X.data + 1), [0, 40]) != of(X, [0, 40])
