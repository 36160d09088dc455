"""What a regression cannot be trained with is refused with a sentence, whatever format it comes in."""

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import llsvm
from llsvm import LLSVMRegressor
from llsvm.cli import app
from llsvm.errors import DataError, UsageError

N = 30
X = np.random.default_rng(0).normal(size=(N, 3))
GOOD = X[:, 0] + 5.0


def changed(value):
    y = GOOD.copy()
    y[4] = value
    return y


LABELS = {
    "constant": (np.full(N, 3.5), "all 30 rows have the same target, 3.5: there is nothing to learn"),
    "infinite": (changed(np.inf), "infinite|infinity|not finite"),
    "missing": (changed(np.nan), "missing|NaN|not finite"),
    "huge": (changed(1e200), "targets go from .* to 1e\\+200, and their squares are too large"),
    "text": (np.array(["a", "b"] * (N // 2)), "label 'a'.* not a number"),
}


def write(folder, kind, y):
    """A file of the format with the labels, and the options that reading it takes."""
    text = y.dtype.kind == "U"
    if kind == "npz":
        np.savez(folder / "rows.npz", X=X, y=y)
    elif kind == "npy":
        np.save(folder / "rows.npy", X)
        np.save(folder / "labels.npy", y)
        return folder / "rows.npy", ["--label", str(folder / "labels.npy")]
    elif kind == "h5":
        with h5py.File(folder / "rows.h5", "w") as file:
            file["X"], file["y"] = X, y.astype("S") if text else y
    elif kind == "parquet":
        columns = {f"x{j}": X[:, j] for j in range(3)}
        pq.write_table(pa.table({**columns, "label": y}), folder / "rows.parquet")
    elif kind == "csv":
        lines = [",".join([*map(str, row), str(label)]) for row, label in zip(X, y, strict=True)]
        (folder / "rows.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    else:
        lines = [f"{label} 1:{row[0]} 2:{row[1]}" for row, label in zip(X, y, strict=True)]
        (folder / "rows.svm").write_text("\n".join(lines) + "\n")
    return folder / f"rows.{kind}", []


@pytest.mark.parametrize("kind", ["svm", "csv", "parquet", "npz", "npy", "h5"])
@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_files(tmp_path, kind, labels):
    y, words = LABELS[labels]
    path, options = write(tmp_path, kind, y)
    model = tmp_path / "m"
    args = ["train", str(path), "--model", str(model), "--loss", "epsilon_insensitive", "-q", *options]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 3
    assert len(done.stderr.splitlines()) == 1
    assert not model.exists()
    with pytest.raises(DataError, match=words):
        raise DataError(done.stderr)


@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_arrays(labels):
    y, words = LABELS[labels]
    with pytest.raises(DataError, match=words):
        llsvm.train(X, y, loss="huber")
    with pytest.raises(ValueError, match=words):
        LLSVMRegressor().fit(X, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": -1.0}, "epsilon must be 0 or a positive number, not -1.0"),
        ({"epsilon": float("nan")}, "epsilon must be 0 or a positive number, not nan"),
        ({"epsilon": float("inf")}, "epsilon must be 0 or a positive number, not inf"),
        ({"loss": "quantile", "quantile": 0.0}, "quantile must be between 0 and 1, not 0.0"),
        ({"loss": "quantile", "quantile": 1.0}, "quantile must be between 0 and 1, not 1.0"),
        ({"loss": "quantile", "quantile": float("nan")}, "quantile must be between 0 and 1, not nan"),
        ({"loss": "huber", "delta": 0.0}, "delta must be a positive number, not 0.0"),
        ({"loss": "huber", "delta": float("inf")}, "delta must be a positive number, not inf"),
    ],
)
def test_parameters_of_losses(tmp_path, options, words):
    path, _ = write(tmp_path, "csv", GOOD)
    given = {"loss": "epsilon_insensitive", **options}
    args = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    done = CliRunner().invoke(app, ["train", str(path), "--model", str(tmp_path / "m"), *args])
    assert (done.exit_code, words in done.stderr) == (2, True)
    with pytest.raises(UsageError, match=words):
        llsvm.train(X, GOOD, **given)
    with pytest.raises(UsageError, match=words):
        LLSVMRegressor(**given).fit(X, GOOD)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--loss hinge --multiclass softmax", "--multiclass softmax needs --loss logistic"),
        ("--loss hinge --target-scale standard", "--target-scale is for labels that are numbers"),
        ("--loss huber --multiclass softmax", "--multiclass is for classes"),
        ("--loss huber --class-weight balanced", "--class-weight is for classes"),
        ("--loss huber --positive 1", "--positive is for classes"),
        ("--loss hinge --epsilon 0.2", "--epsilon has no meaning here"),
        # typed, a default is no less left aside
        ("--loss huber --multiclass ovr", "--multiclass is for classes"),
        ("--nu 0.5", "--nu has no meaning here: pass --loss one_class"),
        ("--loss logistic --epsilon 0.1", "--epsilon has no meaning here"),
        ("--loss huber --quantile 0.5", "--quantile has no meaning here"),
        ("--loss quantile --delta 1", "--delta has no meaning here"),
        ("--loss one_class -C 1", "-C has no meaning here: --loss one_class takes --nu"),
        ("--penalty l1 --l1-ratio 0.5", "--l1-ratio has no meaning here: pass --penalty elasticnet"),
        ("--degree 3", "--degree has no meaning here: pass --kernel poly"),
        ("--analyzer word", "--analyzer has no meaning here: pass --text"),
    ],
)
def test_options_of_other_losses(tmp_path, options, words):
    path, _ = write(tmp_path, "csv", GOOD)
    done = CliRunner().invoke(app, ["train", str(path), "--model", str(tmp_path / "m"), *options.split()])
    assert (done.exit_code, words in done.stderr) == (2, True)
