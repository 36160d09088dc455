"""What the system refuses ends with exit code 4 and a sentence, wherever it comes up."""

import errno
import signal
import subprocess
import sys
import threading
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from llsvm.cli import app
from llsvm.cli.answers import explain_error
from llsvm.data.npy import NpyArray
from llsvm.errors import DataError
from llsvm.models.model import Model
from llsvm.process.loading import loading_blas, require_threads

PROGRAM = "import sys\n{before}\nfrom llsvm.__main__ import main\nsys.argv = ['llsvm', '--version']\nmain()\n"

# what a package becomes whose __init__.py cannot be looked at
FOLDER = module_from_spec(ModuleSpec("psutil", None, is_package=True))


def caused(error, cause):
    error.__cause__ = cause
    return error


def raised_by(what, *given):
    try:
        what(*given)
    except Exception as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ImportError("x.so: failed to map segment from shared object"), "library cannot be loaded"),
        (ModuleNotFoundError("No module named 'numpy.linalg'"), "library cannot be loaded"),
        (SystemError("mmap returned NULL without setting an exception"), "library cannot be loaded"),
        (
            caused(AttributeError("partially initialized module"), ImportError("x")),
            "library cannot be loaded",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/lib/numpy/core.py"),
            "core.py: Permission denied",
        ),
        (OSError(errno.EIO, "Input/output error", "/lib/x.so"), "x.so: Input/output error"),
        (caused(DataError("cut off"), pa.ArrowMemoryError("malloc failed")), "no memory left"),
        (
            caused(DataError("cut off"), pa.ArrowException("Failed to launch worker thread")),
            "no more threads",
        ),
        (
            caused(DataError("cut off or damaged"), OSError(errno.ENOMEM, "Cannot allocate memory")),
            "no memory left",
        ),
        (OSError(errno.ENOMEM, "Cannot allocate memory", "/lib/numpy/core.py"), "no memory left"),
        (LookupError("unknown encoding: cp437"), "library cannot be loaded"),
        (raised_by(lambda: FOLDER.virtual_memory), "library cannot be loaded"),
        (raised_by(SourceFileLoader("m", "m.py").source_to_code, None, "m.py"), "library cannot be loaded"),
        (TypeError("compile() arg 1 must be a string, bytes or AST object"), "library cannot be loaded"),
        (RuntimeError("can't start new thread"), "no more threads"),
        (
            RuntimeError("cannot cache function 'f': no locator available"),
            "library cannot be loaded or has failed",
        ),
    ],
)
def test_a_refusal_of_the_system_is_told_as_one(error, words, capsys):
    assert explain_error(error) == 4
    said = capsys.readouterr().err
    assert words in said
    assert "bug" not in said


def test_a_name_that_a_whole_module_lacks_is_a_mistake(capsys):
    assert explain_error(raised_by(lambda: np.virtual_memory)) == 1
    assert "a bug in llsvm" in capsys.readouterr().err


def test_a_file_that_may_not_be_read_is_bad_input(capsys):
    assert explain_error(PermissionError(errno.EACCES, "Permission denied", "/data/rows.csv")) == 3
    assert explain_error(KeyError("x")) == 1
    assert explain_error(raised_by(len, None)) == 1


def test_no_memory_to_read_arrays_is_no_damage(tmp_path, monkeypatch, capsys):
    """An .npz in parts: the file is whole, and a read of it is refused."""
    path = tmp_path / "rows.npz"
    np.savez(path, X=np.ones((4000, 6), np.float32), y=np.arange(4000) % 2)

    def refuse(*_):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(NpyArray, "__getitem__", refuse)
    done = CliRunner().invoke(app, ["train", str(path), "--model", str(tmp_path / "m")])
    assert done.exit_code == 4
    assert "no memory left" in done.output


def test_csv_is_not_read_where_a_thread_is_refused(tmp_path, monkeypatch):
    """pyarrow would wait for ever for its second, or end the process."""
    (tmp_path / "rows.csv").write_text("a,label\n1,0\n2,1\n")
    start, started = threading.Thread.start, []

    def refuse(thread):
        if thread.name == "llsvm-probe":
            started.append(thread)
            if len(started) == 2:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # else the second may be one that is tried for BLAS
    monkeypatch.setattr(threading.Thread, "start", refuse)
    require_threads.cache_clear()
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "rows.csv"), str(tmp_path / "rows.svm")])
    assert done.exit_code == 4
    assert "starts no more threads" in done.output
    assert not started[0].is_alive()


