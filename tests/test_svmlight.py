"""The svmlight reader: what it accepts, what it refuses and where, however it is run."""

import bz2
import lzma
import os
import re
import stat
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file
from slow_svmlight import Refused, slow_parse
from source_suite import PLENTY, SourceSuite, assert_same, joined

from llsvm.block import CSR, concat
from llsvm.data import open_source
from llsvm.data.svmlight import SvmlightSource
from llsvm.errors import DataError, LongRowError, UsageError
from llsvm.files.inputs import refuse_other_kinds
from llsvm.kernels.parse import parse

SAMPLE = b"""# a header
1 1:0.5 3:-2 7:1e-3
-1 qid:4 2:.5

+1 # label only
-1.0\t4:5. 5:0 2147483647:+1\r
1 1:0.1234567 2:12345678.12345678 3:0.12345678901234567 4:123456789012345678901234567890
"""


def write(folder, text, name="train.svm"):
    path = folder / name
    path.write_bytes(text)
    return path


def read(folder, text, **options):
    """[(label, indices, values), ...] of a text, read as one block."""
    return rows_of(SvmlightSource(write(folder, text), **options))


def rows_of(source, max_bytes=PLENTY):
    whole = concat(list(source.blocks(max_bytes)))
    X = whole.X
    return [
        (whole.y[i], X.indices[X.indptr[i] : X.indptr[i + 1]].tolist(), X.data[X.indptr[i] : X.indptr[i + 1]])
        for i in range(whole.n_rows)
    ]


def assert_rows_equal(ours, slow):
    """Labels and indices exactly, values to one float32 ulp."""
    assert len(ours) == len(slow)
    for (label, indices, values), (slow_label, slow_indices, slow_values) in zip(ours, slow, strict=True):
        assert label == pytest.approx(slow_label, rel=1e-15, abs=1e-300)
        assert indices == slow_indices
        np.testing.assert_array_max_ulp(values, np.array(slow_values, np.float32), 1)


def refusal(folder, text, **options):
    with pytest.raises(DataError) as error:
        read(folder, text, **options)
    return str(error.value).removeprefix(str(folder) + os.sep)


class TestOneThread(SourceSuite):
    threads = 1

    def make_source(self, tmp_path):
        return SvmlightSource(write(tmp_path, SAMPLE * 30), threads=self.threads)


class TestThreads(TestOneThread):
    threads = 3

    def test_blocks_do_not_depend_on_the_threads(self, source, tmp_path):
        one = SvmlightSource(tmp_path / "train.svm", threads=1)
        for max_bytes in self.max_bytes:
            ours = [block.n_rows for block in source.blocks(max_bytes)]
            assert ours == [block.n_rows for block in one.blocks(max_bytes)]

    def test_a_buffer_is_not_reused_before_it_is_parsed(self, tmp_path, monkeypatch):
        def slowly(*args):
            time.sleep(0.001)
            return parse(*args)

        labels = np.arange(600.0)
        source = SvmlightSource(write(tmp_path, b"".join(b"%d\n" % v for v in labels)), threads=self.threads)
        monkeypatch.setattr("llsvm.data.svmlight.parse", slowly)
        for max_bytes in (100, 400, 1600):
            np.testing.assert_array_equal(joined(source, max_bytes)[3], labels)

    def test_an_abandoned_pass_leaves_no_thread(self, source):
        blocks = source.blocks(100)
        next(blocks)
        blocks.close()
        assert not [t for t in threading.enumerate() if t.name.startswith("llsvm-parse")]


# --- what is accepted ---------------------------------------------------------------------------------------


def test_sample(tmp_path):
    rows = read(tmp_path, SAMPLE)
    assert [row[0] for row in rows] == [1, -1, 1, -1, 1]
    assert rows[3][1] == [4, 5, 2147483647]
    assert_rows_equal(rows, slow_parse(SAMPLE))


