"""Trainings that keep a state: what goes on, what is refused, what is left in the folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import rows, write_svmlight
from resume import Case, go, killed
from typer.testing import CliRunner

import llsvm
from llsvm import Model
from llsvm.cli import app
from llsvm.errors import DataError, DiskError, LLSVMWarning, UsageError
from llsvm.spill.workspace import Workspace
from llsvm.state import checkpoints as checkpoints_module
from llsvm.state import container, runs
from llsvm.state.checkpoints import checkpoints_in, parse_seconds
from llsvm.state.container import Container, ContainerWriter
from llsvm.state.folder import StateFolder
from llsvm.training.training import Training

# six passes: more values than second order solves to the last digits after the first one
CASE = Case({"solver": "llsvm", "tol": 1e-6, "loss": "logistic"}, n=2300, d=8, noise=1.0)
SMALL = Case({"solver": "llsvm", "tol": 1e-6})
ROUNDED = Case(
    {"solver": "smsvm", "tol": 1e-3}, unit=1 / 3
)  # of a smaller tolerance rounding values would hide too much
ARRAYS = {"solver": "nesvm", "memory_limit": "2GB", "checkpoint_every": 0}


class Stopped:
    """A training that was given up after its third pass, with what is needed to go on. It is trained once for each
    way to do so; after that, what it had left is put there again, unless ``anew``: the state names its files."""

    left: ClassVar[dict[str, dict[str, bytes]]] = {}

    def __init__(self, folder, case=CASE, passes=3, every=0.0, anew=False):
        self.case, self.folder = case, folder
        self.data = folder / "rows.svm"
        self.state, self.model = folder / "state", folder / "model"
        self.state.mkdir()
        which = f"{case} {passes} {every}"
        if anew or which not in self.left:
            self._train(passes, every)
            files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
            self.left[which] = {str(path.relative_to(folder)): path.read_bytes() for path in files}
        for name, data in self.left[which].items():
            (folder / name).write_bytes(data)

    def _train(self, passes, every):
        self.case.write(self.data)
        go(self.case, self.data, self.folder / "undisturbed", None)
        self.go(every=every, stop=lambda report: report.passes == passes and report.kind == "pass")
        assert not self.model.exists()

    def go(self, **more):
        return go(self.case, self.data, self.model, self.state, **more)

    @property
    def is_as_undisturbed(self):
        return self.model.read_bytes() == (self.folder / "undisturbed").read_bytes()


def content(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "lock"}


def test_a_run_goes_on_where_it_was_stopped(tmp_path):
    run = Stopped(tmp_path)
    assert set(content(run.state)) == {"state"}
    training = run.go()
    assert training.notes[0].startswith("going on from the state after 2 passes, written 2")
    assert [row["passes"] for row in training.history] == list(range(1, len(training.history) + 1))
    seconds = [row["seconds"] for row in training.history]
    assert seconds == sorted(seconds)
    assert run.is_as_undisturbed
    assert set(content(run.state)) == {"state", "result"}


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_run_of_small_data_goes_on_to_the_same_digits(tmp_path, loss):
    case = replace(SMALL, settings={**SMALL.settings, "loss": loss})
    run = Stopped(tmp_path, case, passes=2)
    training = run.go()
    assert training.notes[0].startswith("going on from the state after 1 pass, written 2")
    assert run.is_as_undisturbed


def test_a_run_that_has_ended_gives_its_model_again_without_training(tmp_path):
    run = Stopped(tmp_path)
    first = run.go()
    log = run.model.with_name("model.log.json")
    run.model.unlink()
    log.unlink()
    again = run.go()
    assert len(again.notes) == 1
    assert "this training has ended, 2" in again.notes[0]
    assert run.is_as_undisturbed
    told, before = again.summary(), first.summary()
    for name in (
        "converged",
        "primal",
        "dual",
        "relative_gap",
        "passes",
        "solver",
        "cause",
        "nonzero_weights",
    ):
        assert told[name] == before[name], name
    fresh = run.go(fresh=True)
    assert len(fresh.notes) > 3
    assert run.is_as_undisturbed


@pytest.mark.parametrize(
    ("case", "tol"),
    [
        (replace(CASE, settings={**CASE.settings, "tol": 1e-4}), 1e-5),
        (Case({"multiclass": "crammer-singer", "tol": 1e-4}, classes=3), 3e-5),
        (Case({"solver": "nesvm", "tol": 1e-3}), 1e-4),
        (ROUNDED, 1e-4),
    ],
)
def test_another_tolerance_goes_on(tmp_path, case, tol):
    run = Stopped(tmp_path, case)
    first = run.go()
    passes = Model.load(run.model).certificate.passes
    training = run.go(tol=tol)
    assert f"with --tol {case.settings['tol']}, now {tol}" in training.notes[0]
    model = Model.load(run.model)
    assert model.converged
    assert model.certificate.relative_gap <= tol
    assert model.certificate.passes >= passes
    assert training.history[0] == first.history[0]  # which was not made again
    loose = run.go(tol=1e-2)
    assert loose.model.converged


def test_values_that_now_need_64_bits_are_begun_anew(tmp_path):
    run = Stopped(tmp_path, ROUNDED)
    training = run.go(tol=1e-6)
    assert "the state that there was is of values as 32-bit floats: begun anew" in training.notes[0]
    assert Model.load(run.model).converged


def test_more_passes_go_on(tmp_path):
    run = Stopped(tmp_path, Case({"solver": "nesvm", "tol": 1e-3}), passes=2)
    short = run.go(max_passes=3)
    assert not short.model.converged
    assert short.model.certificate.passes == 3
    again = run.go(max_passes=3)
    assert "has ended" in again.notes[0]
    assert not again.model.converged
    assert run.go().model.converged
    assert run.is_as_undisturbed


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"loss": "squared_hinge"}, ": loss logistic, now squared_hinge"),
        ({"scale": "unit-row", "bias": 2.0}, ": scale .*, now unit-row; bias 0.0, now 2.0"),
        ({"penalty": "elasticnet", "C": 2.0, "solver": "smsvm"}, ": penalty l2, now elasticnet"),
    ],
)
def test_what_may_not_change_is_named_and_refused(tmp_path, changed, said):
    run = Stopped(tmp_path)
    before = content(run.state)
    with pytest.raises(UsageError, match=said) as refusal:
        run.go(**changed)
    assert "state/state: the state of another training" in str(refusal.value)
    assert "pass fresh to begin anew" in str(refusal.value)
    assert content(run.state) == before


def test_what_was_refused_is_begun_anew_when_asked(tmp_path):
    run = Stopped(tmp_path)
    assert run.go(fresh=True, C=2.0).notes[0] == ""
    assert run.model.exists()


def test_other_data_are_named_and_refused(tmp_path):
    run = Stopped(tmp_path, anew=True)
    before = content(run.state)
    text = run.data.read_bytes()
    for other, said in (
        (b"1 1:1\n" + text, r"rows.svm has grown from [\d,]+ to [\d,]+ bytes"),
        (text.replace(b"3", b"4", 1), "rows.svm has changed"),
    ):
        run.data.write_bytes(other)
        with pytest.raises(UsageError, match=said):
            run.go()
        assert content(run.state) == before
    run.data.write_bytes(text)
    run.go()
    assert run.is_as_undisturbed


def test_the_same_file_by_another_name_goes_on(tmp_path):
    run = Stopped(tmp_path)
    run.data = run.data.rename(tmp_path / "renamed.svm")
    assert run.go().notes[0].startswith("going on")


def test_arrays_go_on_and_others_are_refused(tmp_path):
    X, y = rows(n=300, d=10, noise=2.0)
    state = tmp_path / "S"
    with pytest.warns(match="not converged"):
        llsvm.train(X, y, state=state, max_passes=5, **ARRAYS)
    want = llsvm.train(X, y, solver="nesvm", memory_limit="2GB")
    got = llsvm.train(X, y, state=state, **ARRAYS)
    assert [row["passes"] for row in got.history] == [row["passes"] for row in want.history]
    assert np.array_equal(got.coef_, want.coef_)
    assert got.certificate == want.certificate
    with pytest.raises(UsageError, match="other data: their content differs"):
        llsvm.train(X[:, ::-1].copy(), y, state=state, **ARRAYS)
    with pytest.raises(UsageError, match="other data: rows 300, now 299"):
        llsvm.train(X[1:], y[1:], state=state, **ARRAYS)


def go_until_out_of_time(run, monkeypatch, last):
    """The run's time is over after that pass."""
    note = Training.note

    def out_of_time(self, report):
        note(self, report)
        if report.kind == "pass" and report.passes == last:
            self.progress.stop()

    monkeypatch.setattr(checkpoints_module, "DRAFTS_SHARE", 1e9)
    with monkeypatch.context() as patched:
        patched.setattr(Training, "note", out_of_time)
        assert not run.go(every=1e9).model.converged