@pytest.mark.parametrize(
    "error",
    [
        "ImportError('x')",
        "OSError(5, 'Input/output error')",
        "MemoryError()",
        "LookupError('unknown encoding: x')",
    ],
)
def test_a_program_that_cannot_be_loaded_says_so(error):
    before = (
        "class Broken:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == 'llsvm.cli': raise {error}\n"
        "sys.meta_path.insert(0, Broken())"
    )
    command = [sys.executable, "-c", PROGRAM.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("llsvm: error: the system refuses to load the program")
    assert done.stderr.count("\n") == 1


def test_tables_where_standard_output_is_closed(tmp_path):
    Model(np.ones((1, 2)), [0.0], [0, 1]).save(tmp_path / "m")
    command = f"{sys.executable} -m llsvm inspect {tmp_path / 'm'} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("given", "has"), [(None, "1"), ("3", "3")])
def test_blas_starts_no_threads_where_one_is_refused(tmp_path, given, has):
    """OpenBLAS sends SIGINT to a process that is refused one of its threads."""
    Model(np.ones((1, 2)), [0.0], [0, 1]).save(tmp_path / "m")
    before = f"""
import builtins, os, threading
os.sched_getaffinity = lambda process: {{0, 1, 2, 3}}
os.environ.pop("OPENBLAS_NUM_THREADS", None)
if {given!r}:
    os.environ["OPENBLAS_NUM_THREADS"] = {given!r}
start, real = threading.Thread.start, builtins.__import__
def refuse(self):
    if self.name == "llsvm-probe":
        raise RuntimeError("can't start new thread")
    start(self)
threading.Thread.start = refuse
def tell(name, *args, **more):
    if name == "numpy" and name not in sys.modules:
        print("threads of BLAS:", os.environ.get("OPENBLAS_NUM_THREADS"), file=sys.stderr)
    return real(name, *args, **more)
builtins.__import__ = tell
"""
    program = PROGRAM.format(before=before).replace("'--version'", f"'inspect', {str(tmp_path / 'm')!r}")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == f"threads of BLAS: {has}"


@pytest.mark.parametrize(
    "loads",
    [
        "from llsvm.solvers.optim.lapack import load as last; given = ()",
        "from llsvm.calibration.calibrators import isotonic as last; given = pieces, 10",
    ],
    ids=["lapack", "isotonic"],
)
def test_blas_of_scipy_starts_none_where_threads_have_been_refused_since(loads):
    """It is loaded late, beside threads of our own."""
    program = f"""
import os, threading
os.environ.pop("OPENBLAS_NUM_THREADS", None)
os.sched_getaffinity = lambda process: {{0, 1, 2, 3}}
import numpy as np
pieces = lambda: iter([(np.array([0.0, 1.0]), np.array([1.0, -1.0]))])
{loads}
def refuse(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
last(*given)
print(os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_an_interrupt_that_blas_sends_itself_is_a_thread_refused():
    """OpenBLAS raises SIGINT where a thread of its own is refused, though others were started just before."""
    with pytest.raises(RuntimeError, match="start new thread") as refused, loading_blas():
        signal.raise_signal(signal.SIGINT)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert explain_error(refused.value) == 4


def test_an_interrupt_of_the_user_while_blas_is_loaded_ends_the_program_as_ever():
    """In a process of one thread: elsewhere the system may hand the signal to another thread than the one that
    loads, and the interrupt comes at some later line."""
    program = """
import os, subprocess
from llsvm.process.loading import loading_blas
try:
    with loading_blas():
        subprocess.run(["kill", "-INT", str(os.getpid())], check=True)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


@pytest.mark.parametrize("name", ["out.model", "out.parquet", "out.h5", "out.svm", "the spill file"])
def test_a_limit_of_the_shell_on_the_size_of_files_is_named_with_the_file(name, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + "".join(f"{k / 7},{k % 2}\n" for k in range(4000)))
    how = ["convert", str(path), "--label", "y", str(tmp_path / name)]
    if name.endswith("model"):
        how = ["train", str(path), "--label", "y", "--quiet", "--model", str(tmp_path / name)]
    before = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))"
    if name == "the spill file":
        how = ["--version"]
        before += f"""
import numpy as np, llsvm.cli.answers as answers
from llsvm.spill.workspace import write_at
def written():
    with open({str(tmp_path / name)!r}, "wb", 0) as file:
        write_at(file, np.zeros(4096, np.uint8), 0)
answers.say = lambda message: print(message, file=sys.stderr)
try: written()
except Exception as error: sys.exit(answers.explain_error(error))"""
    program = PROGRAM.format(before=before).replace("'--version'", ", ".join(map(repr, how)))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert f"{tmp_path / name}: " in done.stderr
    assert "a limit on the size of files is reached: raise that of the shell (ulimit -f" in done.stderr


@pytest.mark.parametrize("command", ["train", "convert"])
def test_the_remedy_for_a_pipe_that_is_named_as_a_file_works(command, tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{k / 7},{k % 2}\n" for k in range(40)))
    model = f"--label y {'--model' * (command == 'train')} {tmp_path / 'out.svm'}"
    for line, code in (
        (f"llsvm {command} <(cat rows.csv) {model}", 3),
        (f"cat rows.csv | llsvm {command} - --format csv {model}", 0),
    ):
        done = subprocess.run(
            ["bash", "-c", line.replace("llsvm", f"{sys.executable} -m llsvm", 1)],
            **{"cwd": tmp_path, "capture_output": True, "text": True, "check": False},
        )
        assert done.returncode == code, done.stderr
        assert code == 0 or "not a regular file; write the data to a file first, or pipe text" in done.stderr
