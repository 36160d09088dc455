"""Model files of strangers: nothing in them is believed before it has been checked."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from oracle import rows
from typer.testing import CliRunner

import llsvm
from llsvm import train
from llsvm.cli import app
from llsvm.errors import LLSVMWarning, ModelError
from llsvm.models import model_file
from llsvm.models.model import Model


def parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=(1, 0))
    return out.getvalue()


def npy_head(shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue()


def header_of(members: dict[str, bytes]) -> dict:
    return json.loads(members["header.json"])


def changed(members: dict[str, bytes], unlisted: bool = False, **changes: object) -> dict[str, bytes]:
    """With other values in the header; unlisted: as in the first files, which do not list their arrays."""
    header = header_of(members) | changes
    if unlisted:
        del header["arrays"]
    return members | {"header.json": json.dumps(header).encode()}


def refused(path: Path, words: str = "damaged") -> None:
    with pytest.raises(ModelError, match=words) as caught:
        Model.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m"
    Model(np.ones((1, 3)), np.zeros(1), np.array([-1.0, 1.0]), extra={"fill": np.zeros(3)}).save(path)
    return path


def test_the_header_lists_every_array(saved):
    members = parts(saved)
    listed = header_of(members)["arrays"]
    assert set(listed) == {"coef", "intercept", "classes", "extra/fill"}
    assert listed["coef"] == {
        "shape": [3, 1],
        "dtype": "<f8",
        "crc32": zlib.crc32(members["coef.npy"]),
    }


@pytest.mark.parametrize("text", [b"[]", b"[1, 2]", b"7", b'"x"', b"{}", b"[" * 200_000, b'{"a":' * 100_000])
def test_a_header_that_is_none(saved, text):
    refused(pack(saved, parts(saved) | {"header.json": text}), "is not an llsvm model|damaged")


def test_a_header_nested_deeply_within(saved):
    text = parts(saved)["header.json"].rstrip()[:-1] + b',"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    refused(pack(saved, parts(saved) | {"header.json": text}))


WRONG = {
    "format_version": ["1", None, float("nan"), True, -1],
    "version": [5],
    "requires": [None, "unit_row", [1], ["unit_row"]],
    "n_weights": ["x", None, -5, 10**30, 4],
    "n_features": ["x", -1, 2, 10**12, 3.0],
    "index_base": ["a", -(10**6), 0.5, 7],
    "converged": ["yes"],
    "n_rows": [{"a": 1}],
    "certificate": [
        "x",
        {"primal": ["a"], "dual": ["b"], "passes": "c"},
        {"primal": [1], "dual": [], "passes": 1},
        {"primal": [1], "dual": [0], "passes": 1, "rounding": [1, 1]},
        {"primal": [1], "dual": [0], "passes": 1, "negligible": -1},
        {"primal": [10**400], "dual": [0], "passes": 1},
    ],
    "settings": [
        [1],
        None,
        {"label": 5},
        {"features": "abc"},
        {"C": {"a": "b"}},
        {"C": 10**400},
        {"loss": []},
        {"categorical": [[]]},
        {"encoding": 8},
        {"cross": [2]},
        {"hash_bits": 0.5},
        {"missing_label": 1},
        {"where": 1},
        {"quantile": "x"},
        {"tol": "x"},
    ],
    "history": [
        5,
        [1, 2],
        [{}],
        [{"passes": "<script>", "seconds": "x", "primal": "x", "relative_gap": "x"}],
        [{"passes": 1, "seconds": []}],
    ],
    "feature_names": [5, ["a"], [1, 2, 3]],
    "extra": [
        {"trained_on": 1},
        {"trained_on": {"n_files": 1, "n_bytes": 1, "digest": "a"}},
        {"trained_on": {"n_files": 1, "n_bytes": 1, "digest": "a", "files": [{"name": 1}]}},
        {"trained_on": {"n_files": 1, "n_bytes": 1, "digest": "a", "files": []}},
        [1],
        {"multi_class": 5},
        {"positive": {"a": 1}},
        {"table": 5},
        {"feature_map": {}},
        {"solver": []},
    ],
    "arrays": [5, {}, {"coef": 1}, {"coef": {"shape": "x", "dtype": 3, "crc32": None}}],
}


@pytest.mark.parametrize("unlisted", [False, True])
@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_a_field_of_a_wrong_type_or_size(saved, name, value, unlisted):
    if unlisted and name == "arrays":
        pytest.skip("the first files do not list their arrays")
    refused(pack(saved, changed(parts(saved), unlisted, **{name: value})))


TABLE = {
    "columns": [{"name": "a", "kind": "number", "width": 1}],
    "label": "y",
    "missing": "refuse",
    "hash_bits": None,
    "header": True,
    "categories": [],
    "largest_index": 1,
    "fill": {},
}


@pytest.mark.parametrize(
    "change",
    [
        {"columns": "abc"},
        {"columns": []},
        {"columns": [{"name": None, "kind": "number", "width": 1}]},
        {"columns": [{"name": "a", "kind": "evil", "width": 1}]},
        {"columns": [{"name": "a", "kind": "vector", "width": 10**9}]},
        {"columns": [{"name": "a", "kind": "number", "width": 1, "more": 2}]},
        {"columns": [{"name": "a", "kind": "number", "width": 10**7}]},
        {"hash_bits": 60},
        {"categories": [["a"]]},
        {"largest_index": 10**9},
        {"fill": {"a": "x"}},
    ],
)
def test_a_table_that_cannot_be(saved, change):
    good = pack(saved, changed(parts(saved), extra={"table": TABLE}))
    Model.load(good)
    refused(pack(saved, changed(parts(saved), extra={"table": TABLE | change})))


ARRAYS = {
    "huge, without data": npy_head((10**13,)),
    "huge, of no length": npy_head((10**13, 0)),
    "negative": npy_head((-1, 1)),
    "other shape": npy(np.ones((1, 3))),
    "three axes": npy(np.ones((3, 1, 1))),
    "complex": npy(np.ones((3, 1), complex)),
    "text": npy(np.array([["a"], ["b"], ["c"]])),
    "records": npy(np.zeros((3, 1), [("a", "f8")])),
    "Fortran": npy(np.asfortranarray(np.ones((3, 2)))),
    "more behind": npy(np.ones((3, 1))) + b"x",
    "cut": npy(np.ones((3, 1)))[:-1],
    "no array": b"",
}


@pytest.mark.parametrize("unlisted", [False, True])
@pytest.mark.parametrize("what", ARRAYS)
def test_an_array_that_is_not_what_it_should_be(saved, what, unlisted):
    refused(pack(saved, changed(parts(saved) | {"coef.npy": ARRAYS[what]}, unlisted)))


def test_a_bit_of_the_directory_that_would_drop_an_array(saved):
    whole = saved.read_bytes()
    place = whole.rindex(b"extra/fill.npy")
    for bit in range(8):
        for at in range(place, place + 14):
            saved.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            with pytest.raises(ModelError):
                Model.load(saved)


@pytest.mark.parametrize(
    "name", ["../../evil.npy", "extra/../x.npy", "extra/" + "x" * 60_000 + ".npy", "a.txt"]
)
def test_strange_members(saved, name):
    refused(pack(saved, parts(saved) | {name: npy(np.zeros(2))}))
    refused(pack(saved, changed(parts(saved), unlisted=True) | {name: npy(np.zeros(2))}))


def test_other_compression(saved):
    refused(pack(saved, parts(saved), zipfile.ZIP_LZMA))


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 400, "NaN", "Infinity"])
def test_a_number_that_is_none(saved, number):
    members = changed(parts(saved), settings={"tol": "here"})
    text = members["header.json"].replace(b'"here"', number.encode())
    refused(pack(saved, members | {"header.json": text}), "is no number")


LOGS = {
    "text": "{ not JSON",
    "nested": "[" * 10**6,
    "a list": "[]",
    "other types": {"log": 1},
    "no history": {"history": "x"},
    "no seconds": {"log": {"seconds": "x"}},
    "no shares": {"log": {"spent": {"read": "x"}}},
    "no clock": {"history": [{"seconds": []}]},
    "no folder": {"settings": {"spill_dir": 5}},
    "no number": {"log": {"seconds": 10**400}},
    "large": {"more": "x" * 4_000_000},
}


@pytest.mark.parametrize("what", LOGS)
def test_a_log_of_strangers_is_ignored(saved, what):
    log, content = model_file.log_path(saved), LOGS[what]
    if isinstance(content, dict):
        content = json.dumps(json.loads(log.read_text()) | content)
    log.write_text(content)
    with pytest.warns(
        LLSVMWarning, match=r"m\.log\.json: is not what llsvm writes beside a model, and is ignored"
    ):
        assert Model.load(saved).log == {}


def test_a_log_takes_the_place_of_nothing_in_the_model(saved):
    model = Model.load(saved)
    model.history, model.settings = [{"passes": 1, "primal": 2.0}], {"C": 1.0}
    model.save(saved)
    log = model_file.log_path(saved)
    more = {"history": [{"seconds": 3.0, "primal": 7.0}], "settings": {"C": 9.0, "spill_dir": "there"}}
    log.write_text(json.dumps(json.loads(log.read_text()) | more))
    loaded = Model.load(saved)
    assert loaded.history == [{"passes": 1, "primal": 2.0, "seconds": 3.0}]
    assert loaded.settings == {"C": 1.0, "spill_dir": "there"}


@pytest.mark.parametrize("command", ["inspect", "report", "predict"])
def test_a_pipe_in_the_place_of_the_log_is_not_read(saved, command, tmp_path):
    log = model_file.log_path(saved)
    log.unlink()
    os.mkfifo(log)
    (tmp_path / "rows").write_text("1 1:1\n")
    words = {"predict": [tmp_path / "rows", "--format", "svmlight"], "report": ["-o", tmp_path / "page"]}
    program = [sys.executable, "-m", "llsvm", command, saved, *words.get(command, [])]
    subprocess.run(program, check=True, capture_output=True, timeout=60)


def test_only_reports_and_inspect_read_the_log(monkeypatch, tmp_path):
    """What it says counts for nothing else."""
    saved = tmp_path / "m"
    Model(np.ones((1, 3)), np.zeros(1), np.array([-1.0, 1.0])).save(saved)

    def read_log(path, members):
        raise AssertionError("it is read")

    monkeypatch.setattr(model_file, "read_log", read_log)
    (tmp_path / "rows").write_text("1 1:1 2:1 3:1\n-1 1:-1 2:1 3:1\n")
    data = [str(tmp_path / "rows"), "--format", "svmlight"]
    for words in (
        ["predict", str(saved), *data],
        ["evaluate", str(saved), *data],
        ["export", str(saved), str(tmp_path / "other")],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    llsvm.predict(saved, np.ones((2, 3)))
    with pytest.raises(ModelError, match="no certificate"):
        llsvm.verify(saved, np.ones((2, 3)), [1, -1])


PEAK = """
import resource, sys
from llsvm.models.model import Model
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Model.load(sys.argv[1])
except Exception as error:
    print(type(error).__name__)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1000)