@pytest.mark.parametrize("last", [1, 3])
def test_time_that_runs_out_keeps_the_state(tmp_path, monkeypatch, last):
    run = Stopped(tmp_path, every=1e9)
    assert content(run.state) == {}
    go_until_out_of_time(run, monkeypatch, last)
    assert set(content(run.state)) == {"state"}  # no result: the same command goes on
    training = run.go(every=1e9)
    assert training.notes[0].startswith(f"going on from the state after {max(1, last - 1)} pass")
    assert training.model.converged
    assert run.is_as_undisturbed or last == 1  # which was cut short


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_small_data_whose_time_runs_out_are_solved_to_the_last_digits_later(tmp_path, monkeypatch, loss):
    case = replace(SMALL, settings={**SMALL.settings, "loss": loss})
    run = Stopped(tmp_path, case, passes=2, every=1e9)
    go_until_out_of_time(run, monkeypatch, 1)
    training = run.go(every=1e9)
    assert training.notes[0].startswith("going on from the state after 1 pass")
    undisturbed = Model.load(tmp_path / "undisturbed").coef_
    assert np.allclose(training.model.coef_, undisturbed, rtol=0, atol=1e-9 * np.abs(undisturbed).max())


def test_an_interrupt_keeps_the_newest_state(tmp_path):
    X, y = rows(n=2300, d=8)  # too many values to be solved in two passes
    program = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from llsvm.state import checkpoints
