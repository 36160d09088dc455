"""Values of which a 64-bit float is not all: whole numbers beyond 2^53, decimals, dates and times. What they lose
is counted, and a column that is not told apart is refused by name."""

from __future__ import annotations

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import llsvm
from llsvm.errors import DataError

RNG = np.random.default_rng(0)
N = 200
STEPS = np.floor(16 * RNG.random(N))
OTHER = RNG.random(N)
Y = (STEPS / 16 + 0.2 * OTHER > 0.6).astype(int)
SCALED = {"scale": "standard", "bias": 1.0}
WHOLE = STEPS.astype(np.int64)
NO_FLOATS = {
    "int64": pa.array(2**60 + WHOLE),
    "uint64": pa.array(np.uint64(2**63) + WHOLE.astype(np.uint64)),
    "below 0": pa.array(-(2**60) - WHOLE),
    "with nulls": pa.array([None if i % 7 == 0 else v for i, v in enumerate((2**60 + WHOLE).tolist())]),
    "decimal": pa.array((2**60 + WHOLE).tolist()).cast(pa.decimal128(38, 0)),
    "categories": pa.array(2**60 + WHOLE).dictionary_encode(),
    "ns": pa.array(17 * 10**17 + 100 * WHOLE, pa.timestamp("ns")),
    "us": pa.array(17 * 10**14 + WHOLE, pa.timestamp("us")),
}


@pytest.mark.parametrize("name", NO_FLOATS)
def test_values_that_64_bit_floats_do_not_tell_apart_are_refused_by_name(tmp_path, name):
    pq.write_table(pa.table({"x": NO_FLOATS[name], "other": OTHER, "y": Y}), tmp_path / "rows.parquet")
    with pytest.raises(
        DataError, match="column x: its values are too near to each other for the 64-bit floats"
    ):
        llsvm.train(str(tmp_path / "rows.parquet"), label="y", missing="mean")


@pytest.mark.parametrize("write", ["arrays", "sparse", "npz", "h5"])
def test_whole_numbers_in_arrays_are_told_apart_or_refused(tmp_path, write):
    sp = pytest.importorskip("scipy.sparse")
    near, far = (np.c_[2**60 + step * WHOLE, np.arange(N) % 3] for step in (1, 2**20))

    def model_of(X):
        path = tmp_path / f"rows.{write}"
        if write == "npz":
            np.savez(path, X=X, y=Y)
        elif write == "h5":
            with h5py.File(path, "w") as file:
                file["X"], file["y"] = X, Y
        else:
            return llsvm.train(sp.csr_matrix(X) if write == "sparse" else X, Y, tol=1e-6, **SCALED)
        return llsvm.train(str(path), tol=1e-6, **SCALED)

    assert model_of(far).converged
    with pytest.raises(DataError, match=r"column .*too near to each other for the 64-bit floats"):
        model_of(near)


@pytest.mark.parametrize("step", [2**12, 2**16])
def test_what_whole_numbers_lose_as_64_bit_floats_is_counted(tmp_path, step):
    """Steps of a few units in the last place, and odd numbers."""
    column = 2**60 + step * WHOLE + RNG.integers(0, 64, N)
    pq.write_table(pa.table({"x": column, "other": OTHER, "y": Y}), tmp_path / "rows.parquet")
    model = llsvm.train(str(tmp_path / "rows.parquet"), label="y", tol=0.5)
    Z = np.c_[(column - 2**60).astype(float), OTHER]
    exact = llsvm.train(Z, Y, tol=1e-9, **SCALED)
    assert model.certificate.dual[0] <= exact.certificate.primal[0]
    primal = model.certificate.primal[0] + sum(model.certificate.rounding)
    assert primal >= exact.certificate.dual[0]
    assert sum(model.certificate.rounding) > 0


def test_constants_beyond_64_bit_floats_are_constants(tmp_path):
    columns = {"x": pa.array([2**60 + 1] * N), "z": pa.array([2**60 + 1] * N).cast(pa.decimal128(38, 0))}
    pq.write_table(pa.table({**columns, "other": OTHER, "y": Y}), tmp_path / "rows.parquet")
    assert llsvm.train(str(tmp_path / "rows.parquet"), label="y").converged


def _text(path, column, y=Y):
    """Write the column of words, OTHER and y; what reads them."""
    rows = zip(column, OTHER.tolist(), y.tolist(), strict=True)
    if path.suffix == ".csv":
        lines = ["x,other,y", *(f"{x},{o!r},{y}" for x, o, y in rows)]
    elif path.suffix == ".jsonl":
        lines = [f'{{"x": {x}, "other": {o!r}, "y": {y}}}' for x, o, y in rows]
    elif path.suffix == ".vw":
        lines = [f"{2 * y - 1} | x:{x} other:{o!r}" for x, o, y in rows]
    else:
        lines = [f"{y} 1:{x} 2:{o!r}" for x, o, y in rows]
    path.write_text("\n".join(lines) + "\n")
    table = path.suffix in (".csv", ".jsonl")
    return {"data": str(path), "label": "y"} if table else {"data": str(path), **SCALED}


