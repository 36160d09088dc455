"""Signals end the program within a second, whatever it is at, with one sentence, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from oracle import rows, write_svmlight

from llsvm import LLSVMWarning, Model, train
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers
from llsvm.training.training import Training

SECONDS = 3.0  # one is promised; this machine may be busy with other tests

# The program with something put before it: what a signal meets is not left to chance.
PROGRAM = """
import sys, time, os
{before}
from llsvm.__main__ import main
main()
"""


def started(arguments, before="", **popen):
    """The program, once it has said "ready" on standard error."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(before=before), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **popen,
    )
    seen = ""
    while "ready" not in seen:
        line = process.stderr.readline()
        assert line, f"it ended: {seen}"
        seen += line
    return process


def stopped(process, number):
    """Send the signal; the sentence that the program ends with."""
    began = time.monotonic()
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < SECONDS
    assert process.returncode == 128 + number, errors
    assert out == ""
    assert "Traceback" not in errors
    assert "internal error" not in errors
    assert errors.count("llsvm: ") == 1
    return errors.splitlines()[-1]


SAY = 'os.write(2, b"ready\\n")'

MEETS = {
    "an import": f"""
import builtins
real = builtins.__import__
def slow(name, *args):
    if name == "typer":
        {SAY}
        time.sleep(60)
    return real(name, *args)
builtins.__import__ = slow
""",
    "a callback of C code": f"""
import ctypes
def called(left, right):
    {SAY}
    for _ in range(60):
        time.sleep(1)
    return 0
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
import llsvm.memory.sizes
def parse(text):
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(1, 2), 2, 4, kind(called))
llsvm.memory.sizes.parse_size = parse
""",
    "a long call of C": f"""
import ctypes, llsvm.memory.sizes
def parse(text):
    {SAY}
    ctypes.CDLL(None).sleep(60)
llsvm.memory.sizes.parse_size = parse
""",
    "an except that takes all": f"""
import llsvm.memory.sizes
def parse(text):
    {SAY}
    for _ in range(600):
        try:
            time.sleep(0.1)
        except BaseException:
            pass
llsvm.memory.sizes.parse_size = parse
""",
    "the interpreter's end": f"""
import atexit
def last():
    {SAY}
    time.sleep(60)
atexit.register(last)
""",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("meets", MEETS)
def test_a_signal_ends_the_program_whatever_it_meets(tmp_path, meets, number):
    path = write_svmlight(tmp_path / "a.svm", *rows(n=50, d=5))
    arguments = ["train", path, "--model", tmp_path / "m", "--memory", "1GB", "--quiet"]
    if meets == "the interpreter's end":
        process = started(["--version"], MEETS[meets])
        began = time.monotonic()
        process.send_signal(number)
        process.communicate(timeout=60)
        assert time.monotonic() - began < SECONDS
        assert process.returncode == 128 + number
        return
    words = stopped(started(arguments, MEETS[meets]), number)
    assert words.startswith(f"llsvm: stopped by {number.name}: temporary files are removed")
    assert os.listdir(tmp_path) == ["a.svm"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nobody_need_read_standard_error(number):
    """A million bytes are more than the pipe holds."""
    before = (
        f"from llsvm.process.signals import watch\nwatch()\n{SAY}\nos.write(2, b'x' * 10**6)\ntime.sleep(60)"
    )
    process = started(["--version"], before)
    process.send_signal(number)
    assert process.wait(timeout=20) == 128 + number
    process.communicate()


def test_what_the_caller_ignores_stays_ignored():
    before = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{MEETS['an import']}"
    process = started(["--version"], before)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 143


SLOW_PASSES = f"""
from llsvm.training.training import Training
note = Training.note
def slow(self, report):
    note(self, report)
    if report.certificate is not None and report.passes == 3:
        {SAY}
        time.sleep(60)
Training.note = slow
"""


@pytest.mark.parametrize(
    "solver", [("--solver", "nesvm"), ("--multiclass", "crammer-singer"), ("--solver", "smsvm")]
)
def test_the_model_so_far_is_written_and_said_to_be(tmp_path, solver):
    path = write_svmlight(tmp_path / "a.svm", *rows(n=300, d=10, noise=2.0, classes=3))
    model = tmp_path / "m"
    arguments = ["train", path, "--model", model, "--memory", "1GB", "--tol", "1e-9", *solver]
    words = stopped(started(arguments, SLOW_PASSES), signal.SIGTERM)
    assert f"the model so far is written to {model}: after 3 passes within " in words
    loaded = Model.load(model)
    assert not loaded.converged
    assert loaded.certificate.passes == 3
    assert sorted(os.listdir(tmp_path)) == ["a.svm", "m", "m.log.json"]


def interrupted(monkeypatch, passes, change=lambda report: None):
    note = Training.note

    def stop(self, report):
        note(self, report)
        if report.passes == passes and report.certificate is not None:
            change(report)
            raise KeyboardInterrupt

    monkeypatch.setattr(Training, "note", stop)


@pytest.mark.parametrize("moment", ["save", "summary"])
def test_a_signal_after_the_last_pass_does_not_cost_the_model(tmp_path, moment):
    name = {"save": "model", "summary": "summary"}[moment]
    wait = f"""
from llsvm.training.training import Training
def wait(self):
    {SAY}
    time.sleep(60)
Training.{name} = {"property(wait)" if moment == "save" else "wait"}
"""
    path = write_svmlight(tmp_path / "a.svm", *rows(n=50, d=5))
    process = started(["train", path, "--model", tmp_path / "m", "--memory", "1GB", "--quiet"], wait)
    words = stopped(process, signal.SIGTERM)
    assert f"is written to {tmp_path / 'm'}" in words
    assert Model.load(tmp_path / "m").converged


def test_in_python_the_model_so_far_comes_back(tmp_path, monkeypatch):
    X, y = rows(n=300, d=10, noise=2.0)
    interrupted(monkeypatch, 2)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.warns(
        LLSVMWarning, match="stopped: this is the best certified model so far, after 2 full passes"
    ):
        found = train(X, y, tol=1e-9, output=tmp_path / "m", memory_limit="2GB")
    assert found.certificate.passes == Model.load(tmp_path / "m").certificate.passes == 2
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_joint_methods_keep_what_they_certified(tmp_path, monkeypatch):
    """They go on with the very weights that they measure; each pass is the best so far."""
    train_, calls = Loops.train, []

    def stop(self, *args, **options):
        train_(self, *args, **options)
        calls.append(self.w.copy())
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Loops, "train", stop)
    monkeypatch.setattr(JointMultipliers, "price", lambda *_, **__: float("inf"))  # loops alone
    X, y = rows(n=3000, d=10, noise=0.3, classes=3)
    options = {"multiclass": "crammer-singer", "tol": 1e-9, "memory_limit": "2GB"}
    with pytest.warns(LLSVMWarning, match="the best certified model so far"):
        train(X, y, output=tmp_path / "m", **options)
    assert np.array_equal(Model.load(tmp_path / "m").coef_, calls[0][:10].T)


def test_weights_that_have_changed_since_they_were_measured_are_not_written(tmp_path, monkeypatch):
    def change(report):
        report.coef[0, 0] = np.nextafter(report.coef[0, 0], 9.0)

    interrupted(monkeypatch, 2, change)
    X, y = rows(n=300, d=10, noise=2.0)
    with pytest.raises(KeyboardInterrupt) as caught:
        train(X, y, tol=1e-9, output=tmp_path / "m", memory_limit="2GB")
    assert "no model is written" in caught.value.__notes__[0]
    assert os.listdir(tmp_path) == []


def test_without_threads_the_program_still_answers():
    """A system that starts none: signals do what they do by default, and there is no traceback."""
    before = """
import threading
def start(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
"""
    command = [sys.executable, "-c", PROGRAM.format(before=before), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_where_no_thread_more_is_started(tmp_path, number):
    path = write_svmlight(tmp_path / "a.svm", *rows(n=50, d=5))
    before = f"""
import threading
start = threading.Thread.start
def refuse(self):
    if self.name == "llsvm-end":
        raise RuntimeError("can't start new thread")
    start(self)
threading.Thread.start = refuse
{MEETS["an import"]}
"""
    process = started(["train", path, "--model", tmp_path / "m", "--memory", "1GB"], before)
    words = stopped(process, number)
    assert words.startswith(f"llsvm: stopped by {number.name}")


def test_an_interrupted_demo_leaves_no_half_file(tmp_path):
    folder = tmp_path / "kept"
    command = [sys.executable, "-m", "llsvm", "demo", "--size", "2GB", "--quiet", "--keep", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not any(each.stat().st_size for each in written(folder)):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130, said
    assert os.listdir(folder) == []


def written(folder):
    return list(folder.iterdir()) if folder.exists() else []