@pytest.mark.parametrize(
    "text",
    [
        b"1 1:1",
        b"1",
        b"1\r\n-1 2:3\r\n",
        b"  1\t1:1  2:2\t\n",
        b"\n\n#c\n1 1:1 #c 2:2\n",
        b"1 1:1#c\n2#c\n",
        b"1 qid:3 1:1\n1 qid:12345678901\n",
        b"-1.5e-3 1:1\n.5 1:1\n5. 1:1\n+1E2 1:1\n",
        b"1 00000000001:1 0002:2\n",
        b"\xef\xbb\xbf1 1:1\n",
        b"1 1:1 # \x00\xff any bytes\n",
        b"# only a comment\n" * 50 + b"1 1:1",
        b"1 1234567:1 12345678:2 123456789:3 2147483647:4\n",
    ],
)
def test_accepts(tmp_path, text):
    assert_rows_equal(read(tmp_path, text), slow_parse(text))


def test_values_are_right_to_one_ulp(tmp_path):
    rng = np.random.default_rng(0)
    numbers = np.exp(rng.uniform(-100, 88, 4000)) * rng.choice([-1, 1], 4000)
    tokens = [f"{v:{f}}" for v in numbers for f in (".3g", ".9g", ".17g", ".20e", "f", ".25f")]
    tokens += [
        "0",
        "-0",
        "0.0",
        ".0",
        "0.",
        "0e999999999999999999",
        "1e-999999999999999999",
        "1e-45",
        "3.4028235e38",
    ]
    tokens += ["1.17549435e-38", "0." + "0" * 400 + "1e400", "1" + "0" * 400 + "e-400", "9" * 30 + "e-20"]
    tokens += [
        "1e+5",
        "1E-05",
        "16777217",
        "0.99999999999999999999",
        "1" * 19,
        "1" * 20,
        "9" * 8,
        "9" * 7 + "." + "9" * 12,
    ]
    tokens += ["9" * whole + "." + "9" * decimals for whole in range(1, 10) for decimals in range(7, 25)]
    text = b"".join(b"1 1:%s\n" % token.encode() for token in tokens)
    ours = np.concatenate([values for _, _, values in read(tmp_path, text)])
    with np.errstate(under="ignore"):
        np.testing.assert_array_max_ulp(ours, np.array([np.float32(float(t)) for t in tokens]), 1)


def test_numbers_that_are_short_are_exact(tmp_path):
    tokens = [f"{i / 1000:.{d}f}" for i in range(-1100, 1100, 7) for d in (3, 6, 9)]
    text = b"".join(b"%s 1:%s\n" % (t.encode(), t.encode()) for t in tokens)
    rows = read(tmp_path, text)
    assert [label for label, _, _ in rows] == [float(t) for t in tokens]
    assert [values[0] for _, _, values in rows] == [np.float32(float(t)) for t in tokens]


def test_float64_are_exact_at_any_size(tmp_path):
    """The parser keeps the last digit: a column's values may differ in nothing else."""
    rng = np.random.default_rng(1)
    numbers = (
        rng.choice([-1.0, 1.0], 20_000) * rng.uniform(1, 2, 20_000) * 2.0 ** rng.integers(-1000, 1000, 20_000)
    )
    tokens = [f"{v:{f}}" for v in numbers.tolist() for f in (".17g", ".15e", ".3g")]
    rows = read(tmp_path, b"".join(b"%s 1:1\n" % token.encode() for token in tokens))
    assert [label for label, _, _ in rows] == [float(token) for token in tokens]


def test_pairs_of_every_length(tmp_path):
    """The parser looks for a pair's end in its first 16 bytes, and has ways of its own for short numbers."""
    wholes, decimals = ("0", "7", "30", ""), [".", *(f".{'123456789012'[:n]}" for n in range(1, 13)), ""]
    numbers = [
        f"{sign}{w}{d}" for sign in ("", "-") for w in wholes for d in decimals if w + d not in ("", ".")
    ]
    indices = [int("1234567890"[:n]) for n in range(1, 11)]
    pairs = [f"{i}:{v}" for i in indices for v in numbers]
    assert {len(pair) for pair in pairs} > set(range(3, 21))
    text = "".join(
        f"1 {pair}{end}" for pair in pairs for end in ("\n", " \n", "\t\n", "#c\n", " 2147483647:1\n")
    )
    assert_rows_equal(read(tmp_path, text.encode()), slow_parse(text.encode()))


