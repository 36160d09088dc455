"""One table of numbers by every way in that arrays have: the same model, evaluation and predictions."""

import json
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from test_doors import table
from test_doors_shell import run

import llsvm

N = 120
ROOM = {"memory_limit": "8GB", "threads": 1}

NUMERIC = {"whole": int, "float": lambda k: [1.5, 2.5][k], "bool": bool, "text": lambda k: ["no", "yes"][k]}


def numeric(label):
    rng = np.random.default_rng(8)
    X = np.where(rng.random((N, 5)) < 0.6, np.round(rng.normal(size=(N, 5)), 3), 0.0)
    y = np.array([NUMERIC[label](int(k)) for k in X[:, 0] - X[:, 3] + rng.normal(size=N) / 2 > 0])
    return X, y, rng.integers(1, 3, N)


def files_of(X, y, weight, folder):
    """Of arrays: NumPy's and HDF5, dense and sparse."""
    h5py, rows = pytest.importorskip("h5py"), sp.csr_matrix(X)
    texts = y.dtype.kind == "U"
    np.savez(folder / "dense.npz", X=X, y=y, weight=weight)
    parts = {name: getattr(rows, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(folder / "sparse.npz", format=np.array(b"csr"), y=y, weight=weight, **parts)
    for name in ("dense", "sparse"):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["y"], file["weight"] = (y.astype(object) if texts else y), weight
            if name == "dense":
                file["X"] = X
            else:
                group = file.create_group("X")
                group.attrs["shape"] = rows.shape
                for part in ("data", "indices", "indptr"):
                    group[part] = parts[part]


ARRAYS = {
    "NumPy": lambda X: X,
    "NumPy, by columns": np.asfortranarray,
    "NumPy, read-only": lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
    "lists": lambda X: X.tolist(),
    **{name: partial(sp.coo_matrix.asformat, format=name) for name in ("csr", "csc", "coo", "bsr", "dia")},
    "SciPy's arrays": sp.csr_array,
    "pandas": lambda X: pytest.importorskip("pandas").DataFrame(X),
    "pandas of names": lambda X: pytest.importorskip("pandas").DataFrame(X, columns=list("abcde")),
    "Polars": lambda X: pytest.importorskip("polars").DataFrame(X, schema=list("abcde")),
    "pyarrow": lambda X: pa.table(dict(zip("abcde", X.T, strict=True))),
}


@pytest.mark.parametrize("label", NUMERIC)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_answer_for_a_table_of_numbers(tmp_path, label):
    X, y, weight = numeric(label)
    rows = pa.table({**dict(zip("abcde", X.T, strict=True)), "weight": weight, "y": y})
    more = {"scale": "maxabs", "bias": 1.0, "tol": 1e-9, **ROOM}
    pacsv.write_csv(rows, tmp_path / "rows.csv")
    files_of(X, y, weight, tmp_path)
    path = str(tmp_path / "rows.csv")
    expected = llsvm.train(path, label="y", weight="weight", **more)
    figures = llsvm.evaluate(expected, path, weight="weight")
    predictions = np.asarray(llsvm.predict(expected, path)).tolist()
    for door in [*ARRAYS, "dense.npz", "sparse.npz", "dense.h5", "sparse.h5"]:
        if door in ARRAYS:
            data = ARRAYS[door](sp.coo_matrix(X) if door in ("csr", "csc", "coo", "bsr", "dia") else X)
            model = llsvm.train(data, y, sample_weight=weight, **more)
            found = llsvm.evaluate(model, data, y, weight)
            assert llsvm.verify(model, data, y, weight)["holds"], door
        else:
            data = str(tmp_path / door)
            model = llsvm.train(data, weight="weight", **more)
            found = llsvm.evaluate(model, data, weight="weight")
            assert llsvm.verify(model, data)["holds"], door
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-7, err_msg=door)
        assert model.classes_.tolist() == expected.classes_.tolist(), door
        assert np.asarray(llsvm.predict(model, data)).tolist() == predictions, door
        assert found["confusion"] == figures["confusion"], door
        assert found["roc_auc"] == pytest.approx(figures["roc_auc"], abs=1e-12), door
        crossed = llsvm.predict(model, X).tolist()  # an array, for a model of whatever
        assert crossed == predictions, door


@pytest.mark.parametrize("door", ["dense.npz", "sparse.npz", "dense.h5", "sparse.h5", "rows.svm"])
@pytest.mark.parametrize("label", ["whole", "text", "number"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_shell_answers_as_python_does_of_arrays(tmp_path, door, label):
    X, y, weight = numeric("whole" if label == "number" else label)
    loss = {"loss": "epsilon_insensitive"} if label == "number" else {}
    if door == "rows.svm" and label == "text":
        pytest.skip("labels of svmlight are numbers")
    y = np.round(X @ np.arange(5.0), 3) if label == "number" else y
    files_of(X, y, weight, tmp_path)
    if label != "text":
        dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    weighted = door != "rows.svm"
    words = ["--weight", "weight"] if weighted else []
    apart = {"sample_weight": weight if weighted else None}
    expected = llsvm.train(X, y, **apart, tol=1e-9, **loss, **ROOM)
    figures = llsvm.evaluate(expected, X, y, **apart)

    model, data = tmp_path / "m", tmp_path / door
    options = [word for name, value in loss.items() for word in (f"--{name}", value)]
    run("train", data, *words, *options, "--tol", 1e-9, "--threads", 1, "--model", model, "--quiet")
    np.testing.assert_allclose(llsvm.load(model).coef_, expected.coef_, rtol=1e-5, atol=1e-7)
    found = json.loads(run("evaluate", model, data, *words, "--json"))
    for name in ("rows", "weight", "accuracy", "confusion", "r2"):
        assert found.get(name) == (figures.get(name) if name != "r2" else pytest.approx(figures.get(name)))
    lines = run("predict", model, data).splitlines()
    predictions = np.asarray(llsvm.predict(expected, X)).tolist()
    if label == "number":
        np.testing.assert_allclose(np.array(lines, float), predictions, rtol=1e-5, atol=1e-6)
    else:
        assert lines == [f"{value:g}" if label == "whole" else value for value in predictions]


@pytest.mark.parametrize("name", ["color", "day", "time"])
def test_arrays_of_other_things_than_numbers_are_refused(name):
    rows = table("text").to_pandas()
    with pytest.raises(llsvm.DataError, match=r"X has dtype .*; it must hold numbers"):
        llsvm.train(rows[["age", name]].to_numpy(), rows["y"], **ROOM)
    assert llsvm.train(rows[["age", name]], rows["y"], **ROOM).n_rows == len(rows)
