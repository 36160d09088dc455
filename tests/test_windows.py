"""What decompressors hold is read from the compressed data and signed for."""

import io
import lzma
import os
import shutil
import subprocess
import zlib

import numpy as np
import pytest

from llsvm.data import open_source
from llsvm.errors import BudgetError, DataError
from llsvm.files.decoding import ZstdFrames, declared_window, xz_text_bytes
from llsvm.files.inputs import Input

TEXT = b"".join(b"%d 1:%d.5 7:2\n" % (i % 2, i) for i in range(20_000))


def xz(text, size, check=lzma.CHECK_CRC64):
    filters = [{"id": lzma.FILTER_DELTA, "dist": 1}, {"id": lzma.FILTER_LZMA2, "dict_size": size}]
    return lzma.compress(text, lzma.FORMAT_XZ, check, filters=filters[-1 if size % 3 else 0 :])


def zstd(text, *options):
    if shutil.which("zstd") is None:
        pytest.skip("no zstd program here")
    return subprocess.run(["zstd", "-c", "-q", *options], input=text, capture_output=True, check=True).stdout


@pytest.mark.parametrize("size", [1 << 12, 3 << 16, 1 << 23, 1 << 30])
def test_the_dictionary_of_xz(size):
    assert declared_window("xz", xz(b"", size)[:64]) == 0  # no block
    assert declared_window("xz", xz(TEXT, size)[:64]) == size


@pytest.mark.parametrize("log", [12, 17, 23, 27])
@pytest.mark.parametrize("step", [1, 7, 5000, 10**9])
def test_the_windows_of_zstd_frames(log, step):
    parts = [
        zstd(TEXT, "--long=17"),
        b"\x53\x2a\x4d\x18\x03\x00\x00\x00abc",
        zstd(TEXT, f"--zstd=wlog={log}"),
    ]
    data, frames = b"".join(parts), ZstdFrames()
    for at in range(0, len(data), step):
        frames.feed(data[at : at + step])
    assert frames.largest - 400_000 == max(1 << 17, 1 << log)


def test_a_frame_that_says_how_little_it_holds(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(TEXT)
    zstd(TEXT)  # or skip
    data = subprocess.run(
        ["zstd", "-c", "-q", "--ultra", "-22", path], capture_output=True, check=True
    ).stdout
    frames = ZstdFrames()
    frames.feed(data)
    assert frames.largest <= len(TEXT) + 400_000


@pytest.mark.parametrize("padding", [0, 4, 20_000])
def test_streams_of_xz_one_after_the_other(tmp_path, padding):
    path = tmp_path / "rows.svm.xz"
    path.write_bytes(xz(TEXT, 1 << 16) + bytes(padding) + xz(TEXT, 1 << 16) + bytes(padding))
    with Input(str(path)) as stream:
        assert io.BufferedReader(stream).read() == 2 * TEXT
        assert stream.window_bytes == 1 << 16


@pytest.mark.parametrize("padding", [0, 4, 400])
def test_no_more_is_held_of_a_dictionary_than_there_is_text(tmp_path, padding):
    path = tmp_path / "rows.svm.xz"
    data = xz(TEXT, 1 << 26) + bytes(padding) + lzma.compress(b"") + xz(TEXT, 1 << 26) + bytes(padding)
    path.write_bytes(data)
    with Input(str(path)) as stream:
        assert stream.window_bytes == 2 * len(TEXT)
        assert io.BufferedReader(stream).read() == 2 * TEXT
    path.write_bytes(b"junk" + data)
    assert text_bytes(path) is None
    path.write_bytes(data[: -20 - padding])
    assert text_bytes(path) is None
    with Input(str(path)) as stream:
        assert stream.window_bytes == 1 << 26


def text_bytes(path):
    with open(path, "rb") as file:
        return xz_text_bytes(file.fileno())


def test_an_index_that_tells_of_less_text_than_there_is_is_damage(tmp_path):
    path = tmp_path / "rows.svm.xz"
    data, at = xz(TEXT, 1 << 26), 0
    footer = data[-12:]
    index = bytearray(data[-12 - 4 * (int.from_bytes(footer[4:8], "little") + 1) : -12])
    while index[at : at + 3] != bytes(
        [len(TEXT) & 0x7F | 0x80, len(TEXT) >> 7 & 0x7F | 0x80, len(TEXT) >> 14]
    ):
        at += 1
    index[at + 2] = 1
    index[-4:] = zlib.crc32(index[:-4]).to_bytes(4, "little")
    path.write_bytes(data[: -12 - len(index)] + index + footer)
    assert text_bytes(path) < len(TEXT)
    with pytest.raises(DataError, match="more text than its index says"):
        list(open_source(path).blocks(1 << 20))


def test_a_pipe_has_no_index():
    reading, writing = os.pipe()
    try:
        assert xz_text_bytes(reading) is None
    finally:
        os.close(reading)
        os.close(writing)


def test_a_later_block_may_not_hold_more_than_the_first_declared(tmp_path):
    path = tmp_path / "rows.svm.xz"
    path.write_bytes(xz(TEXT, 1 << 16) + xz(TEXT, 1 << 26))
    with pytest.raises(DataError, match="Memory usage limit exceeded"):
        list(open_source(path).blocks(1 << 20))


def test_a_zstd_window_that_cannot_be_read_is_no_damage(tmp_path):
    path = tmp_path / "rows.svm.zst"
    data = bytearray(zstd(TEXT))
    data[5] = 31 - 10 << 3  # as of --long=31
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"would hold 2,147 MB of text; .* window of 128 MiB"):
        list(open_source(path).blocks(1 << 20))


@pytest.mark.parametrize("kind", ["xz", "zst"])
def test_a_window_larger_than_the_limit_is_refused_with_the_number(tmp_path, kind):
    from oracle import run

    path = tmp_path / f"rows.svm.{kind}"
    size = 1 << 27
    padding = bytes(8000)  # too much to look for an index behind it
    path.write_bytes(xz(TEXT, size) + padding if kind == "xz" else zstd(TEXT, "--zstd=wlog=27"))
    with pytest.raises(BudgetError) as caught:
        run(path, ledger=100_000_000)
    assert caught.value.smallest_bytes > size
    assert np.isfinite(run(path, ledger=caught.value.smallest_bytes + 40_000_000, max_passes=2).coef).all()