"""


@pytest.mark.parametrize("member", ["header.json", "coef.npy", "classes.npy"])
def test_what_unpacks_to_a_thousand_times_its_size_takes_no_memory(saved, member):
    members = parts(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            if name != member:
                archive.writestr(name, content)
        with archive.open(member, "w", force_zip64=True) as out:
            if member == "header.json":
                out.write(members[member].rstrip()[:-1] + b",")
                for _ in range(300):
                    out.write(b" " * 1_000_000)
                out.write(b'"x": 1}')
            else:
                out.write(npy_head((37_500_000, 1)))
                for _ in range(300):
                    out.write(bytes(1_000_000))
    assert saved.stat().st_size < 5_000_000
    done = subprocess.run([sys.executable, "-c", PEAK, saved], capture_output=True, text=True, check=True)
    error, megabytes = done.stdout.split()
    assert error == "ModelError"
    assert int(megabytes) < 60


def test_a_directory_of_a_million_names(saved):
    whole = saved.read_bytes()
    saved.write_bytes(whole[:-10] + (1 << 30).to_bytes(4, "little") + whole[-6:])
    refused(saved)


@pytest.fixture(scope="module", params=["kernel", "nystroem", "rff", "dense kernel"])
def mapped(request, tmp_path_factory):
    X, y = rows(n=40, d=6)
    X[X < 0] = 0
    path = tmp_path_factory.mktemp("mapped") / "m"
    if "kernel" in request.param:
        from scipy import sparse

        data = X if "dense" in request.param else sparse.csr_array(X)
        train(data, y, solver="nesvm", kernel="rbf", output=path, memory_limit="2GB")
    else:
        train(X, y, feature_map=request.param, components=8, output=path, memory_limit="2GB")
    return parts(path)


def remade(path: Path, members: dict[str, bytes], **arrays: np.ndarray) -> Path:
    """With other arrays, and a header that agrees."""
    header = header_of(members)
    for name, array in arrays.items():
        members = members | {f"extra/{name}.npy": npy(array)}
        header["arrays"][f"extra/{name}"] = {
            "shape": list(array.shape),
            "dtype": array.dtype.str,
            "crc32": zlib.crc32(members[f"extra/{name}.npy"]),
        }
    return pack(path, members | {"header.json": json.dumps(header).encode()})


def array(members: dict[str, bytes], name: str) -> np.ndarray:
    return np.load(io.BytesIO(members[f"extra/{name}.npy"]))


def test_landmarks_that_lead_outside(mapped, tmp_path):
    path = tmp_path / "m"
    Model.load(pack(path, mapped))
    if "extra/landmarks_indices.npy" in mapped:
        indices, indptr = array(mapped, "landmarks_indices"), array(mapped, "landmarks_indptr")
        for index in (2**31 - 1, 10**6, 6, -1, -(2**31)):
            wrong = indices.copy()
            wrong[-1] = index
            refused(remade(path, mapped, landmarks_indices=wrong))
        for at, value in ((-1, 10**12), (0, -(10**9)), (1, int(indptr[-1]) + 50)):
            wrong = indptr.copy()
            wrong[at] = value
            refused(remade(path, mapped, landmarks_indptr=wrong))
        refused(remade(path, mapped, landmarks_indptr=indptr.astype(float)))
        refused(remade(path, mapped, landmarks_indptr=indptr[:0]))
        refused(remade(path, mapped, landmarks_data=array(mapped, "landmarks_data")[:3]))
    else:
        refused(remade(path, mapped, landmarks=array(mapped, "landmarks")[:, :2]))
        refused(remade(path, mapped, landmarks=array(mapped, "landmarks")[:2]))
    if "extra/projection.npy" in mapped:
        refused(remade(path, mapped, projection=np.zeros((2, 2))))


@pytest.mark.parametrize(
    "change",
    [
        {"n_features": 0},
        {"n_features": -5},
        {"n_features": 10**12},
        {"n_features": "x"},
        {"base": -(10**7)},
        {"kernel": "evil"},
        {"kind": "evil"},
        {"gamma": None},
        {"degree": 10**9},
    ],
)
def test_a_feature_map_that_cannot_be(mapped, tmp_path, change):
    extra = header_of(mapped)["extra"]
    extra["feature_map"] |= change
    refused(pack(tmp_path / "m", changed(mapped, extra=extra)))


def test_a_log_that_cannot_be_written_is_no_failure_of_the_model(saved):
    log = model_file.log_path(saved)
    log.unlink()
    log.mkdir()
    with pytest.warns(LLSVMWarning, match=r"m\.log\.json: cannot be written.*the model itself is written"):
        Model(np.full((1, 3), 7.0), np.zeros(1), np.array([0, 1])).save(saved)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Model.load(saved).coef_.tolist() == [[7.0, 7.0, 7.0]]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_categories_that_compress_a_thousand_times_can_be_read(tmp_path, suffix):
    words = [letter * 50_000 for letter in "abcdefghijklmnopqrstuvwxyz"]
    table = pa.table({"word": words * 2, "y": [i % 2 for i in range(len(words))] * 2})
    data, model = tmp_path / f"rows.{suffix}", tmp_path / "model"
    if suffix == "csv":
        pacsv.write_csv(table, data)
    else:
        pq.write_table(table, data)
    llsvm.train(str(data), label="y", output=str(model))
    assert len(parts(model)["header.json"]) > 1_200_000
    assert llsvm.evaluate(str(model), str(data))["accuracy"] == 1.0
    assert len(list(llsvm.predict(str(model), str(data)))) == len(table)
    assert llsvm.verify(str(model), str(data))["holds"]
