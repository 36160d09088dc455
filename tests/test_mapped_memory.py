"""What a feature map takes is signed for before it is made."""

import tracemalloc

import numpy as np
import pytest
from cells import in_turn
from oracle import rows, run, write_svmlight

from llsvm.data import open_source
from llsvm.data.mapped import MapOptions, MappedSource
from llsvm.errors import BudgetError

OVERHEAD_BYTES = 1_500_000  # a block in the source's hands, and small objects


def test_a_far_index_is_refused_before_the_map_is_made(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1 2000000:1\n-1 2:1\n")
    tracemalloc.start()
    try:
        with pytest.raises(BudgetError) as caught:
            run(path, ledger=100_000_000, feature_map="rff", components=300)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert caught.value.lines["feature map"] >= 8 * 2_000_000 * 300


@pytest.mark.parametrize(("kind", "density"), in_turn(["rff", "nystroem"], [1.0, 0.1], 1))
def test_no_more_is_taken_than_was_signed_for(tmp_path, kind, density):
    X, y = rows(n=900, d=60, density=density)
    source = open_source(write_svmlight(tmp_path / "rows.svm", X, y))
    MappedSource(source, MapOptions(kind, "rbf", 5))  # compiles
    signed = []
    tracemalloc.start()
    try:
        mapped = MappedSource(source, MapOptions(kind, "rbf", 700), signed.append)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= max(signed) + OVERHEAD_BYTES
    assert signed[-1] >= mapped.map.nbytes
    assert np.isfinite(next(iter(mapped.blocks(10_000))).X).all()


def test_the_limit_that_a_map_asks_for_works(tmp_path):
    X, y = rows(n=300, d=40)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    path.write_text(path.read_text() + "1 30000:1\n")
    options = {"feature_map": "rff", "components": 100, "max_passes": 2}
    with pytest.raises(BudgetError) as caught:
        run(path, ledger=20_000_000, **options)
    training = run(path, ledger=caught.value.smallest_bytes, **options)
    assert training.reports[-1].certificate is not None
