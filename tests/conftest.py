"""What all tests share: where the real data sets are, byte code, and signals as a terminal leaves them."""

import functools
import gc
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import typer.testing

import llsvm.memory.budget
import llsvm.scoring.room

# Whoever runs the tests in the background, or under nohup, has these ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Containers often turn byte code off. pytest then rewrites the assertions of all test files in each worker of each
# run (10 seconds), and each llsvm command that a test starts compiles the package anew (0.4 seconds).
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish():
    """Modules and collected tests stay until the end: keep them out of each garbage collection. llsvm collects
    garbage before it trains each of the candidates of ``tune``."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data_dir():
    """The folder with the real data sets; tests that need it are skipped where it is not."""
    beside_repository = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LLSVM_DATA", beside_repository))
    if not folder.is_dir():
        pytest.skip(f"no data sets in {folder}: set LLSVM_DATA")
    return folder


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """``made_once(make, name)``: a file of that name, which ``make(path)`` writes for all tests of a module."""
    paths = {}

    def get(make, name):
        if (make, name) not in paths:
            path = tmp_path_factory.mktemp("made") / name
            make(path)
            paths[make, name] = path
        return paths[make, name]

    return get


@pytest.fixture(autouse=True)
def _seeded():
    """LIBLINEAR, where it is given no seed, visits rows and columns in an order that NumPy's global state decides;
    in some orders it does not converge."""
    np.random.seed(0)


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """No test takes the power away, so what this process writes need not be on the disk: a wait for it takes
    milliseconds, twenty thousand times. Programs that tests start do wait, forked processes do not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which refuses the same descriptors
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_built_once():
    """``CliRunner`` builds the commands of the program anew for each call, which takes longer than many a call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.testing._get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_processor_of_several_workers():
    """Workers share the processors. A run in this process that is not told how many threads to use has one: two in
    each of two workers only wait for each other. Programs that tests start count the processors there are."""
    with pytest.MonkeyPatch.context() as patch:
        if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)) > 1:
            patch.setattr(os, "sched_getaffinity", lambda process: {0})
        yield


@pytest.fixture
def steady_process(monkeypatch):
    """This process, which holds what other tests have left, counts as much at every look: a limit that is named is
    then the one that works."""
    held = llsvm.memory.process.resident_bytes()
    for name in ("llsvm.memory.process.resident_bytes", "llsvm.scoring.room.resident_bytes"):
        monkeypatch.setattr(name, lambda: held)