def test_a_line_longer_than_any_block(tmp_path):
    line = b"1 " + b" ".join(b"%d:1" % j for j in range(1, 5000)) + b"\n"
    source = SvmlightSource(write(tmp_path, line * 3))
    assert [block.nnz for block in source.blocks(100)] == [4999] * 3


@pytest.mark.parametrize(
    ("zero_based", "text", "base", "n_features"),
    [
        ("auto", b"1 1:1 5:1\n", 1, 5),
        ("auto", b"1 1:1 5:1\n1 0:1\n", 0, 6),
        ("yes", b"1 1:1 5:1\n", 0, 6),
        ("no", b"1 1:1 5:1\n", 1, 5),
        ("auto", b"1\n", 1, 0),
    ],
)
def test_index_base(tmp_path, zero_based, text, base, n_features):
    source = SvmlightSource(write(tmp_path, text), zero_based)
    before = source.info()
    assert before.index_base == (None if zero_based == "auto" else base)
    assert (before.n_rows, before.n_features) == (None, None)
    assert before.n_bytes == len(text)
    list(source.blocks(PLENTY))
    after = source.info()
    assert (after.index_base, after.n_features, after.n_rows) == (base, n_features, text.count(b"\n"))


def test_open_source_takes_paths(tmp_path):
    path = write(tmp_path, SAMPLE)
    assert_same(joined(open_source(path)), joined(open_source(str(path), format="svmlight", threads=2)))


def test_comments_do_not_blow_up_blocks(tmp_path):
    source = SvmlightSource(write(tmp_path, b"1 1:1 # a:b:c:d:e:f:g:h\n\n#:::::\n" * 100))
    for block in source.blocks(PLENTY):
        assert len(block.X.data) == len(block.X.indices) == 100


