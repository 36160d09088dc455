"""Streamed scoring: the same answers as with everything in memory, whatever the blocks."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import metrics

from llsvm.block import CSR, Block
from llsvm.data.source import SourceInfo
from llsvm.errors import BudgetError, DataError, ModelError, UsageError
from llsvm.models.model import Model
from llsvm.scoring.measure import measure
from llsvm.scoring.predictions import predict_file, score_blocks
from llsvm.scoring.room import block_bytes
from llsvm.scoring.sources import zero_based


class Rows:
    """A source over arrays in memory, ``step`` rows a block, whose column indices start at ``base``."""

    def __init__(self, X, y, step: int = 7, base: int = 0, dense: bool = False) -> None:
        self.X, self.y, self.step, self.base, self.dense = X, np.asarray(y), step, base, dense

    def info(self) -> SourceInfo:
        return SourceInfo("rows", "arrays", index_base=self.base)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        for start in range(0, len(self.X), self.step):
            part = slice(start, start + self.step)
            rows = np.arange(len(self.X))[part]
            if self.dense:
                yield Block(self.X[part], self.y[part], rows)
                continue
            csr = sparse.csr_array(self.X[part])
            X = CSR(csr.indptr.astype(np.int64), (csr.indices + self.base).astype(np.int32), csr.data)
            yield Block(X, self.y[part], rows)


def example(k: int, d: int = 6, n: int = 40, seed: int = 0) -> tuple[Model, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.array([-1.0, 1.0]) if k == 1 else 10.0 * np.arange(k)
    model = Model(rng.standard_normal((k, d)), rng.standard_normal(k), classes)
    X = np.round(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6), 2).astype(np.float32)
    return model, X, rng.choice(classes, n)


@given(
    k=st.sampled_from([1, 3]),
    step=st.integers(1, 50),
    base=st.integers(0, 1),
    dense=st.booleans(),
    width=st.integers(1, 9),
)
@settings(max_examples=40, deadline=None)
def test_any_blocks_and_any_width_give_the_scores_of_the_whole(k, step, base, dense, width):
    model, _, _ = example(k)
    X = np.random.default_rng(width).standard_normal((40, width)).astype(np.float32)
    fitted = np.zeros((40, 6))
    fitted[:, : min(6, width)] = X[:, :6]
    expected = fitted @ model.coef_.T + model.intercept_
    source = Rows(X, np.zeros(40), step, base=0 if dense else base, dense=dense)
    parts = list(score_blocks(model, source, 1000))
    np.testing.assert_allclose(np.concatenate([s for _, s in parts]), expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(np.concatenate([b.rows for b, _ in parts]), np.arange(40))


@pytest.mark.parametrize("k", [1, 3])
def test_lines_of_predictions(k):
    model, X, y = example(k)
    out, scored = io.StringIO(), io.StringIO()
    assert predict_file(model, Rows(X, y, base=1), out) == 40
    predict_file(model, Rows(X, y, step=40), scored, more="scores")
    lines = out.getvalue().splitlines()
    assert lines == [model.labels[i] for i in np.searchsorted(model.classes_, model.predict(X))]
    assert set(lines) <= ({"1", "-1"} if k == 1 else {"0", "10", "20"})
    fields = [line.split("\t") for line in scored.getvalue().splitlines()]
    assert [row[0] for row in fields] == lines
    values = np.array([row[1:] for row in fields], float)
    assert np.array_equal(values.ravel(), model.decision_function(sparse.csr_array(X)).ravel())


@pytest.mark.parametrize("k", [1, 4])
def test_figures_are_those_of_scikit_learn(k):
    model, X, y = example(k, n=300)
    answer = measure(model, Rows(X, y, step=11))
    guess = model.predict(X)
    assert answer["rows"] == 300
    assert answer["accuracy"] == pytest.approx(metrics.accuracy_score(y, guess))
    assert answer["confusion"]["counts"] == metrics.confusion_matrix(y, guess).tolist()
    table = metrics.precision_recall_fscore_support(y, guess, zero_division=0)
    for name, column in zip(("precision", "recall", "f1", "support"), table, strict=True):
        assert [row[name] for row in answer["classes"]] == pytest.approx(column.tolist())
    assert answer["unknown_rows"] == 0


def test_labels_the_model_has_never_seen_are_wrong_and_listed():
    model, X, y = example(1)
    y = model.predict(X)
    y[:3] = 7
    y[3] = 0.25
    answer = measure(model, Rows(X, y))
    assert answer["accuracy"] == pytest.approx(36 / 40)
    assert answer["unknown_rows"] == 4
    assert answer["unknown_labels"] == {"7": 3, "0.25": 1}
    answer = measure(model, Rows(X, np.arange(40) + 0.125))
    assert answer["accuracy"] == 0
    assert len(answer["unknown_labels"]) == 20


def test_text_labels():
    model, X, _ = example(1)
    model = Model(model.coef_, model.intercept_, np.array(["ham", "spam"]))
    y = model.predict(X).astype(object)
    y[0] = "something longer"
    answer = measure(model, Rows(X, y))
    assert (answer["correct"], answer["unknown_labels"]) == (39, {"something longer": 1})
    with pytest.raises(ModelError, match=r"text \('ham'\), the data's numbers"):
        measure(model, Rows(X, np.zeros(40)))


def test_empty_data_have_no_predictions_and_no_figures():
    model, X, y = example(1)
    out = io.StringIO()
    assert (predict_file(model, Rows(X[:0], y[:0]), out), out.getvalue()) == (0, "")
    with pytest.raises(DataError, match="no row"):
        measure(model, Rows(X[:0], y[:0]))


def test_blocks_fit_the_limit(monkeypatch):
    monkeypatch.setattr("llsvm.scoring.room.resident_bytes", lambda: 200_000_000)
    assert block_bytes(1000, 2, "4GB") == 8 << 20
    assert 256 << 10 <= block_bytes(1000, 2, "300MB") <= 8 << 20
    with pytest.raises(BudgetError) as caught:
        block_bytes(20_000_000, 20, "300MB")
    assert caught.value.smallest_bytes > 320_000_000
    assert block_bytes(20_000_000, 20, caught.value.smallest_bytes) >= 256 << 10
    with pytest.raises(UsageError):
        block_bytes(10, 2, "plenty")


def test_a_model_remembers_how_its_files_count_columns():
    model, _, _ = example(1)
    assert zero_based(model) == "no"
    model.index_base = 0
    assert zero_based(model) == "yes"