from llsvm.training.training import Training
checkpoints.DRAFTS_SHARE = 1e9
note = Training.note
def stop(self, report):
    note(self, report)
    if report.passes == 4 and report.kind == "pass":
        os.kill(os.getpid(), signal.SIGTERM)
        import time
        time.sleep(60)
Training.note = stop
from llsvm.__main__ import main
main()
"""
    data = write_svmlight(tmp_path / "a.svm", X, y)
    words = [
        "train",
        data,
        "--model",
        tmp_path / "m",
        "--memory",
        "2GB",
        "--tol",
        "1e-7",
        "--solver",
        "llsvm",
    ]
    words = [str(word) for word in [*words, "--state", tmp_path / "S", "--threads", 1]]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 143, done.stderr
    last = done.stderr.splitlines()[-1]
    assert "the model so far is written to" in last
    assert last.endswith(f"and the state after 3 passes is in {tmp_path / 'S'}, to go on from")
    assert set(content(tmp_path / "S")) == {"state"}
    undisturbed = [*words[:-4], *words[-2:]]
    for arguments, name in ((words, "m1"), (undisturbed, "m2")):
        end = CliRunner().invoke(app, [*arguments[:3], str(tmp_path / name), *arguments[4:]])
        assert end.exit_code == 0, end.stderr
    assert (tmp_path / "m1").read_bytes() == (tmp_path / "m2").read_bytes()


def test_in_python_an_interrupt_keeps_it_too(tmp_path, monkeypatch):
    X, y = rows(n=2300, d=8)
    note = Training.note

    def stop(self, report):
        note(self, report)
        if report.passes == 4 and report.kind == "pass":
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints_module, "DRAFTS_SHARE", 1e9)
    monkeypatch.setattr(Training, "note", stop)
    with pytest.warns(llsvm.LLSVMWarning, match=f"the state after 3 passes is in {tmp_path / 'S'}"):
        llsvm.train(X, y, tol=1e-7, solver="llsvm", memory_limit="2GB", state=tmp_path / "S")
    with checkpoints_in(tmp_path / "S") as kept:
        assert kept.earlier.saved.passes == 3


def test_a_signal_waits_for_the_state_of_the_pass_at_hand(tmp_path, monkeypatch):
    """Where a draft after each pass would cost too much, the last one is made when it is asked for."""
    monkeypatch.setattr(checkpoints_module, "DRAFTS_SHARE", 1e-9)
    run = Stopped(tmp_path, every=1e9)
    assert content(run.state) == {}
    there, found, note = threading.Event(), [], Training.note

    def tell(self, report):
        note(self, report)
        if report.kind == "pass" and report.passes == 4:
            found.append(self)
            there.set()

    monkeypatch.setattr(Training, "note", tell)
    # which stands still at its next state for good, as a process does that a signal ends
    threading.Thread(target=lambda: run.go(every=1e9), daemon=True).start()
    assert there.wait(60)
    words = found[0].keep_state()
    with Container.open(run.state / "state") as state:
        passes = state.about["record"]["passes"]
    assert passes >= 4  # and the draft before is of the first pass
    assert f"the state after {passes} passes is in" in words


def test_a_second_run_is_told_who_uses_the_folder(tmp_path):
    run = Stopped(tmp_path)
    before = content(run.state)
    with StateFolder(run.state):
        with pytest.raises(
            UsageError, match=rf"in use by process {os.getpid()} on \S+, since 2\d\d\d-"
        ) as refusal:
            run.go()
        assert "state: this state is in use" in str(refusal.value)
        assert content(run.state) == before
    run.go()
    assert run.is_as_undisturbed


def test_a_killed_run_leaves_no_lock(tmp_path):
    run = Stopped(tmp_path)

    def hold():
        StateFolder(run.state).file("state.part").write_bytes(b"half")
        signal.pause()

    assert killed(hold, 0.2) == -signal.SIGKILL
    assert (run.state / "state.part").exists()
    run.go()
    assert run.is_as_undisturbed
    assert set(content(run.state)) == {"state", "result"}


def damaged(data, how, at):
    at = int(at * (len(data) - 1))
    if how == "flipped":
        return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
    return data[:at] if how == "truncated" else data[:at] + data[at + 1 :]


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ended")
    run = Stopped(folder)
    run.go()
    return run


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    st.sampled_from(["state", "result"]),
    st.sampled_from(["flipped", "truncated", "removed"]),
    st.floats(0, 1),
)
def test_whatever_is_damaged_is_seen(ended, tmp_path, name, how, at):
    shutil.rmtree(tmp_path / "S", ignore_errors=True)
    shutil.copytree(ended.state, tmp_path / "S")
    file = tmp_path / "S" / name
    file.write_bytes(damaged(file.read_bytes(), how, at))
    before = content(tmp_path / "S")
    with pytest.raises(DataError) as refusal, checkpoints_in(tmp_path / "S"):
        pass
    assert str(file) in str(refusal.value)
    assert "fresh" in str(refusal.value) or "move the file away" in str(refusal.value)
    assert content(tmp_path / "S") == before


_NO_PART = {"name": "a", "dtype": "<f8", "shape": [0], "offset": 25, "checksum": ""}
MANIFESTS = [
    [],
    {"about": {}, "parts": 5},
    {"about": [], "parts": []},
    {"about": {}, "parts": [[]]},
    *(
        {"about": {}, "parts": [_NO_PART | change]}
        for change in ({"name": 1}, {"dtype": [[]]}, {"dtype": "O"})
    ),
    *(
        {"about": {}, "parts": [_NO_PART | change]}
        for change in ({"dtype": "x"}, {"shape": None}, {"more": 1})
    ),
]


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_of_strangers_is_damage(tmp_path, monkeypatch, manifest):
    with monkeypatch.context() as patched:
        patched.setattr(container, "json", SimpleNamespace(dumps=lambda _: json.dumps(manifest)))
        writer = ContainerWriter(tmp_path / "state")
        writer.end({})
        writer.close()
    with pytest.raises(DataError, match="the state is damaged"):
        Container.open(tmp_path / "state")


CRAFTED = {
    "an array of another shape": ({"solver": "llsvm", "loss": "logistic"}, "best_close_squares", np.zeros(0)),
    "gaps that are not of passes and problems": ({"solver": "smsvm"}, "last_gaps", np.zeros(1)),
    "numbers that are too large": ({"multiclass": "softmax", "loss": "logistic"}, "", 10**400),
    "a dual objective that the next pass shows to be too large": (
        {"solver": "smsvm", "penalty": "l1", "loss": "squared_hinge"},
        "problem 0 known dual",
        1.7e308,
    ),
    "weights that are not those of the dual variables": (
        {"solver": "llsvm", "loss": "logistic"},
        "w",
        np.full((1, 5), -1.0),
    ),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_what_no_run_can_go_on_from_is_refused(tmp_path, monkeypatch, case):
    options, name, value = CRAFTED[case]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X.sum(axis=1) + rng.normal(size=60) > 0).astype(int)
    options = {"state": tmp_path, "threads": 1, "tol": 1e-9, **options}
    llsvm.train(X, y, max_passes=3, **options)
    as_it_is = runs.read_state

    def read(*given):
        state = as_it_is(*given)
        if name in state.arrays:
            return replace(state, arrays={**state.arrays, name: value})
        if name:
            return replace(state, numbers={**state.numbers, name: value})
        return replace(state, numbers=dict.fromkeys(state.numbers, value))

    monkeypatch.setattr(runs, "read_state", read)
    with pytest.raises((DataError, UsageError), match=r"state: .*fresh"):
        llsvm.train(X, y, max_passes=8, **options)


def test_what_goes_wrong_with_reports_is_not_blamed_on_the_state(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = (X[:, 0] > 0).astype(int)
    options = {"state": tmp_path, "threads": 1, "tol": 1e-9}

    def fail(_):
        raise ValueError("of the caller")

    llsvm.train(X, y, max_passes=2, **options)
    with pytest.raises(ValueError, match=r"^of the caller$"):
        llsvm.train(X, y, max_passes=8, callback=fail, **options)


@pytest.mark.parametrize("name", ["state", "result"])
def test_a_damaged_state_is_refused_and_begun_anew_when_asked(ended, tmp_path, name):
    shutil.copytree(ended.state, tmp_path / "S")
    file = tmp_path / "S" / name
    file.write_bytes(damaged(file.read_bytes(), "flipped", 0.5))
    arguments = (ended.case, ended.data, tmp_path / "m", tmp_path / "S")
    with pytest.raises(
        DataError, match=rf"S/{name}: the state is damaged \(.*\); nothing is changed: .*fresh"
    ):
        go(*arguments)
    go(*arguments, fresh=True)
    assert (tmp_path / "m").read_bytes() == ended.model.read_bytes()
    assert "has ended" in go(*arguments).notes[0]


def test_without_one_of_its_files_the_run_goes_on_from_the_other(ended, tmp_path):
    for name, said in (("state", "has ended"), ("result", "going on from the state")):
        shutil.rmtree(tmp_path / "S", ignore_errors=True)
        shutil.copytree(ended.state, tmp_path / "S")
        (tmp_path / "S" / name).unlink()
        training = go(ended.case, ended.data, tmp_path / "m", tmp_path / "S")
        assert said in training.notes[0]
        assert (tmp_path / "m").read_bytes() == ended.model.read_bytes()


def test_foreign_files_and_versions_are_refused_and_left_alone(tmp_path):
    state = tmp_path / "S"
    state.mkdir()
    for text, said in (
        (b"my own notes\n", "is no state of llsvm"),
        (b"", "is no state of llsvm"),
        *(
            (
                b"llsvm state, version %d\nwhatever" % number,
                f"of version {number}, and .* version {container.VERSION}:",
            )
            for number in range(container.VERSION)
        ),
    ):
        (state / "state").write_bytes(text)
        with pytest.raises(DataError, match=said), checkpoints_in(state):
            pass
        assert (state / "state").read_bytes() == text
    (state / "state").write_bytes(b"my own notes\n")
    with pytest.raises(DataError, match="no state of llsvm"), checkpoints_in(state, fresh=True):
        pass
    assert (state / "state").read_bytes() == b"my own notes\n"


def test_folders_that_cannot_be_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "letter.txt").write_text("x")
    for path, said in (
        (tmp_path / "file", "is no folder"),
        (tmp_path / "others", r"is a folder of other things \(letter.txt\)"),
        (tmp_path / "no" / "where", "does not exist; create it first"),
        ("s3://bucket/state", "is kept in a folder here"),
    ):
        with pytest.raises(UsageError, match=said), checkpoints_in(path):
            pass
    assert os.listdir(tmp_path / "others") == ["letter.txt"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300", 300), ("90s", 90), ("5m", 300), ("1.5h", 5400), (0, 0), ("0", 0), (12.5, 12.5)],
)
def test_times_are_read(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "5 days", "nan", "inf", "1e999"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="checkpoint_every must be seconds"):
        parse_seconds(text)


def test_on_a_full_disk_training_goes_on_and_the_old_state_stays(tmp_path, monkeypatch):
    run = Stopped(tmp_path)
    before = content(run.state)
    monkeypatch.setattr(StateFolder, "free_bytes", lambda self: 1000)
    words = r"no state is written: .*state: the state takes .*1.0 kB are free"
    with pytest.warns(LLSVMWarning, match=words) as said:
        run.go()
    assert len(said) == 1
    assert content(run.state)["state"] == before["state"]
    assert run.is_as_undisturbed


def test_the_state_counts_under_the_disk_limit(tmp_path):
    run = Stopped(tmp_path)
    before = content(run.state)
    with pytest.warns(LLSVMWarning, match="no state is written: disk limit too small: .* more are needed"):
        run.go(disk_limit=len(before["state"]) + 1000)
    assert content(run.state)["state"] == before["state"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.go(disk_limit=100_000, tol=1e-6)
    assert content(run.state)["state"] != before["state"]


def test_what_the_state_takes_is_not_there_for_spills(tmp_path):
    with Workspace(tmp_path, 1000) as workspace:
        workspace.claim(300)
        workspace.hold_elsewhere(300, 200)
        with pytest.raises(DiskError, match="disk limit too small"):
            workspace.claim(201)
        workspace.claim(200)
        with pytest.raises(DiskError, match=r"holds 500 B, other files of this run 400 B, and 101 B more"):
            workspace.hold_elsewhere(400, 101)


def test_a_run_without_a_limit_goes_on_under_the_one_it_began_with(tmp_path, monkeypatch):
    X, y = rows(n=300, d=10, noise=2.0)
    options = {"solver": "nesvm", "state": tmp_path / "S"}
    monkeypatch.setattr("llsvm.training.memory_limit.default_limit_bytes", lambda: 1_900_000_000)
    with pytest.warns(match="not converged"):
        llsvm.train(X, y, max_passes=5, checkpoint_every=0, **options)
    monkeypatch.setattr("llsvm.training.memory_limit.default_limit_bytes", lambda: 1_800_000_000)
    llsvm.train(X, y, **options)
    with checkpoints_in(tmp_path / "S") as kept:
        assert kept.earlier.saved.limit_bytes == 1_900_000_000


def test_options_of_a_state_want_a_state(tmp_path):
    data = str(write_svmlight(tmp_path / "a.svm", *rows(n=50, d=5)))
    for option in (["--fresh"], ["--checkpoint-every", "0"]):
        done = CliRunner().invoke(app, ["train", data, "--model", str(tmp_path / "m"), *option])
        assert done.exit_code == 2
        assert f"{option[0]} has no meaning here: pass --state" in done.stderr