PEAK = """
import sys
from collections import deque
from llsvm.data.svmlight import SvmlightSource

def peak_bytes():
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

small, large, threads, max_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
list(SvmlightSource(small, threads=threads).blocks(max_bytes))
before = peak_bytes()
deque(SvmlightSource(large, threads=threads).blocks(max_bytes), maxlen=0)  # keeps none in hand
sys.exit(peak_bytes() - before > 5 * max_bytes + (4 << 20))
"""


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("row", [b"1\n", b"1 1:1 2:1\n", b"-1 17:0.123 512:0.5 4096:0.25\n"])
def test_holds_at_most_five_blocks(tmp_path, row, threads):
    """All rows together are eight blocks, which no one holds."""
    small = write(tmp_path, row, "small.svm")
    large = write(tmp_path, row * (48_000_000 // (12 + 8 * row.count(b":"))), "large.svm")
    command = [sys.executable, "-c", PEAK, small, large, str(threads), str(6 << 20)]
    assert subprocess.run(command, check=False).returncode == 0


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"1 3:1 2:1", r"index 2 after 3, but indices must ascend; sort"),
        (b"1 2:1 2:1", r"index 2 is repeated; add up"),
        (b"1 -2:1", r"negative index '-2'"),
        (b"1 2147483648:1", r"index '2147483648' is too large; the largest is 2147483647"),
        (b"1 " + b"9" * 5000 + b":1", r"is too large"),
        (b"1 x:1", r"index 'x' is not a whole number"),
        (b"1 1.5:1", r"index '1.5' is not a whole number"),
        (b"1 :1", r"index '' is not a whole number"),
        (b"1 1 2:1", r"'1' has no colon"),
        (b"1 1 : 2", r"'1' has no colon"),
        (b"1 1: 2", r"'1:' has no value"),
        (b"1 1: .5", r"'1:' has no value"),
        (b"1 1:- .5", r"'1:-': the value is not a number"),
        (b"1 1:x", r"'1:x': the value is not a number"),
        (b"1 1:1_0", r"not a number"),
        (b"1 1:1x", r"not a number"),
        (b"1 1:0.5x", r"not a number"),
        (b"1 1:0x1p3", r"not a number"),
        (b"1 1:.", r"not a number"),
        (b"1 1:-", r"not a number"),
        (b"1 1:--1", r"not a number"),
        (b"1 1:1e", r"not a number"),
        (b"1 1:1.2.3", r"not a number"),
        (b"1 1:1,5", r"not a number"),
        (b"1 1:nan", r"not finite"),
        (b"1 1:-inf", r"not finite"),
        (b"1 1:1e39", r"'1:1e39': the value is too large for a 32-bit float; scale"),
        (b"1 1:1e999999999999999999999", r"too large"),
        (b"1 1:" + b"9" * 400, r"too large"),
        (b"1 0:1:0.5", r"'0:1:0.5' has two colons; fields \(libffm's"),
        (b"1 1:2:", r"two colons"),
        (b"1 qid:x 1:1", r"qid must be a whole number"),
        (b"1 1:1 qid:3", r"qid must be a whole number and stand right after the label"),
        (b"1,3 1:1", r"label '1,3': several labels on one row; .* one file for each label"),
        (b"- 1:1", r"label '-' is not a number, .*; write all labels as numbers, such as -1 and 1"),
        (b"nan 1:1", r"label 'nan' is not finite"),
        (b"-Infinity 1:1", r"not finite"),
        (b"1e999 1:1", r"too large for a 64-bit float"),
        (b"1 |f a:1", r"'\|f' is no feature; is this Vowpal Wabbit text\? Then pass (--)?format vw"),
        (b'{"a":1}', r"starts with .*; is this JSON, an object a line\? Then pass (--)?format jsonl"),
        (b"3:1", r"the label is missing: the line starts with '3:1'"),
        (b"1\x001:1", r"control bytes: this looks like a binary file"),
        (b"\xd9\xa1 1:1", r"is not a number"),
        (b"1 \xd9\xa1:1", r"is not a whole number"),
        (b"1 1:1\x0b2:2", r"control bytes"),
        (b"1 1:" + b"x" * 500, r"\.\.\.': the value is not a number"),
    ],
)
@pytest.mark.parametrize(("before", "number"), [(b"", 1), (b"#c\n\r\n1 1:1\r\n\n-1 2:0.5 # c\n", 6)])
def test_refuses(tmp_path, line, said, before, number):
    for after in (b"\n", b"\r\n", b"\n1 1:1\n", b" # 1:1\n1 2:2\n"):
        message = refusal(tmp_path, before + line + after)
        assert re.match(f"train.svm:{number}: ", message)
        assert re.search(said, message)
        assert len(message) < 250


def test_refuses_index_0(tmp_path):
    message = refusal(tmp_path, b"1 1:1\n1 0:1\n", zero_based="no")
    assert message == "train.svm:2: index 0, but indices start at 1 (pass zero_based yes)"


@pytest.mark.parametrize("text", [b"1 1:1\n1 3:", b"1 1:1\n1 3", b"1 1:1\n-"])
def test_refuses_a_last_row_that_is_cut_off(tmp_path, text):
    message = refusal(tmp_path, text)
    assert message.startswith("train.svm:2: ")
    assert "it may be cut off" in message
    assert "cut off" not in refusal(tmp_path, text + b"\n")


def test_refuses_an_empty_file(tmp_path):
    assert "the file is empty" in refusal(tmp_path, b"")
    assert "no rows, only blank lines and comments" in refusal(tmp_path, b"\n# nothing\n \n")


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\x1f\x8b", "gzip"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"PAR1\x15", "Parquet"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
    ],
)
def test_names_other_formats(tmp_path, head, said):
    assert said in refusal(tmp_path, head + bytes(100))