FORMATS = ["csv", "jsonl", "svm", "vw"]
IDS = {
    "int64": [2**60 + v for v in WHOLE.tolist()],
    "below 0": [-(2**60) - v for v in WHOLE.tolist()],
    "uint64": [2**63 + 1 + v for v in WHOLE.tolist()],
    "30 digits": [10**29 + v for v in WHOLE.tolist()],
    "decimals": [f"{2**60 + v}.5" for v in WHOLE.tolist()],
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", IDS)
def test_numbers_of_text_that_64_bit_floats_do_not_tell_apart_are_refused_by_name(tmp_path, name, suffix):
    with pytest.raises(DataError, match=r"column .*too near to each other for the 64-bit floats"):
        llsvm.train(**_text(tmp_path / f"rows.{suffix}", IDS[name]))


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("step", [2**12, 2**16])
def test_what_numbers_of_text_lose_as_64_bit_floats_is_counted(tmp_path, step, suffix):
    column = 2**60 + step * WHOLE + RNG.integers(0, 64, N)
    model = llsvm.train(**_text(tmp_path / f"rows.{suffix}", column.tolist()), tol=0.9)
    Z = np.c_[(column - 2**60).astype(float), OTHER]
    exact = llsvm.train(Z, Y, tol=1e-9, **SCALED)
    assert model.certificate.dual[0] <= exact.certificate.primal[0]
    primal = model.certificate.primal[0] + sum(model.certificate.rounding)
    assert primal >= exact.certificate.dual[0]
    assert sum(model.certificate.rounding) > 0


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("constant", [2**60 + 1, 2**63 + 1, 10**29 + 1, "12345678901234567890.0"])
def test_constants_of_text_beyond_64_bit_floats_are_constants(tmp_path, constant, suffix):
    assert llsvm.train(**_text(tmp_path / f"rows.{suffix}", [constant] * N)).converged


@pytest.mark.parametrize("suffix", FORMATS)
def test_floats_written_in_full_are_floats(tmp_path, suffix):
    near = [repr(v) for v in (1.0 + 2.0**-40 * STEPS).tolist()]
    far = [repr(v) for v in (1e300 * (1 + OTHER)).tolist()]
    for column in (near, far):
        model = llsvm.train(**_text(tmp_path / f"rows.{suffix}", column), tol=1e-6)
        assert model.converged


def test_whole_numbers_of_csv_that_are_missing_or_no_numbers_further_down(tmp_path):
    column = [2**60 + (v << 12) for v in WHOLE.tolist()]
    column[3], column[5], column[7] = "NA", f" {column[5]} ", f'"{column[7]}"'
    assert llsvm.train(**_text(tmp_path / "rows.csv", column), missing="mean").converged
    with pytest.raises(DataError, match=r"column x: 'abc' is not a number.*categorical x"):
        _train_csv_beyond_its_head(tmp_path / "rows.csv", "abc")
    for last in (1.5, 2**60, 10**30):
        assert _train_csv_beyond_its_head(tmp_path / "rows.csv", last).converged


def _train_csv_beyond_its_head(path, last):
    rows = [f"{2**60 + (v << 12)},{o!r},{y}" for v, o, y in zip(WHOLE, OTHER.tolist(), Y, strict=True)]
    path.write_text("\n".join(["x,other,y", *200 * rows, f"{last},0.5,1"]) + "\n")
    return llsvm.train(str(path), label="y", tol=0.1)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_predict_reads_whole_numbers_of_text_as_train_does(tmp_path, suffix):
    column = [2**60 + (v << 12) for v in WHOLE.tolist()]
    reading = _text(tmp_path / f"rows.{suffix}", column)
    model = llsvm.train(**reading)
    found = llsvm.evaluate(model, reading["data"])
    assert found["accuracy"] > 0.9


@pytest.mark.parametrize("kind", ["vector", "list", "sparse", "jsonl"])
def test_whole_numbers_in_lists_are_told_apart_or_refused_by_name(tmp_path, kind):
    def model_of(column):
        cells = np.c_[column, WHOLE % 3]
        path = tmp_path / "rows.parquet"
        if kind == "jsonl":
            path = tmp_path / "rows.jsonl"
            path.write_text(
                "".join(f'{{"v": {row}, "y": {y}}}\n' for row, y in zip(cells.tolist(), Y, strict=True))
            )
        else:
            lists = pa.array(cells.tolist(), pa.list_(pa.int64(), 2 if kind == "vector" else -1))
            table = {"v": lists, "y": Y}
            if kind == "sparse":
                table["i"] = pa.array([[0, 1]] * N, pa.list_(pa.int32()))
            pq.write_table(pa.table(table), path)
        return llsvm.train(str(path), label="y", tol=0.1, **SCALED)

    assert model_of(2**60 + (WHOLE << 20)).converged
    with pytest.raises(DataError, match=r"column .*too near to each other for the 64-bit floats"):
        model_of(2**60 + WHOLE)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrays"])
@pytest.mark.parametrize("feature_map", ["nystroem", "rff"])
def test_feature_maps_refuse_values_that_64_bit_floats_do_not_tell_apart(tmp_path, feature_map, suffix):
    def model_of(column):
        options = {"feature_map": feature_map, "components": 20, "tol": 0.1}
        if suffix == "arrays":
            return llsvm.train(np.c_[column, WHOLE % 3], Y, **options)
        if suffix != "parquet":
            return llsvm.train(**_text(tmp_path / f"rows.{suffix}", column.tolist()), **options)
        pq.write_table(pa.table({"x": column, "other": OTHER, "y": Y}), tmp_path / "rows.parquet")
        return llsvm.train(str(tmp_path / "rows.parquet"), label="y", **options)

    with pytest.raises(DataError, match=r"column .*too near to each other for the 64-bit floats"):
        model_of(2**60 + WHOLE)
    assert model_of(WHOLE).converged
    assert model_of(np.full(N, 2**60 + 1)).converged
