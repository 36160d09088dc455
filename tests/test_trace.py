"""The trace: nothing where it is off; where it is on, the events that the guide has, line by line; its file."""

import ast
import json
import re

import numpy as np
import pytest
from guide_texts import ROOT
from oracle import write_svmlight
from typer.testing import CliRunner

import llsvm
import llsvm.process.trace as trace_module
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import EXIT_LIMIT, EXIT_USAGE, BudgetError, DiskError, UsageError
from llsvm.files.tracing import tracing
from llsvm.memory.budget import MemoryBudget
from llsvm.process.trace import is_tracing, trace, traced_by
from llsvm.settings.settings import Settings
from llsvm.training.training import Training

SPILLING_BYTES = 3_400_000  # of a ledger: some of the rows of ``large`` are spilled


def documented():
    """The facts of each event, by the table of the guide."""
    text = (
        (ROOT / "llsvm" / "guide" / "trace.md").read_text().partition("### Events")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| `([a-z0-9_.]+)` \| ([^|]+) \|", text, re.MULTILINE)
    return {event: set(re.findall("`([^`]+)`", facts)) for event, facts in rows}


def called():
    """The facts of each event, by the calls in the package."""
    found = {}
    for path in sorted((ROOT / "llsvm").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "trace":
                facts = {each.arg for each in node.keywords}
                assert None not in facts, f"{path}:{node.lineno}: facts are to be named where they are traced"
                assert found.setdefault(node.args[0].value, facts) == facts, f"{path}:{node.lineno}"
    return found


def test_the_guide_has_every_event_with_its_facts():
    assert documented() == called()
    assert 25 <= len(called()) <= 45


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(a small file, one that is spilled)."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("trace")
    paths = []
    for name, n_rows in (("small", 300), ("large", 20_000)):
        X = rng.normal(size=(n_rows, 30)) * (rng.random((n_rows, 30)) < 0.3)
        y = np.where(X @ np.arange(30) + 60 * rng.normal(size=n_rows) > 0, 1, -1)
        paths.append(write_svmlight(folder / f"{name}.svm", X, y))
    return paths


@pytest.fixture
def small(files):
    return files[0]


def events_of(path):
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines]


def by_event(events):
    found = {}
    for each in events:
        found.setdefault(each["event"], []).append(each)
    return found


def run(path, budget_bytes=200_000_000, **options):
    settings = Settings(threads=1, **options)
    budget = MemoryBudget(budget_bytes, runtime_bytes=0)
    with Training(open_source(path, threads=1), settings, budget=budget) as training:
        for _ in training:
            pass
        training.finish(None)
        return training.summary()


def require_documented(events):
    facts, last = documented(), 0.0
    for each in events:
        assert each.keys() == facts[each["event"]] | {"seconds", "event"}
        assert each["seconds"] >= last
        last = each["seconds"]


def test_off_it_costs_one_look(small, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trace_module, "json", None)  # whatever would be recorded fails
    monkeypatch.setattr(trace_module, "time", None)
    assert not is_tracing()
    assert run(small)["converged"]
    assert not list(tmp_path.iterdir())


def test_a_run_in_memory(small, tmp_path):
    with tracing(tmp_path / "trace"):
        assert is_tracing()
        summary = run(small)
    assert not is_tracing()
    events = events_of(tmp_path / "trace")
    require_documented(events)
    found = by_event(events)
    assert {
        "memory.planned",
        "rows.read",
        "solver.chosen",
        "pass.measured",
        "epochs.in_memory",
    } <= found.keys()
    assert [each["passes"] for each in found["pass.measured"]] == list(range(1, summary["passes"] + 1))
    assert found["pass.measured"][-1]["relative_gap"] == summary["relative_gap"]
    assert found["pass.measured"][-1]["converged"]
    assert found["rows.read"][0]["rows"] == 300
    assert found["solver.chosen"][0]["solver"] == summary["solver"]
    assert found["memory.planned"][0]["in_one_block"]
    assert found["training.ended"][-1] is events[-1]
    assert not {"store.written", "survivors.selected"} & found.keys()


def test_a_run_out_of_core_says_where_each_row_went(files, tmp_path):
    with tracing(tmp_path / "trace"):
        summary = run(files[1], SPILLING_BYTES, solver="llsvm", tol=0.01)
    events = events_of(tmp_path / "trace")
    require_documented(events)
    found = by_event(events)
    assert found["rows.left_memory"][0]["why"] == "a solver needs their room"
    assert not found["memory.planned"][0]["in_one_block"]
    stores = {each["name"]: each for each in found["store.written"]}
    assert stores["cache"]["rows"] == 20_000
    spilled_bytes = sum(each["bytes"] for name, each in stores.items() if name.startswith("spill"))
    assert spilled_bytes >= summary["bytes_spilled"] > 0
    assert len(found["survivors.selected"]) >= summary["passes"]
    for each in found["survivors.selected"]:
        seen = each["in_memory_before"] + each["free_or_violating"] + each["near"]
        assert each["in_memory"] + each["spilled"] + each["left_to_next_pass"] == seen
        assert each["left_to_next_pass"] >= 0
    first = found["survivors.selected"][0]
    assert first["free_or_violating"] + first["near"] + first["settled"] == 20_000
    assert first["spilled"] == stores["spill-1"]["rows"]
    assert len(found["epochs.began"]) == len(found["epochs.ended"]) == summary["passes"] - 1
    assert all(each["why"] for each in found["epochs.ended"])
    last = found["epoch.made"][-1]
    assert len(last["met"]) == len(last["enough"]) == 1


def test_spills_of_rows_at_rest_are_written_anew(files, tmp_path):
    with tracing(tmp_path / "trace"):
        run(files[1], SPILLING_BYTES, solver="llsvm", tol=0.001)
    n_active, n_kept, in_epochs, is_rewritten, rewritten = 0, 0, False, False, 0
    for each in events_of(tmp_path / "trace"):
        if each["event"] == "epochs.began":
            in_epochs, n_epochs, n_kept, is_rewritten = True, 0, each["rows"], False
        elif each["event"] == "epochs.ended":
            in_epochs = False
        elif each["event"] == "survivors.selected" and not in_epochs:
            n_active = each["free_or_violating"]
        elif each["event"] == "survivors.selected":
            assert n_epochs == 0
            assert not is_rewritten
            assert each["in_memory"] + each["spilled"] < n_kept
            is_rewritten, rewritten = True, rewritten + 1
        elif each["event"] == "epoch.made":
            assert is_rewritten == (2 * n_active < n_kept)
            n_epochs += 1
    assert rewritten


def test_reservations_add_up(files, tmp_path):
    with tracing(tmp_path / "trace"):
        run(files[1], SPILLING_BYTES, solver="llsvm", tol=0.01)
    held = 0
    for each in events_of(tmp_path / "trace"):
        if each["event"] in ("memory.reserved", "memory.released"):
            held += each["bytes"] if each["event"] == "memory.reserved" else -each["bytes"]
            assert each["left_bytes"] == SPILLING_BYTES - held >= 0


def test_a_refusal_is_the_end_of_the_trace(files, tmp_path):
    with pytest.raises(BudgetError) as refused, tracing(tmp_path / "trace"):
        run(files[1], 900_000, solver="llsvm")
    events = events_of(tmp_path / "trace")
    require_documented(events)
    assert events[-1]["event"] == "run.failed"
    assert events[-1]["why"] == str(refused.value)
    assert by_event(events)["memory.smallest"][-1]["bytes"] == refused.value.smallest_bytes
    assert by_event(events)["memory.refused"][-1]["limit_bytes"] == 900_000


@pytest.mark.parametrize(
    ("options", "event"),
    [
        ({"solver": "smsvm", "penalty": "l1"}, "newton.pass"),
        ({"solver": "nesvm"}, "smoothing.lowered"),
        ({"loss": "squared_hinge", "solver": "llsvm", "C": 1e4}, "newton.ended"),
    ],
)
def test_other_methods(small, tmp_path, options, event):
    with tracing(tmp_path / "trace"):
        run(small, **options)
    events = events_of(tmp_path / "trace")
    require_documented(events)
    assert event in by_event(events)


def test_lines_are_in_the_file_at_once(tmp_path):
    with tracing(tmp_path / "trace"):
        trace("one", number=np.float64(1.5), array=np.arange(2), infinite=np.inf, text=np.dtype("f4"))
        (line,) = events_of(tmp_path / "trace")
    assert line.pop("seconds") >= 0.0
    assert line == {"event": "one", "number": 1.5, "array": [0, 1], "infinite": None, "text": "float32"}


def test_traces_within_each_other():
    outer, inner = [], []
    with traced_by(outer.append):
        with traced_by(inner.append):
            trace("inner")
        trace("outer")
    trace("nowhere")
    assert [json.loads(line)["event"] for lines in (inner, outer) for line in lines] == ["inner", "outer"]


# -- the file ----------------------------------------------------------------------------------------------------


def test_a_full_disk_ends_the_trace_but_not_the_training(small, tmp_path):
    with pytest.raises(DiskError, match=r"/dev/full: No space left on device"), llsvm.tracing("/dev/full"):
        summary = run(small)
    assert summary["converged"]


@pytest.mark.parametrize("path", ["-", "s3://bucket/trace", "nowhere/trace"])
def test_what_is_no_file_for_lines_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=path), tracing(path):
        pytest.fail("it was opened")
    assert not is_tracing()