def test_refuses_binary_rubbish_without_reading_it_all(tmp_path):
    path = write(tmp_path, b"1 1:1\n" + bytes(50_000))
    for threads in (1, 2):
        with pytest.raises(DataError, match=r"train.svm:2: control bytes"):
            list(SvmlightSource(path, threads=threads).blocks(100))


def test_refuses_a_line_without_end(tmp_path):
    path = write(tmp_path, b"1 1:1\n1" + b" 1:1" * (5 << 18) + b"\n")
    for threads in (1, 2):
        with pytest.raises(
            LongRowError, match=r"train.svm:2: a line of 5,242,882 bytes.*memory_limit"
        ) as caught:
            list(SvmlightSource(path, threads=threads).blocks(1000))
        assert caught.value.row_bytes == 5_242_882


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "long",
    [
        b"# " + b"c" * (5 << 20) + b"\n",
        b" " * (5 << 20) + b"\n",
        b" \t\r" * (1 << 20),
        b"1 1:1" + b" " * (5 << 20) + b"2:1 # " + b"3:1 " * (1 << 20) + b"#\n",
        b"1 1:1 2:1 #" + b"c" * (5 << 20),
    ],
    ids=["comment", "blanks", "blanks at the end", "a row with both", "cut off"],
)
def test_blanks_and_comments_of_any_length_are_skipped(tmp_path, long, threads):
    before = b"1 1:1 3:1\n" * 100
    after = b"-1 1:2 7:1\n" * 100 if long.endswith(b"\n") else b""
    is_row = long.startswith(b"1")
    path = write(tmp_path, before + long + after)
    source = SvmlightSource(path, threads=threads)
    tracemalloc.start()
    try:
        found = list(source.blocks(1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert sum(block.n_rows for block in found) == 100 + is_row + 100 * bool(after)
    if is_row:
        assert any(block.X.indices[block.X.indptr[-2] :].tolist() == [1, 2] for block in found)
    if after:
        wrong = write(tmp_path, before + long + after + b"1 x\n", "wrong.svm")
        with pytest.raises(DataError, match=r"wrong\.svm:202: "):
            list(SvmlightSource(wrong, threads=threads).blocks(1000))


def test_refuses_what_is_not_a_file(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        SvmlightSource(tmp_path / "missing.svm")
    with pytest.raises(DataError, match="not a regular file; name a file in it"):
        SvmlightSource(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a regular file"):
        SvmlightSource(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_refuses_what_may_not_be_read(tmp_path):
    path = write(tmp_path, SAMPLE)
    path.chmod(stat.S_IWUSR)
    with pytest.raises(DataError, match="Permission denied"):
        SvmlightSource(path)


@pytest.mark.parametrize("change", ["append", "truncate", "touch", "delete"])
@pytest.mark.parametrize("during", [False, True])
def test_refuses_a_file_that_changes(tmp_path, change, during):
    path = write(tmp_path, SAMPLE * 10)
    source = SvmlightSource(path)
    blocks = source.blocks(200)
    if during:
        next(blocks)
    if change == "append":
        path.write_bytes(SAMPLE * 11)
    elif change == "truncate":
        os.truncate(path, 1000)
    elif change == "touch":
        os.utime(path, (1, 1))
    else:
        path.unlink()
    gone = change == "delete" and not during
    with pytest.raises(DataError, match="No such file" if gone else "the file changed while it was in use"):
        list(blocks)


def test_refuses_unknown_options(tmp_path):
    path = write(tmp_path, SAMPLE)
    with pytest.raises(UsageError, match="zero_based"):
        SvmlightSource(path, zero_based=True)
    with pytest.raises(UsageError, match="threads"):
        SvmlightSource(path, threads=0)
    with pytest.raises(UsageError, match="unknown format 'parkett'; known are"):
        open_source(path, format="parkett")
    with pytest.raises(UsageError, match="go with arrays"):
        open_source(path, y=[1])


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("max_bytes", [50, 500, 5000, PLENTY])
def test_the_first_bad_line_is_named_and_rows_before_it_come_out(tmp_path, threads, max_bytes):
    good = b"1 1:1 2:0.25\n\n# c\r\n-1 3:1\r\n" * 50
    path = write(tmp_path, good + b"1 1:\n" + good + b"1 2\n" + bytes(5000))
    before = []
    with pytest.raises(DataError, match=r"train\.svm:201: "):
        before.extend(SvmlightSource(path, threads=threads).blocks(max_bytes))
    n_rows = sum(block.n_rows for block in before)
    assert n_rows <= 100
    assert max_bytes > 1000 or n_rows > 80


# --- real files that break parsers --------------------------------------------------------------------------

TORTURE_ACCEPTED = {
    "a4a_padded123.train.xz": (4781, 123, 1),
    "a9a.t_labels01_noeol.xz": (16281, 122, 1),
    "abalone.trn.bz2": (4177, 8, 1),
    "adult_zero_based.trn.bz2": (32561, 123, 0),
    "heart_scale": (270, 13, 1),
    "mq2008_qid_comments.txt.xz": (2707, 46, 1),
    "phishing_crlf.txt.xz": (11055, 68, 1),
    "svmlight_classification.txt": (6, 21, 1),
}
TORTURE_REFUSED = {
    "libffm_bigdata.tr.txt": (1, "'0:0:0.3651' has two colons"),
    "lightgbm_binary_tsv.train.xz": (1, "'0.869' has no colon"),
    "svmlight_invalid_order.txt": (1, "index 2 after 5"),
    "svmlight_multilabel.txt": (2, "label '1,0': several labels"),
    "yeast_multilabel.svm.xz": (1, "label '2,3': several labels"),
}


def unpacked(data_dir, name, folder):
    unpack = {".xz": lzma.decompress, ".bz2": bz2.decompress}.get(os.path.splitext(name)[1], bytes)
    return write(folder, unpack((data_dir / "torture" / name).read_bytes()))


TORTURE_WORDS = {"svmlight_invalid.txt": ["python", "2.0", "3.0"]}


@pytest.mark.parametrize("name", TORTURE_WORDS)
def test_torture_labels_that_are_words(data_dir, tmp_path, name):
    source = SvmlightSource(unpacked(data_dir, name, tmp_path))
    assert joined(source)[3].tolist() == TORTURE_WORDS[name]
    assert any("all are taken for text" in note for note in source.info().notes)


def test_every_torture_file_has_its_expectation(data_dir):
    names = {path.name for path in (data_dir / "torture").iterdir()}
    assert names == TORTURE_ACCEPTED.keys() | TORTURE_REFUSED.keys() | TORTURE_WORDS.keys()


@pytest.mark.parametrize("name", TORTURE_ACCEPTED)
def test_torture_accepted(data_dir, tmp_path, name):
    path = unpacked(data_dir, name, tmp_path)
    source = SvmlightSource(path, threads=2)
    lengths, indices, data, y, _, _ = joined(source, 100_000)
    info = source.info()
    assert (info.n_rows, info.n_features, info.index_base) == TORTURE_ACCEPTED[name]
    X, sklearn_y = load_svmlight_file(str(path), zero_based="auto")
    np.testing.assert_array_equal(y, sklearn_y)
    np.testing.assert_array_equal(lengths, np.diff(X.indptr))
    np.testing.assert_array_equal(indices - info.index_base, X.indices)
    np.testing.assert_array_max_ulp(data, X.data.astype(np.float32), 1)


@pytest.mark.parametrize("name", TORTURE_REFUSED)
def test_torture_refused(data_dir, tmp_path, name):
    number, said = TORTURE_REFUSED[name]
    path = unpacked(data_dir, name, tmp_path)
    for threads in (1, 2):
        with pytest.raises(DataError) as error:
            list(SvmlightSource(path, threads=threads).blocks(100_000))
        assert str(error.value).startswith(f"{path}:{number}: {said}")


def test_torture_zero_based_refused_as_one_based(data_dir, tmp_path):
    path = unpacked(data_dir, "adult_zero_based.trn.bz2", tmp_path)
    lines = path.read_bytes().split(b"\n")
    number = next(i for i, line in enumerate(lines, 1) if b" 0:" in line)
    with pytest.raises(DataError, match=f"train.svm:{number}: index 0, but indices start at 1"):
        list(SvmlightSource(path, "no", threads=2).blocks(10_000))


# --- any text, any block size, any number of threads: as the slow twin says ---------------------------------

number_text = st.one_of(
    st.integers(-99, 99).map(str),
    st.floats(-1e3, 1e3).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda v: f"{float(v):.9g}"),
    st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2})?", fullmatch=True),
)
blank = st.sampled_from([" ", " ", " ", "  ", "\t", " \t "])
comment = st.sampled_from(["", "", "", "# c", " #1:2 ::", "\t"])
line_end = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n#c:\n", " \n\t\n"])


@st.composite
def row_text(draw):
    label = draw(st.one_of(st.sampled_from(["1", "-1", "+1", "0", "1.0", "1e0"]), number_text))
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 7, 1000, 10**8]), max_size=8))
    start = draw(st.sampled_from([0, 0, 0, -1]))
    indices = (start + np.cumsum(steps)).tolist() if steps else []
    tokens = [f"{index}:{draw(number_text)}" for index in indices]
    if draw(st.integers(0, 5)) == 0:
        tokens.insert(0, "qid:7")
    gap = draw(blank)
    return gap.join([label, *tokens]) + draw(comment) + draw(line_end)


