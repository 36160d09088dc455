"""``verify``: what scores rows, as training had it, and how much of the rows is worked on at a time."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import rows, write_svmlight

import llsvm
from llsvm.features.text import vectorizer
from llsvm.settings.settings import Settings
from llsvm.verification import claim, machines, products
from llsvm.verification.machines import machine_of
from llsvm.verification.problems import Problems
from llsvm.verification.products import dense
from llsvm.verification.rows import rows_of, settings_of

X, Y = rows(n=60, d=4, noise=0.6)
X3, Y3 = rows(n=60, d=4, classes=3, noise=0.6)
ROUGH = {"threads": 1, "tol": 0.1}


@pytest.mark.parametrize("columns", [("one",), ("one", "other")])
def test_hashed_columns_that_are_numbered_anew_have_their_weights(columns, tmp_path, monkeypatch):
    """The most frequent first, with numbers and words before them and after."""
    monkeypatch.setattr(vectorizer, "SAMPLE_VALUES", 200)
    rng, words = np.random.default_rng(0), np.array(["a", "bad", "good", "late", "soup", "the", "train"])
    lines = ["n,one,town,other,stars"]
    for y in Y.tolist():
        said = [" ".join(rng.choice(words, 5, p=np.arange(1, 8) / 28.0)) for _ in range(2)]
        lines.append(f"{rng.normal():.3f},{said[0]},{'ab'[rng.integers(2)]},{said[1]},{y}")
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    more = {"exclude": ("other",)} if len(columns) == 1 else {}
    options = {"text": columns, "hash_bits": 4, "vocabulary": "hashed", "label": "stars"}
    model = llsvm.train(str(tmp_path / "a.csv"), **ROUGH, **options, **more)
    assert llsvm.verify(model, str(tmp_path / "a.csv"))["differences"] == []


UNEVEN = X * np.random.default_rng(0).uniform(0.1, 1.0, 4)  # which 32-bit floats do not hold
UNEVEN_GRAM = np.exp(-0.5 * ((UNEVEN[:, None] - UNEVEN) ** 2).sum(axis=2))


@pytest.mark.parametrize("form", ["svm", "npy", "sparse"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed", None])
def test_values_are_read_as_they_were(kernel, form, tmp_path):
    """Of kernel machines as 64-bit floats, of others as the model says."""
    values = UNEVEN_GRAM if kernel == "precomputed" else UNEVEN
    data, label = tmp_path / f"a.{form}", {"label": "last"} if form == "npy" else {}
    if form == "sparse":
        few = np.arange(60) // 12
        values = values * (few == few[:, None] if kernel == "precomputed" else np.eye(4)[np.arange(60) % 4])
    if form != "npy":
        write_svmlight(data, values, Y)
    else:
        np.save(data, np.c_[values, Y])
    options = {"solver": "llsvm"} if kernel is None else {"kernel": kernel, "solver": "smo"}
    for tol in (1e-2, 1e-8):
        model = llsvm.train(
            str(data), threads=1, tol=tol, format="numpy" if label else "svmlight", **label, **options
        )
        assert llsvm.verify(model, str(data))["differences"] == []


MACHINES = {  # and how many numbers a row takes, or what it is made of
    "hinge": (X, Y, {"bias": 1.0}, 1),
    "three classes": (X3, Y3, {"bias": 1.0}, 3),
    "jointly": (X, Y, {"multiclass": "crammer-singer"}, 2),
    "many features": (X, Y, {"feature_map": "rff", "components": 10}, 10),
    "few features": (X, Y, {"feature_map": "rff", "components": 3}, 4),
    "kernel": (X, Y, {"kernel": "rbf", "solver": "smo"}, None),
    "few support vectors": (np.eye(8, 12), np.arange(8) % 2, {"kernel": "rbf"}, 12),
}


@pytest.mark.parametrize("name", MACHINES)
def test_what_a_row_takes_is_known(name):
    """So that pieces are no larger than they may be."""
    features, labels, options, width = MACHINES[name]
    model = llsvm.train(features, labels, **ROUGH, **options)
    settings = settings_of(model, Settings(threads=1))
    with rows_of(model, settings, features, labels, None) as stream:
        machine = machine_of(model, settings, stream.dataset, stream.scaling, np.float32)
    if width is None:
        width = model.feature_map.width  # support vectors, which are more than features
        assert width > X.shape[1]
    assert machine.width == width


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf", "solver": "smo", "gamma": 0.3}])
def test_a_constant_that_a_model_should_not_have_is_penalised(options):
    model = llsvm.train(X, Y, bias=0.0, **ROUGH, **options)
    other = replace(model, intercept_=np.array([0.75]))
    found = llsvm.verify(other, X, Y)
    margins = (2.0 * Y - 1.0) * other.decision_function(X)
    before = (2.0 * Y - 1.0) * model.decision_function(X)
    loss = np.maximum(0.0, 1.0 - margins).sum() - np.maximum(0.0, 1.0 - before).sum()
    assert found["primal"] == pytest.approx(model.certificate.primal[0] + loss + 0.5 * 0.75**2, rel=1e-6)
    assert found["differences"][0].startswith("the primal is ")


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ({"feature_map": "rff", "components": 3}, 6),
        ({"feature_map": "rff", "components": 30}, 30),
        ({"solver": "llsvm"}, 6),
    ],
)
def test_pieces_have_room_for_all_problems(options, width, monkeypatch):
    features, labels = rows(n=60, d=4, classes=4, noise=0.6)
    model, seen = llsvm.train(features, labels, multiclass="ovo", **ROUGH, **options), set()
    pieces = claim.pieces
    monkeypatch.setattr(claim, "pieces", lambda block, most: seen.add(most) or pieces(block, most))
    assert llsvm.verify(model, features, labels)["holds"]
    assert seen == {width}


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("values", [40, 100, 1000, 3])
def test_support_vectors_come_in_pieces(as_matrix, values, monkeypatch):
    """Of values, and of kernels of a row with them, that are no more than they may be."""
    monkeypatch.setattr(machines, "PIECE_VALUES", values)
    for features, labels in ((X, Y), (np.eye(8, 12), np.arange(8) % 2)):
        model = llsvm.train(as_matrix(features), labels, kernel="rbf", solver="smo", **ROUGH)
        map_, parts = model.feature_map, []
        widest = max(map_.width, map_.n_features)
        for start, Z in machines._landmarks(map_):
            assert start == sum(map(len, parts))
            assert len(Z) == max(1, min(values // widest, map_.width - start))
            parts.append(Z)
        landmarks = map_.landmarks
        whole = landmarks if as_matrix is np.asarray else dense(landmarks, 0, map_.n_features)
        assert np.array_equal(np.concatenate(parts), whole)


WIDE = {  # rows, and how they are trained, whose pieces are full
    "dense": (np.random.default_rng(0).normal(size=(20_000, 20)), {}),
    "sparse": (sp.random(40_000, 100, density=0.1, random_state=0, format="csr"), {}),
    "features": (np.random.default_rng(0).normal(size=(9000, 20)), {"feature_map": "rff", "components": 50}),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_piece_takes_no_more_than_was_asked_for(name):
    features, options = WIDE[name]
    labels = np.asarray(features[:, [0]].sum(axis=1)).ravel() > 0.0
    model = llsvm.train(features, labels, threads=1, tol=0.5, **options)
    settings = settings_of(model, Settings(threads=1))
    with rows_of(model, settings, features, labels, None) as stream:
        machine = machine_of(model, settings, stream.dataset, stream.scaling, np.float32)
        problems = Problems.of(settings, stream.dataset)
        blocks = list(stream.all())
        tracemalloc.start()
        try:
            for block in blocks:
                for piece in products.pieces(block, machine.width):
                    problems.losses(piece, *machine.scores(piece)[:2])
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert most <= products.WORK_BYTES