def llsvm_command(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_command_line(small, tmp_path):
    model, file = tmp_path / "model", tmp_path / "trace"
    assert llsvm_command("train", small, "--model", model, "--quiet", "--trace", file).exit_code == 0
    events = events_of(file)
    require_documented(events)
    assert events[-1]["event"] == "training.ended"
    full = llsvm_command("train", small, "--model", tmp_path / "other", "--quiet", "--trace", "/dev/full")
    assert full.exit_code == EXIT_LIMIT
    assert "/dev/full: No space left" in full.stderr
    assert (tmp_path / "other").read_bytes() == model.read_bytes()


def test_no_other_file_of_the_command_is_overwritten(small, tmp_path):
    before, model = small.read_bytes(), tmp_path / "model"
    for file in (small, model):
        done = llsvm_command("train", small, "--model", model, "--trace", file)
        assert done.exit_code == EXIT_USAGE
        assert "choose another name" in done.stderr
    assert small.read_bytes() == before
    assert not model.exists()


@pytest.mark.parametrize("command", ["tune", "path"])
def test_other_commands_that_train(command, small, tmp_path):
    file, model = tmp_path / "trace", tmp_path / "model"
    words = {"tune": ["--model", model, "--C", "0.1,1", "--folds", "2"], "path": ["--points", "2"]}[command]
    assert llsvm_command(command, small, *words, "--quiet", "--trace", file).exit_code == 0
    events = events_of(file)
    require_documented(events)
    assert "pass.measured" in by_event(events)


def test_a_spill_is_not_written_anew_where_the_disk_has_no_room_for_both(files, tmp_path):
    options = {"solver": "llsvm", "tol": 0.001}
    with tracing(tmp_path / "trace"):
        peak = run(files[1], SPILLING_BYTES, **options)["peak_disk_bytes"]
    rewritten = sum(1 for each in events_of(tmp_path / "trace") if each["event"] == "survivors.selected")
    with tracing(tmp_path / "limited"):
        summary = run(files[1], SPILLING_BYTES, **options, disk_limit=peak - 1)
    events = by_event(events_of(tmp_path / "limited"))
    assert "spill.refused" not in events
    assert len(events["survivors.selected"]) - summary["passes"] < rewritten
    assert summary["converged"]
    assert summary["peak_disk_bytes"] < peak