likely_text = st.lists(row_text(), min_size=1, max_size=12).map(lambda rows: "".join(rows).encode())
token = st.sampled_from(
    [
        "-1",
        "12",
        "3:4",
        " 1:1",
        " 5:-2.5",
        " 7:0.125",
        "\n2 1:3",
        "qid:",
        "nan",
        "1e39",
        "99999999",
        "9999999999",
    ]
)
tokens_text = st.lists(st.one_of(token, st.sampled_from("  \n\n\t\r:.e01#,+-\0\u00e9")), max_size=40).map(
    lambda parts: "".join(parts).encode()
)


@st.composite
def spoilt_text(draw):
    text = bytearray(draw(likely_text))
    place = draw(st.integers(0, len(text) - 1))
    text[place : place + draw(st.integers(0, 2))] = draw(
        st.sampled_from([b"", b":", b" ", b"x", b"\n", b"\0", b"9", b"-"])
    )
    return bytes(text)


any_text = st.one_of(likely_text, spoilt_text(), tokens_text, st.binary(max_size=60))


def is_of_another_kind(text):
    """Such files are unpacked first, or refused by their first bytes."""
    try:
        refuse_other_kinds("", text)
    except DataError:
        return True
    return False


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=any_text,
    max_bytes=st.one_of(st.integers(1, 400), st.just(PLENTY)),
    threads=st.sampled_from([1, 2]),
    zero_based=st.sampled_from(["auto", "yes", "no"]),
)
def test_reads_as_the_slow_twin(tmp_path, text, max_bytes, threads, zero_based):
    assume(not is_of_another_kind(text))
    path = write(tmp_path, text)
    slow = slow_parse(text, zero_based)
    if isinstance(slow, Refused):
        with pytest.raises(DataError) as error:
            list(SvmlightSource(path, zero_based, threads, text_labels=False).blocks(max_bytes))
        line = re.match(r".*train.svm:([0-9]+): ", str(error.value))
        assert (int(line[1]) if line else None) == slow.line
        assert "this line cannot be read" not in str(error.value)
        return
    source = SvmlightSource(path, zero_based, threads, text_labels=False)
    blocks = list(source.blocks(max_bytes))
    assert all(block.nbytes <= max_bytes or block.n_rows == 1 for block in blocks)
    assert all(isinstance(block.X, CSR) for block in blocks)
    assert_rows_equal(rows_of(source, max_bytes), slow)
    has_zero = any(0 in indices for _, indices, _ in slow)
    assert source.info().index_base == {"yes": 0, "no": 1, "auto": 0 if has_zero else 1}[zero_based]
    assert source.info().n_rows == len(slow)
