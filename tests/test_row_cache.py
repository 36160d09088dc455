"""Copies of parsed files in a state: what is known is not parsed again, and a damaged copy does no harm."""

import os
from itertools import pairwise

import numpy as np
import pytest
from oracle import rows, write_svmlight

import llsvm
from llsvm.data.svmlight import SvmlightSource
from llsvm.errors import LLSVMWarning, UsageError
from llsvm.state import row_cache
from llsvm.state.folder import StateFolder
from llsvm.state.row_cache import RowCache

X, Y = rows(n=900, d=10, noise=1.0)
X[::3, ::2] = 0.0
CUTS = (0, 400, 700, 900)


@pytest.fixture
def files(tmp_path):
    return [write_svmlight(tmp_path / f"{i}.svm", X[a:b], Y[a:b]) for i, (a, b) in enumerate(pairwise(CUTS))]


@pytest.fixture
def parsed(monkeypatch):
    """The files whose text is parsed, in order."""
    found, parse = [], SvmlightSource.parse
    monkeypatch.setattr(
        SvmlightSource, "parse", lambda self, n: found.append(os.path.basename(self.path)) or parse(self, n)
    )
    return found


def train(files, tmp_path, state="S", **options):
    return llsvm.train(
        [str(file) for file in files],
        output=tmp_path / "m",
        state=tmp_path / state,
        solver="llsvm",
        threads=1,
        memory_limit="2GB",
        **{"keep_cache": True, **options},
    )


def copies(tmp_path, state="S"):
    return sorted((tmp_path / state).glob("rows-*"))


def test_only_what_is_new_is_parsed(files, parsed, tmp_path):
    train(files[:2], tmp_path)
    assert parsed == ["0.svm", "1.svm"]
    assert len(copies(tmp_path)) == 2
    parsed.clear()
    files[0] = files[0].rename(tmp_path / "another.svm")
    model = train(files, tmp_path)
    assert parsed == ["2.svm"]
    scratch = train(files, tmp_path, "another", keep_cache=False)
    assert model.converged
    assert model.certificate.relative_gap <= 1e-3
    found = llsvm.verify(tmp_path / "m", [str(file) for file in files], state=tmp_path / "another")
    assert found["differences"] == []
    assert scratch.n_rows == model.n_rows == 900
    train(files[1:], tmp_path)
    assert len(copies(tmp_path)) == 2  # that of a file which is gone is removed


def test_rows_are_the_same_bit_for_bit(files, parsed, tmp_path):
    text = train(files, tmp_path, "A", **{"keep_cache": False, "C": 2.0})
    train(files, tmp_path, "B")
    parsed.clear()
    copied = train(files, tmp_path, "B", C=2.0, fresh=True)
    assert parsed == []
    np.testing.assert_array_equal(copied.coef_, text.coef_)
    assert copied.extra["trained_on"] == text.extra["trained_on"]


def test_a_file_that_was_changed_is_parsed(files, parsed, tmp_path):
    train(files[:2], tmp_path)
    status = os.stat(files[0])
    text = files[0].read_bytes()
    files[0].write_bytes((b"0" if text[:1] == b"1" else b"1") + text[1:])
    os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))  # it cannot be told but by its text
    parsed.clear()
    train(files[:2], tmp_path)
    assert parsed == ["0.svm"]


@pytest.mark.parametrize("where", [40, 0.2, 0.6, -30, None])
def test_a_damaged_copy_is_thrown_away(where, files, parsed, tmp_path, monkeypatch):
    monkeypatch.setattr(row_cache, "PIECE_BYTES", 8000)
    whole = train(files[:1], tmp_path, "A", keep_cache=False)
    train(files[:1], tmp_path)
    (copy,) = copies(tmp_path)
    data = bytearray(copy.read_bytes())
    if where is None:
        copy.write_bytes(data[: len(data) // 2])
    else:
        data[int(where * len(data)) if isinstance(where, float) else where] ^= 0x40
        copy.write_bytes(data)
    parsed.clear()
    with pytest.warns(LLSVMWarning, match="this copy of a file is removed, and the text parsed"):
        model = train(files[:1], tmp_path, fresh=True)
    assert parsed == ["0.svm"]
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    train(files[:1], tmp_path, fresh=True)  # it is copied again
    parsed.clear()
    train(files[:1], tmp_path, fresh=True)
    assert parsed == []


def test_they_count_under_the_disk_limit(files, tmp_path):
    with pytest.warns(LLSVMWarning, match="no copies of parsed files are kept: disk limit too small"):
        assert train(files[:1], tmp_path, disk_limit="1KB").converged
    assert copies(tmp_path) == []


def test_blocks_are_no_larger_than_asked_for(files, tmp_path):
    with StateFolder(tmp_path / "S") as folder:
        for _ in range(2):
            cache = RowCache(folder)
            source = SvmlightSource(files[0])
            source.info().parsing[0].copies = cache
            blocks = list(source.blocks(4000))
            assert max(block.nbytes for block in blocks) <= 4000 + 200
            assert np.concatenate([block.rows for block in blocks]).tolist() == list(range(400))
            np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), Y[:400])
            assert source.info().n_rows == 400
        assert cache.copied == {str(files[0])}


def test_without_a_state_it_is_refused(files, tmp_path):
    with pytest.raises(UsageError, match="keep_cache keeps copies with a state"):
        llsvm.train(str(files[0]), keep_cache=True)
