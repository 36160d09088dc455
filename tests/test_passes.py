"""How many full passes real data takes when few rows may be kept between them, in memory and on disk together."""

import lzma
from itertools import islice

import numpy as np
import pytest
from cells import in_turn

import llsvm
from llsvm.data import open_with_settings
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.training.training import Training

TABLE = {"label": "last", "scale": "minmax"}
# What the rows and their reader may hold: a block is about a sixth of the data set.
CASES = {
    "a9a": ("adult/a9a.xz", {}, 4_000_000, 5),
    "covertype": ("covtype/covtype.data.xz", {**TABLE, "positive": "2"}, 62_000_000, 8),
    "KDD": ("kddcup99/kddcup.data_10_percent.gz", {**TABLE, "positive": "normal."}, 80_000_000, 5),
}


def unpacked(path, tmp_path):
    """The file without xz, whose decoder may take more than all the rows; of covertype each fifth row."""
    if path.suffix != ".xz":
        return path
    with lzma.open(path) as packed, open(tmp_path / path.stem, "wb") as file:
        file.writelines(islice(packed, 0, None, 5 if "covtype" in path.name else 1))
    return tmp_path / path.stem


def passes(path, tmp_path, limit_bytes, **options):
    """Full passes to the default tolerance with survivors of an eighth of the rows."""
    path = unpacked(path, tmp_path)
    settings = Settings(**{"survivors": 0.125, "max_passes": 30, **options})
    budget = MemoryBudget(limit_bytes, runtime_bytes=0)
    source = open_with_settings(settings, str(path))
    with Training(source, settings, str(tmp_path / "a.model"), budget) as training:
        last = list(training)[-1]
        assert not training.stream.in_one_block
        assert last.converged
        return last.passes


def by_label(path, to):
    """A copy of a svmlight file sorted by label."""
    with lzma.open(path) as file:
        to.write_bytes(b"".join(sorted(file, key=lambda line: line.split()[0])))
    return to


@pytest.mark.parametrize(
    ("name", "C", "most", "without"),
    [
        ("a9a", 1.0, 3, 4),
        pytest.param("a9a", 30.0, 12, 18, marks=pytest.mark.slow),
        pytest.param("covertype", 1.0, 5, 8, marks=pytest.mark.slow),
    ],
)
def test_survivors_save_passes_of_the_logistic_loss(name, C, most, without, data_dir, tmp_path):
    """No α rests at a bound; rows survive by what they may still add to the gap."""
    path, options, limit_bytes, _ = CASES[name]
    path = unpacked(data_dir / path, tmp_path)
    options = {**options, "loss": "logistic", "solver": "llsvm", "C": C, "threads": 1}
    assert passes(path, tmp_path, limit_bytes, **options) <= most
    assert passes(path, tmp_path, limit_bytes, survivors=0.001, **options) >= without


@pytest.mark.parametrize("name", ["a9a", pytest.param("covertype", marks=pytest.mark.slow), "KDD"])
def test_an_eighth_of_the_rows_as_survivors(name, data_dir, tmp_path):
    path, options, limit_bytes, most = CASES[name]
    assert passes(data_dir / path, tmp_path, limit_bytes, **options) <= most


def test_an_eighth_of_the_rows_as_survivors_sorted_by_label(data_dir, tmp_path):
    path, options, limit_bytes, most = CASES["a9a"]
    ordered = by_label(data_dir / path, tmp_path / "sorted.svm")
    assert passes(ordered, tmp_path, limit_bytes, **options) <= 2 * most


@pytest.mark.xfail(
    strict=True, reason="7 passes: a third of the rows are free at the optimum, an eighth is kept"
)
def test_an_eighth_of_the_rows_as_survivors_of_text(data_dir, tmp_path):
    assert passes(newsgroups(data_dir, tmp_path), tmp_path, 12_000_000) <= 5


def test_survivors_save_passes_of_the_logistic_loss_of_text(data_dir, tmp_path):
    path, options = newsgroups(data_dir, tmp_path), {"loss": "logistic", "solver": "llsvm", "threads": 1}
    assert passes(path, tmp_path, 12_000_000, **options) <= 3
    assert passes(path, tmp_path, 12_000_000, survivors=0.001, **options) >= 4


def newsgroups(data_dir, tmp_path):
    """A file of 20 newsgroups, the first ten groups against the others."""
    with lzma.open(data_dir / "20news" / "20news_multi.train.svm.xz") as file:
        rows = [line.split(b" ", 1) for line in file]
    middle = sorted({float(label) for label, _ in rows})[10]
    path = tmp_path / "news.svm"
    path.write_bytes(b"".join((b"1 " if float(label) >= middle else b"-1 ") + rest for label, rest in rows))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit_bytes", "loss"), in_turn([70_000_000, 1_000_000_000], ["hinge", "squared_hinge"], 1)
)
def test_raw_columns_at_a_large_cost(data_dir, limit_bytes, loss):
    """C ‖x‖² is 10^16: second order needs a large σ, none of a smooth loss, and a pass that measures its w."""
    path = data_dir / "kddcup99/kddcup.data_10_percent.gz"
    settings = Settings(
        label="last", positive="normal.", scale="none", C=1e4, loss=loss, threads=1, max_passes=20
    )
    budget = MemoryBudget(limit_bytes, runtime_bytes=0)
    with Training(open_with_settings(settings, str(path)), settings, None, budget) as training:
        last = list(training)[-1]
        in_memory = training.stream.in_one_block
    assert in_memory == (limit_bytes > 500_000_000)
    assert last.converged
    assert last.passes <= (4 if in_memory else 15)


@pytest.mark.parametrize("seed", [0, 3])
def test_text_that_two_threads_share(tmp_path, seed):
    """Sweeps meet each row at weights that have just been moved to suit it: here a hundredth of the gap that the
    pass after them measures, so that epochs that end at a share of the tolerance end at once."""
    rng = np.random.default_rng(seed)
    path = tmp_path / "text.jsonl"
    with path.open("w") as file:
        for i in range(20_000):
            words = " ".join(f"w{j}" for j in (30_000 * rng.random(40) ** 2).astype(int))
            file.write(f'{{"y": "{"np"[i % 2]}", "t": "{words}"}}\n')
    model = llsvm.train(str(path), label="y", text=["t"], threads=2)
    assert model.converged
    assert model.certificate.passes <= 8
