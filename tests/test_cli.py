"""The command line: what it writes to standard output and standard error, and the exit codes it promises."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import rich.console
from typer.testing import CliRunner, Result

import llsvm
from llsvm import errors
from llsvm.cli import app
from llsvm.cli.demo import write_data
from llsvm.cli.options import parse_class_weight
from llsvm.cli.output import _go_dark, display
from llsvm.errors import BudgetError, SpillError, UsageError
from llsvm.models.model import Model
from llsvm.objective.certificate import Certificate
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.stream.progress import Progress
from llsvm.training.progress_display import Meter, report_line

PROGRAM = [sys.executable, "-c", "from llsvm.cli import main; main()"]
DATA = "1 1:1 3:2\n-1 2:1\n1 1:0.5\n-1 2:2 3:-1\n"


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def start(*args: object, **kwargs) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*PROGRAM, *map(str, args)], **(pipes | kwargs))


@pytest.fixture
def data(tmp_path) -> Path:
    path = tmp_path / "data.svm"
    path.write_text(DATA)
    return path


@pytest.fixture
def model(tmp_path) -> Path:
    path = tmp_path / "m.llsvm"
    certificate = Certificate((2.0,), (1.5,), 1)
    Model(
        np.array([[1.0, -1.0, 0.0]]),
        np.zeros(1),
        np.array([-1.0, 1.0]),
        certificate,
        settings={"loss": "hinge", "C": 1.0, "class_weight": {"1": 2.0}},
        history=[{"passes": 1, "primal": 2.0, "dual": 1.5, "relative_gap": 0.25, "seconds": 0.5}],
    ).save(path)
    return path


def example_progress() -> SimpleNamespace:
    return SimpleNamespace(
        phase="pass", passes=2, rows_done=0, rows_total=1000, bytes_done=0, bytes_total=100,
        relative_gap=float("nan"), survivors=0, used_bytes=200_000_000, limit_bytes=300_000_000,
    )  # fmt: skip


class FakeTraining:
    """Stands in for class Training: what the command line does must not depend on a solver."""

    converged = True
    defaults = ""
    error: BaseException | None = None

    def __init__(self, source, settings, output=None, checkpoints=None) -> None:
        self.settings = settings
        self.progress = example_progress()
        self.model = Model(np.ones((1, 3)), np.zeros(1), np.array([-1.0, 1.0]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __iter__(self):
        yield Report("read", 0)
        if self.error:
            raise self.error
        yield Report("pass", 1, certificate=Certificate((2.0,), (1.5,), 1), survivors=3)

    def finish(self, output):
        self.model.save(output)

    def keep_state(self):
        return ""

    def summary(self):
        return {
            "converged": self.converged, "primal": 2.0, "dual": 1.5, "relative_gap": 0.25, "passes": 1,
            "rows": 4, "features": 3, "classes": [-1, 1], "target": None, "bytes_read": 60, "peak_rss_bytes": 10**8,
            "pruned": None, "leave_one_out": None,
            "seconds": 0.5, "advice": "the columns are not scaled: pass --scale standard",
        }  # fmt: skip


@pytest.fixture
def fake(monkeypatch) -> type[FakeTraining]:
    class Fake(FakeTraining):
        pass

    monkeypatch.setitem(sys.modules, "llsvm.training.training", SimpleNamespace(Training=Fake))
    return Fake


def test_help_is_instant_and_lists_exit_codes():
    began = os.times().children_user
    done = subprocess.run([*PROGRAM, "--help"], capture_output=True, text=True, check=True)
    assert os.times().children_user - began < 1  # 0.1 s of processor, whoever else wants one
    assert "Exit codes" in done.stdout
    code = "import sys, llsvm.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "pyarrow", "sklearn", "h5py", "rich"} & set(loaded.stdout.split())


def test_every_command_explains_itself():
    assert run("--version").stdout == f"llsvm {llsvm.__version__}\n"
    for command in ("train", "predict", "evaluate", "inspect", "export", "import", "demo"):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert "Exit codes" in result.stdout


def test_train_answers_with_json(fake, data, tmp_path):
    result = run("train", data, "--model", tmp_path / "new", "--json", "--max-passes", "0")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["relative_gap"] == 0.25
    assert "pass 1: within 25.000% of the optimum, objective 2, 3 active rows" in result.stderr
    assert Model.load(tmp_path / "new").n_features_in_ == 3
    quiet = run("train", data, "--model", tmp_path / "new", "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert json.loads(run("train", data, "--model", tmp_path / "new", "--quiet", "--json").stdout)[
        "converged"
    ]


def test_not_converged_is_said_and_the_model_written(fake, data, tmp_path):
    fake.converged = False
    result = run("train", data, "--model", tmp_path / "new", "--quiet")
    assert result.exit_code == errors.EXIT_NOT_CONVERGED
    assert "not converged" in result.stdout
    assert (
        "not converged to the tolerance: the columns are not scaled: pass --scale standard" in result.stderr
    )
    assert (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (BudgetError("weights", 10, 20_000_000, {"weights": 5}), 4, "--memory-limit 20MB"),
        (SpillError("page 3 is damaged"), 6, "page 3 is damaged"),
        (MemoryError(), 4, "no memory left"),
        (FileNotFoundError(2, "No such file", "gone.svm"), 3, "gone.svm: No such file"),
        (OSError(28, "No space left on device"), 4, "No space left"),
        (ZeroDivisionError("oops"), 1, "internal error: ZeroDivisionError: oops .*LLSVM_DEBUG"),
        (KeyboardInterrupt(), 130, "stopped by SIGINT"),
    ],
)
def test_whatever_happens_has_a_message_and_a_code(fake, data, tmp_path, error, code, words):
    fake.error = error
    result = run("train", data, "--model", tmp_path / "new", "--quiet")
    assert result.exit_code == code
    assert re.search(words, result.stderr)
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ("train DATA --model no/such/folder/m", 2, "does not exist"),
        ("train DATA --model DATA", 2, "would overwrite"),
        ("train DATA --model -", 2, "-: this is no output for a pipe"),
        ("convert DATA - --to parquet", 2, "-: this is no output for a pipe"),
        ("train DATA --model new --memory 999TB", 2, "a memory limit of 999TB is more than the"),
        ("evaluate MODEL DATA --memory 999TB", 2, "a memory limit of 999TB is more than the"),
        ("train DATA --model new --bias much", 2, "--bias must be auto or a number, not 'much'"),
        ("train DATA --model new -C -1", 2, "C must be a positive number"),
        ("train DATA --model new -C much", 2, "-C"),
        ("train DATA --model new --loss round", 2, "loss must be one of"),
        ("train DATA --model new --class-weight 7", 2, "LABEL=FACTOR"),
        ("train DATA", 2, "--model"),
        ("train gone --model new", 3, "gone"),
        ("train gone --label y --model new", 3, "gone: cannot be read: No such file"),
        ("train gone/ --features a,b --model new", 3, "gone/: cannot be read: No such file"),
        ("predict gone DATA", 3, "no such model"),
        ("predict DATA DATA", 3, "not an llsvm model"),
        ("predict MODEL gone", 3, "gone"),
        ("predict MODEL MODEL", 3, "a model of llsvm, not svmlight"),
        ("predict MODEL DATA --output no/such/p", 2, "does not exist"),
        ("predict MODEL DATA --output MODEL", 2, "would overwrite"),
        ("predict MODEL DATA --memory 5MB", 4, "pass --memory-limit"),
        ("predict MODEL DATA --memory much", 2, "not a size"),
        ("predict MODEL DATA --zero-based perhaps", 2, "--zero-based must be one of auto, yes, no"),
        ("evaluate MODEL DATA --memory 5MB", 4, "pass --memory-limit"),
        ("inspect gone", 3, "gone"),
        ("export MODEL new --to cobol", 2, "liblinear"),
        ("import DATA --model new", 3, "not a LIBLINEAR model"),
        ("demo --size 100000TB", 4, "are needed"),
        ("nonsense", 2, "llsvm has no command nonsense"),
    ],
)
def test_mistakes_are_explained(data, model, args, code, words):
    names = {"DATA": str(data), "MODEL": str(model)}
    result = run(*(names.get(word, word) for word in args.split()))
    assert result.exit_code == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not Path("new").exists()


def test_predict_writes_labels_and_scores(data, model, tmp_path):
    assert run("predict", model, data).stdout == "1\n-1\n1\n-1\n"
    assert run("predict", model, data, "--scores").stdout == "1\t1.0\n-1\t-1.0\n1\t0.5\n-1\t-2.0\n"
    result = run("predict", model, data, "--output", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "out").read_text() == "1\n-1\n1\n-1\n"
    result = run("predict", model, data, "--zero-based", "yes")
    assert result.stdout == "-1\n-1\n-1\n-1\n"


def test_a_failed_prediction_leaves_the_old_output(model, tmp_path):
    (tmp_path / "bad").write_text("1 1:1\n1 hello\n")
    (tmp_path / "out").write_text("old")
    assert run("predict", model, tmp_path / "bad", "--output", tmp_path / "out").exit_code == 3
    assert (tmp_path / "out").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad", "m.llsvm", "m.llsvm.log.json", "out"]


def test_evaluate(data, model):
    answer = json.loads(run("evaluate", model, data, "--json").stdout)
    assert (answer["accuracy"], answer["rows"]) == (1.0, 4)
    table = run("evaluate", model, data).stdout
    assert "accuracy 100.0000%: 4 of 4 rows" in table
    assert "precision" in table
    data.write_text(DATA + "5 1:1\n")
    assert "1 rows have labels that the model does not know: 5 (1)" in run("evaluate", model, data).stdout


def test_inspect_says_what_training_with_the_same_options_would_do(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("size,kind\n" + "".join(f"{i * 100},{'ab'[i % 2]}\n" for i in range(40)))
    said = {
        (): "columns scaled to mean 0 and variance 1, bias 1",
        ("--feature-map", "rff"): "table: columns as they are (a kernel or a feature map takes no --scale",
        ("--scale", "maxabs"): "table: bias 1 (--bias 0 for none)",
        ("--scale", "none"): "Values reach 3900: training on unscaled columns is slow",
    }
    for options, sentence in said.items():
        shown = " ".join(run("inspect", table, "--label", "kind", *options).stdout.split())
        assert sentence in shown, options
        assert ("variance 1" in shown) == (options == ()), options
    shown = " ".join(run("inspect", table, "--label", "kind", "--positive", "c").stdout.split())
    assert "rows.csv: no row has the label 'c' (--positive)" in shown
    assert "one class" not in shown


def test_inspect_tells_what_is_missing_and_that_there_is_no_label(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,town,kind\n1,Rome,u\n,,v\n3,Oslo,u\nNA,Rome,u\n")
    answer = json.loads(run("inspect", table, "--json").stdout)
    assert (answer["labelled"], answer["classes"]) == (False, {})
    assert {column["name"]: column["missing"] for column in answer["columns"]} == {
        "a": 2,
        "town": 1,
        "kind": 0,
    }
    shown = run("inspect", table).stdout
    assert "No column is known to hold the labels: pass --label with its name (it could be" in shown
    assert "100.00%" not in shown
    assert "Values are missing in a, town: training refuses them" in shown
    assert re.search(r"town +string +text +1 +2 +yes +Rome, Oslo", shown)
    named = run("inspect", table, "--label", "kind")
    assert re.search(r"u +3 +75.00%", named.stdout)
    np.save(tmp_path / "x.npy", np.eye(3))
    assert "no labels in it" in run("inspect", tmp_path / "x.npy").stdout


def test_text_goes_to_standard_output_where_that_is_asked_for(model, data):
    exported = run("export", model, "-")
    assert exported.exit_code == 0
    assert exported.stdout.startswith("solver_type")
    for asked in ([], ["--to", "svmlight"]):
        converted = run("convert", data, "-", *asked)
        assert (converted.exit_code, converted.stdout) == (0, DATA)
        assert "4 rows written" in converted.stderr


def test_inspect_a_model(model, tmp_path):
    answer = json.loads(run("inspect", model, "--json").stdout)
    assert answer["kind"] == "model"
    assert answer["certificate"]["relative_gap"] == 0.25
    assert answer["largest_weights"] == [
        {"class": "1", "feature": "1", "weight": 1.0},
        {"class": "1", "feature": "2", "weight": -1.0},
    ]
    text = run("inspect", model).stdout
    assert "within 25.000% of the optimum" in text
    assert "class_weight" in text
    assert "loss" not in text
    assert "Features are ranked by weight" in text
    assert "loss" in run("inspect", model, "--all-settings").stdout
    assert run("export", model, tmp_path / "text").exit_code == 0
    assert "L2R_L1LOSS_SVC_DUAL" in (tmp_path / "text").read_text()
    assert "imported" in run("inspect", tmp_path / "text").stdout
    assert run("import", tmp_path / "text", "--model", tmp_path / "back").exit_code == 0
    assert Model.load(tmp_path / "back").coef_.tolist() == [[1.0, -1.0, 0.0]]


def test_inspect_a_model_whose_columns_were_chosen(tmp_path):
    table, model = tmp_path / "t.csv", tmp_path / "m"
    table.write_text("a,id,town,y\n1,1,3,0\n2,2,4,1\n0,3,3,0\n3,4,4,1\n")
    chosen = ["--features", "a,id,town", "--exclude", "id", "--categorical", "town"]
    assert run("train", table, "--model", model, *chosen, "--class-weight", "1=2").exit_code == 0
    shown = run("inspect", model)
    assert shown.exit_code == 0, shown.stderr
    assert re.search(r"exclude +id *\n", shown.stdout)
    assert re.search(r"features +a, id, town *\n", shown.stdout)
    assert re.search(r"class_weight +1=2 *\n", shown.stdout)
    assert re.search(r"lambda1 +- *\n", run("inspect", model, "--all-settings").stdout)


def test_inspect_data(data):
    answer = json.loads(run("inspect", data, "--json").stdout)
    expected = {"rows": 4, "features": 3, "nonzeros": 6, "density": 0.5, "largest_value": 2.0}
    assert {name: answer[name] for name in expected} == expected
    assert answer["classes"] == {"-1": 2, "1": 2}
    assert answer["smallest_memory_bytes"] <= answer["in_memory_bytes"]
    assert answer["plan"]["in_memory"]
    assert answer["plan"]["block_rows"] == 4
    assert sum(answer["plan"]["lines"].values()) <= answer["plan"]["memory_limit_bytes"]
    assert "--memory-limit" in run("inspect", data).stdout


def test_inspect_tells_what_training_with_the_same_options_needs(data):
    def smallest(*options):
        """In a process of its own: what this one holds would count, and changes from call to call."""
        process = start("inspect", data, "--memory-limit", "2GB", "--json", *options)
        answer = json.loads(process.communicate()[0])
        return answer["smallest_memory_bytes"], answer["plan"]["solver"]

    plain, solver = smallest()
    assert solver == "llsvm"
    assert smallest("--kernel", "rbf")[1] == "smo"
    joint = smallest("--multiclass", "crammer-singer")
    assert joint == (plain + 20_000_000, "sequential-dual")  # what compiling takes


def test_inspect_says_what_no_limit_can_mend(tmp_path):
    (tmp_path / "one.svm").write_text("1 1:1\n1 2:1\n")
    answer = json.loads(run("inspect", tmp_path / "one.svm", "--json").stdout)
    assert (answer["rows"], answer["plan"], answer["smallest_memory_bytes"]) == (2, None, None)
    assert "all 2 rows have the same label" in answer["untrainable"]
    assert "It cannot be trained on: " in run("inspect", tmp_path / "one.svm").stdout


def test_inspect_under_a_limit_that_is_too_small(data):
    limit = ["--multiclass", "crammer-singer", "--memory-limit", "280MB"]
    answer = json.loads(run("inspect", data, *limit, "--json").stdout)
    assert not answer["plan"]["enough"]
    assert answer["smallest_memory_bytes"] >= 290_000_000
    assert "280MB is not enough" in run("inspect", data, *limit).stdout


def test_a_reader_that_goes_away_is_no_error(model, tmp_path):
    write_data(tmp_path / "big", 12_000_000, seed=0)  # its scores are far more than a pipe holds
    process = start("predict", model, tmp_path / "big", "--scores")
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141


def test_a_table_whose_reader_goes_away_is_no_error(model, data):
    end, pipe = os.pipe()
    os.close(end)
    process = start("evaluate", model, data, stdout=pipe)
    os.close(pipe)
    assert process.communicate()[1] == ""
    assert process.returncode == 141


def test_full_output_is_the_limit_code(model, data):
    with open("/dev/full", "w") as full:
        process = start("predict", model, data, stdout=full)
        assert "No space left" in process.communicate()[1]
    assert process.returncode == 4


SLEEPER = """
import sys, time
from types import SimpleNamespace
from pathlib import Path
from llsvm.process.signals import register_cleanup
from test_cli import FakeTraining

