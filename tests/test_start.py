"""How the program starts: what it does not load."""

import json
import os
import subprocess
import sys

import pytest
from numba.core.caching import Cache

from llsvm.kernels.start import start_quickly

COMPILING = "numba.np.linalg"  # one of the modules that only compiling needs

_RUN = """
import sys
from llsvm.cli import main
try:
    main()
except SystemExit:
    pass
import json
names = ("numba.np.linalg", "scipy.linalg", "cffi", "sklearn", "pyarrow", "h5py")
print(json.dumps([name for name in names if sys.modules.get(name)]))
import scipy.linalg  # what was hidden is there again
"""


def train(folder, model, **environment):
    """Train in a process of its own; returns the names of modules that it has loaded, of those in question."""
    data = folder / "a.svm"
    data.write_text("".join(f"{1 if i % 2 else -1} 1:{i % 2} 2:{i % 7 / 7}\n" for i in range(40)))
    command = [sys.executable, "-c", _RUN, "train", str(data), "--model", str(folder / model), "-q"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_training_loads_no_library_that_it_does_not_use(tmp_path):
    assert set(train(tmp_path, "m")) <= {COMPILING}


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_compiled_kernels_come_without_the_compiler(tmp_path):
    """A cache that is empty, full, and full of which one kernel is lost: the same model."""
    cache = tmp_path / "cache"
    assert COMPILING in train(tmp_path, "cold", NUMBA_CACHE_DIR=str(cache))
    assert COMPILING not in train(tmp_path, "warm", NUMBA_CACHE_DIR=str(cache))
    lost = next(cache.rglob("kernels.sweep-*.nbi"))
    lost.unlink()
    assert COMPILING in train(tmp_path, "mixed", NUMBA_CACHE_DIR=str(cache))
    models = [(tmp_path / name).read_bytes() for name in ("cold", "warm", "mixed")]
    assert models[0] == models[1] == models[2]


def test_another_numba_starts_as_it_does(monkeypatch):
    monkeypatch.delattr(Cache, "_load_overload")
    before = Cache.load_overload
    start_quickly()
    assert Cache.load_overload is before