class Sleeper(FakeTraining):
    def __enter__(self):
        Path(sys.argv[2] + ".spill").touch()
        register_cleanup(self.clean)
        return self
    def clean(self):
        print("cleaning", file=sys.stderr, flush=True)
        time.sleep(0.3)
        Path(sys.argv[2] + ".spill").unlink()
    def save_so_far(self, path):
        return ""
    def __iter__(self):
        yield from super().__iter__()
        time.sleep(30)

sys.modules["llsvm.training.training"] = SimpleNamespace(Training=Sleeper)
from llsvm.cli import main
main()
"""


def sleeper_env() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{Path(llsvm.__file__).parents[1]}:{Path(__file__).parent}"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_clean_up_even_when_they_come_twice(data, tmp_path, number):
    (tmp_path / "new").write_text("old")
    command = [sys.executable, "-c", SLEEPER, "train", data, "--model", tmp_path / "new"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=sleeper_env())
    while "pass 1" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    assert "cleaning" in process.stderr.readline()
    process.send_signal(number)
    assert f"stopped by {number.name}" in process.stderr.read()
    assert process.wait() == 128 + number
    assert (tmp_path / "new").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.svm", "new"]


def test_the_live_line_tells_speed_and_time():
    now = 0.0
    progress = example_progress()
    meter = Meter(progress, Settings(tol=0.001, max_passes=20), clock=lambda: now)
    memory = "memory 200.0 MB of 300.0 MB"
    assert meter.words() == (["pass 3", "0 of 1,000 rows"], [memory, "0 s so far"])
    now, progress.rows_done, progress.bytes_done = 2.0, 100, 50
    assert meter.words() == (
        ["pass 3", "100 of 1,000 rows (50/s)", "50 B of 100 B"],
        [memory, "2 s so far", "18 s left in this pass"],
    )
    progress.passes, progress.bytes_done = 3, 0
    meter.words()
    for now, gap in ((10.0, 0.4), (20.0, 0.04)):  # noqa: B007
        meter.note(Report("pass", 2, certificate=Certificate((1.0,), (1.0 - gap,), 2)))
    now, progress.rows_done, progress.relative_gap, progress.survivors = 22.0, 500, 0.04, 17
    assert meter.words() == (
        ["pass 4", "500 of 1,000 rows (20/s)"],
        ["gap 4.000%", "17 survivors", memory, "22 s so far", "about 18 s left"],
    )
    progress.phase, progress.rows_done, progress.rows_total = "survivors", 0, 17
    assert meter.words()[0] == ["epochs over survivors, before pass 4", "17 rows"]
    assert meter.render() is not None


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"max_passes": 200}, 190 * 10.0),
        ({"max_passes": None}, None),
        ({"max_passes": None, "max_seconds": 300}, 280.0),
        ({"max_passes": 200, "max_seconds": 300}, 280.0),
    ],
)
def test_a_gap_that_hardly_shrinks_tells_no_time(limits, left):
    now = 0.0
    progress = example_progress()
    progress.passes = 10
    meter = Meter(progress, Settings(**limits), clock=lambda: now)
    for now, gap in ((10.0, 0.5), (20.0, 0.49999)):  # noqa: B007
        meter.note(Report("pass", 2, certificate=Certificate((1.0,), (1.0 - gap,), 2)))
    assert meter.seconds_left() == left


def test_nothing_is_drawn_once_a_signal_has_come(capfd):
    out = io.StringIO()
    console = rich.console.Console(file=out)
    console.print("before")
    assert _go_dark(console) == ""
    console.print("after")
    assert out.getvalue() == "before\n"
    assert capfd.readouterr().err.endswith("\x1b[?25h")


def test_a_terminal_gets_a_live_display(data, tmp_path):
    ours, terminal = pty.openpty()
    command = [sys.executable, "-c", SLEEPER, "train", data, "--model", tmp_path / "new"]
    env = sleeper_env() | {"TERM": "xterm", "COLUMNS": "150"}
    process = subprocess.Popen(command, stderr=terminal, env=env)
    os.close(terminal)
    seen = ""
    while "0 of 1,000 rows" not in seen or "objective 2" not in seen:
        seen += os.read(ours, 10_000).decode()
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # nobody is at the other end any more; before, a full terminal would hold it up
        while more := os.read(ours, 10_000):
            seen += more.decode()
    assert process.wait() == 130
    os.close(ours)
    assert "memory 200.0 MB of 300.0 MB" in seen
    assert seen.rstrip().endswith("outputs are untouched")
    assert "\x1b[?25h" in seen  # the cursor is back


def test_report_lines():
    assert report_line(Report("read", 0, note="spilling")).startswith("read: memory ")
    assert "spilling" in report_line(Report("read", 0, note="spilling"))
    assert report_line(Report("epoch", 3, survivors=1234)).startswith("epoch 3: 1,234 survivors, memory ")


def test_class_weights():
    assert parse_class_weight([]) is None
    assert parse_class_weight(["balanced"]) == "balanced"
    assert parse_class_weight(["1=2.5", "a=b=3"]) == {"1": 2.5, "a=b": 3.0}
    for words in (["balanced", "1=2"], ["1"], ["1="], ["1=x"]):
        with pytest.raises(UsageError):
            parse_class_weight(words)


def test_from_data_to_predictions(tmp_path):
    data, model = tmp_path / "data.svm", tmp_path / "m.llsvm"
    write_data(data, 200_000, seed=1)
    result = run("train", data, "--model", model, "-C", "0.1", "--json", "--quiet")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary["dual"] <= summary["primal"] * (1 + 1e-12)  # both to the last digits, as the data is small
    assert summary["relative_gap"] <= 1e-3
    assert json.loads(run("evaluate", model, data, "--json").stdout)["accuracy"] > 0.9
    assert json.loads(run("inspect", model, "--json").stdout)["certificate"]["primal"] == summary["primal"]
    first = model.read_bytes()
    run("train", data, "--model", model, "-C", "0.1", "--quiet", "--spill-dir", tmp_path)
    assert model.read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.svm", "m.llsvm", "m.llsvm.log.json"]


def test_a_killed_training_leaves_nothing_behind(tmp_path):
    data = tmp_path / "data.svm"
    write_data(data, 3_000_000, seed=1)
    process = start(
        "train",
        data,
        "--model",
        tmp_path / "m",
        "--cache",
        "always",
        "--spill-dir",
        tmp_path,
        "--tol",
        "1e-15",
    )
    while "pass 1" not in (line := process.stderr.readline()):
        assert line
    process.terminate()
    assert "stopped by SIGTERM" in process.stderr.read()
    assert process.wait() == 143
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.svm", "m", "m.log.json"]  # the model so far


def test_the_demo_runs_and_removes_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = run("demo", "--size", "300kB", "--memory", "2GB", "--quiet")
    assert result.exit_code == 0
    assert "converged" in result.stdout
    assert "stayed below" in result.stdout
    assert list(tmp_path.iterdir()) == []
    assert (
        run("demo", "--size", "300kB", "--memory", "2GB", "--quiet", "--keep", tmp_path / "kept").exit_code
        == 0
    )
    assert (tmp_path / "kept" / "demo.llsvm").exists()


def test_a_log_has_one_line_for_the_epochs_between_two_passes(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    with display(Progress(), Settings()) as show:
        for resumable in (False, False, True):
            show(Report("epoch", 3, survivors=1234, resumable=resumable))
    assert capsys.readouterr().err.count("epoch 3") == 1


def test_a_shell_completes_commands_and_options():
    for words, expected in (("llsvm ev", "evaluate"), ("llsvm evaluate --thr", "--thresholds")):
        asked = {"_LLSVM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        command = [sys.executable, "-m", "llsvm"]
        told = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)
        assert told.stdout.split() == [expected]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ('"x,1":town', ("x,1:town",)),
        ('town:"x,1",a:b', ("town:x,1", "a:b")),
        ('"x,1:town", b ', ("x,1:town", "b")),
        ('"a ""q"" b",c', ('a "q" b', "c")),
        ('5" pipe, x: y ,"a"b', ('5" pipe', "x: y", '"a"b')),
        (" :a,,a:", (":a", "a:")),
    ],
)
def test_names_between_commas_and_colons(typed, names):
    from llsvm.cli.options import names_in

    assert names_in(typed) == names
