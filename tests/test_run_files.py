"""``llsvm run``: files of steps, what they may say, what their steps do, and which model stays."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from guide_texts import ROOT
from typer.main import get_command
from typer.testing import CliRunner

from llsvm.cli import app
from llsvm.cli.options import holds_names, names_in, settings_of
from llsvm.cli.run_file import PLACES, read_run, save_run
from llsvm.errors import UsageError
from llsvm.settings.option import Option
from llsvm.settings.settings import OPTIONS

CONFIGS = [path for path in sorted((ROOT / "configs").glob("*.toml")) if path.name != "bench.toml"]
TRAINS = '[[step]]\ncommand = "train"\n'
EVALUATES = '[[step]]\ncommand = "evaluate"\nfiles = "test.csv"\n'
TUNES = '[[step]]\ncommand = "tune"\nfiles = "train.csv"\nlabel = "label"\nmodel = "m"\n'
CHOOSES = TUNES + 'C = "0.1,1"\n'
PREDICTS = '[[step]]\ncommand = "predict"\noutput = "p.txt"\n'
SHARED = """
[data]
files = ["train.csv"]
label = "label"
[model]
path = "m"
C = 0.5
[limits]
memory-limit = "500MB"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rows = [f"{i % 7 - 3},{i % 5},{1 if i % 7 > 2 else -1}\n" for i in range(70)]
    (tmp_path / "train.csv").write_text("".join(["x,y,label\n", *rows]))
    (tmp_path / "test.csv").write_text("".join(["x,y,label\n", *rows[:35]]))
    other = tmp_path / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)  # paths begin in the folder of the run file
    return tmp_path


def ran(folder, text, *options, name="run.toml"):
    (folder / name).write_text(text)
    done = CliRunner().invoke(app, ["run", str(folder / name), *options])
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.exit_code, lines, done.stderr


def refused(folder, text):
    code, lines, said = ran(folder, text, "--dry-run")
    assert (code, lines) == (2, []), said
    return said


def test_steps_share_what_the_sections_say(folder):
    steps = (
        f'{TRAINS}C = 2\nintercept = true\n[[step]]\ncommand = "verify"\n{EVALUATES}memory_limit = "1GB"\n'
    )
    code, lines, _ = ran(folder, SHARED + steps, "--dry-run")
    assert code == 0
    assert [each["line"] for each in lines[1:]] == [
        "llsvm verify --memory-limit=500MB --label=label --json -- m train.csv",
        "llsvm evaluate --memory-limit=1GB --label=label --json -- m test.csv",
    ]
    words = lines[0]["line"].split()
    assert words[:2] == ["llsvm", "train"]
    assert words[-2:] == ["--", "train.csv"]
    assert "--intercept" in words
    assert words[words.index("-C") + 1] == "2"
    assert "--model=m" in words
    assert not (folder / "m").exists()


def test_what_a_step_says_comes_before_what_the_sections_say(folder):
    own = 'data = "test.csv"\nmodel = "other"\n'
    steps = "".join(
        f'[[step]]\ncommand = "{name}"\n{own}output = "out"\n'
        if name in ("report", "predict")
        else f'[[step]]\ncommand = "{name}"\n{own}'
        for name in ("report", "predict", "evaluate", "verify")
    )
    shared = SHARED.replace("C = 0.5", "")
    code, lines, said = ran(folder, shared + steps, "--dry-run")
    assert code == 0, said
    assert len(lines) == 4
    for each in lines:
        assert "train.csv" not in each["line"]
        assert "test.csv" in each["line"]
        assert " other" in each["line"]
    report = '[[step]]\ncommand = "report"\n'
    several = f'{report}data = ["test.csv", "more.csv"]\n'
    line = ran(folder, shared + several, "--dry-run")[1][0]["line"]
    assert "--data=test.csv --data=more.csv" in line
    assert "train.csv" not in line
    twice = refused(folder, f'{shared}{report}data = "a"\nfiles = "b"\n')
    assert "line 13: files are the data: leave one of the two out" in twice


def test_models_are_compared_by_the_first_evaluation_of_them_and_not_of_another_one(folder):
    steps = TRAINS + EVALUATES + 'model = "other"\n'
    text = SHARED.replace("C = 0.5", "C = 0.5\nkeep-if-worse-by = 0.01") + steps
    assert "keep-if-worse-by needs the path of [model]" in refused(folder, text)
    lines = ran(folder, text + EVALUATES, "--dry-run")[1]
    assert [each["line"].split()[-2:] for each in lines[1:]] == [["other", "test.csv"], ["m.new", "test.csv"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no steps"),
        ("[data\n", "no TOML: "),
        ("a = " + "[" * 100_000, "no TOML: "),
        ("#" * (1 << 20), "has 1,048,576 characters or more, so it is no run file"),
        ("C = 1\n" + TRAINS, "line 1: a run file has no section C; there are data, model, limits, step"),
        ("[dat]\n" + TRAINS, "line 1: a run file has no section dat; did you mean data"),
        ("\n[model]\nCC = 1\n" + TRAINS, "line 3: [model] has no key CC; did you mean C"),
        ("[model]\nlabel = 'y'\n" + TRAINS, "line 2: label belongs into [data], not [model]"),
        ("[model]\npath = 3\n" + TRAINS, "line 2: path must be a path, not 3"),
        ("[[step]]\nfiles = 'a'\n", "line 1: a step needs a command"),
        ("[[step]]\ncommand = 'trian'\n", "line 2: no step can be 'trian'; did you mean train"),
        ("[[step]]\ncommand = 'run'\n", "line 2: no step can be 'run'"),
        (
            SHARED + TRAINS + "\nmax_pases = 3\n",
            "line 13: train has no option max_pases; did you mean max_passes",
        ),
        (
            SHARED + TRAINS + "max_passes = 'many'\n",
            "line 12: train: max_passes must be a whole number, not 'many'",
        ),
        (SHARED + TRAINS + "quiet = 1\n", "line 12: quiet must be true or false, not 1"),
        (SHARED + TRAINS + "path = 'p'\n", "no option path: it stands in [model], and a step's own is model"),
        (SHARED + TRAINS + "metric = 'r2'\n", "line 12: train has no option metric: it stands in [model]"),
        (
            SHARED + TRAINS + "class-weight = { yes = 2 }\n",
            "line 12: class_weight must be a text or a number (balanced|LABEL=FACTOR...), not {'yes': 2}",
        ),
        (SHARED + TRAINS + "header = true\n", "header must be a text or a number (auto|yes|no), not True"),
        (SHARED + TRAINS + "loss = 'hing'\n", "line 10: train: --loss must be"),
        (
            SHARED + TRAINS + "accept = 5\n",
            "line 12: accept must be a list of exit codes, such as [5], not 5",
        ),
        (TUNES + "loss = ['hinge', 'hing']\n", "line 1: tune: --loss must be"),
        (SHARED + "scale = 'none'\n" + TRAINS, "line 10: scale belongs into"),
        (TRAINS, "line 1: train needs files, in the step or in [data]"),
        (TRAINS + "files = 'a'\n", "line 1: train needs a model: path in [model], or model in the step"),
        (SHARED + TRAINS + "files = []\n", "line 10: train needs files, in the step or in [data]"),
        (EVALUATES, "line 1: evaluate needs a model: path in [model], or model in the step"),
        ("[[step]]\ncommand = 'inspect'\n", "line 1: inspect needs files, in the step or in [data]"),
        ("[[step]]\ncommand = 'export'\nmodel = 'm'\n", "line 1: export needs path"),
        (
            "[[step]]\ncommand = 'export'\nmodel = 'm'\npath = 'p'\nfiles = 'a'\n",
            "line 5: export has no option files",
        ),
        (
            "[[step]]\ncommand = 'convert'\nfiles = 'a.csv'\noutput = 'a.svm'\n",
            'line 4: convert has no option output: the output is the last of files, such as files = ["rows.csv", ',
        ),
        (
            "[data]\nfiles = ['a.csv', 'b.parquet']\n[[step]]\ncommand = 'convert'\n",
            "line 3: convert needs files of its own, what it reads and what it writes: the output is the last",
        ),
        (
            TRAINS + "files = '${NOT_THERE}/a'\nmodel = 'm'",
            "line 3: files: the environment has no variable NOT_THERE",
        ),
        (SHARED + EVALUATES, "line 7: C is an option of no step here"),
        (SHARED + '[[step]]\ncommand = "predict"\n', "line 10: predict needs an output here"),
        (
            SHARED + '[[step]]\ncommand = "inspect"\nfiles = ["m"]\ncsv = true\n',
            "line 13: inspect: csv is another form of the answer, which is JSON here: leave it out",
        ),
        ("[model]\nmetric = 'r2'\n" + TRAINS, "line 2: metric is what keep-if-worse-by compares"),
        (
            "[model]\nkeep-if-worse-by = 0\nmetric = 'rocauc'\n" + TRAINS,
            "line 3: no model is judged by 'rocauc'; did you mean roc_auc",
        ),
        (
            "[model]\npath = 'm'\nkeep-if-worse-by = -1\n" + TRAINS,
            "line 3: keep-if-worse-by must be a number of 0",
        ),
        (
            f"[model]\npath = 'm'\nkeep-if-worse-by = 0.1\n{EVALUATES}{TRAINS}",
            "line 3: keep-if-worse-by needs the path of [model], a step that trains it, and after that a step",
        ),
    ],
)
def test_what_a_file_cannot_mean_is_named_with_its_line(folder, text, said):
    assert said in refused(folder, text)


def test_the_label_of_all_steps_is_no_column_of_rows_that_have_none_yet(folder):
    (folder / "new.csv").write_text("x,y\n2,1\n-2,1\n")
    steps = f'{TRAINS}[[step]]\ncommand = "predict"\nfiles = "new.csv"\noutput = "p.csv"\n'
    code, _, said = ran(folder, SHARED + steps)
    assert code == 0, said
    assert (folder / "p.csv").read_text().split() == ["prediction", "1", "-1"]


def test_tune_takes_lists(folder):
    code, _, said = ran(folder, TUNES + "loss = ['hinge', 'squared_hinge']\nC = '0.1,1'\n", "--dry-run")
    assert code == 0, said


def test_a_file_that_is_not_there_or_no_text_is_named(folder):
    missing = CliRunner().invoke(app, ["run", str(folder / "none.toml")])
    assert missing.exit_code == 2
    assert "none.toml: No such file" in missing.stderr
    (folder / "bytes.toml").write_bytes(b"\xff\xfe")
    binary = CliRunner().invoke(app, ["run", str(folder / "bytes.toml")])
    assert binary.exit_code == 2
    assert "no text in UTF-8" in binary.stderr


def test_a_model_that_evaluates_worse_does_not_take_the_place_of_the_old_one(folder):
    text = SHARED.replace("C = 0.5", "C = 0.5\nkeep-if-worse-by = 0.01") + TRAINS + EVALUATES
    code, lines, said = ran(folder, text, "--quiet")
    assert code == 0, said
    assert [each.get("exit_code") for each in lines] == [0, 0, None]
    assert lines[0]["answer"]["converged"]
    assert lines[1]["answer"]["accuracy"] == 1
    assert lines[2] == {"comparison": "accuracy", "new": 1.0, "old": None, "kept": "new"}
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith("m")) == ["m", "m.log.json"]
    kept = (folder / "m").read_bytes()

    turned = "\n".join(
        line if line.startswith("x") else f"{line.rpartition(',')[0]},{-int(line.rpartition(',')[2])}"
        for line in (folder / "train.csv").read_text().splitlines()
    )
    (folder / "train.csv").write_text(turned + "\n")
    code, lines, said = ran(folder, text + '[[step]]\ncommand = "verify"\n', "--quiet")
    assert code == 8
    assert lines[-1] == {"comparison": "accuracy", "new": 0.0, "old": 1.0, "kept": "old"}
    assert "the new model evaluates worse: accuracy 0, where the old one has 1, and 0.01 is allowed" in said
    assert (folder / "m").read_bytes() == kept
    assert (folder / "m.new").exists()


def test_what_to_do_about_an_old_model_that_cannot_be_evaluated_is_said(folder):
    (folder / "m").write_text("no model")
    text = SHARED.replace("C = 0.5", "C = 0.5\nkeep-if-worse-by = 0.01") + TRAINS + EVALUATES
    code, _, said = ran(folder, text, "--quiet")
    assert code == 3
    assert "could not be evaluated; it stays" in said
    assert "m.new: if that is the one you want, give it the name of the old one" in said


def test_a_byte_order_mark_and_dates_are_read_as_they_are_meant(folder):
    code, lines, said = ran(
        folder, "\ufeff" + SHARED.replace("[model]", "positive = 2024-01-31\n[model]") + TRAINS, "--dry-run"
    )
    assert code == 0, said
    assert "--positive=2024-01-31" in lines[0]["line"]


def test_the_first_failure_ends_the_run_with_its_code(folder):
    (folder / "train.csv").write_text("x,y,label\n1,2,1\n3,what,-1\n4,5,")
    code, lines, _ = ran(folder, SHARED + TRAINS + EVALUATES)
    assert code == 3
    assert [each["exit_code"] for each in lines] == [3]
    assert lines[0]["answer"] is None


def test_inspect_takes_the_files_of_all_steps_or_the_model(folder):
    inspects = '[[step]]\ncommand = "inspect"\n'
    code, lines, said = ran(folder, SHARED + TRAINS + inspects + inspects + 'file = "m"\n', "--quiet")
    assert code == 0, said
    assert lines[1]["answer"]["kind"] == "data"
    assert lines[1]["answer"]["rows"] == 70
    assert lines[1]["line"].endswith(" -- train.csv")
    assert lines[2]["line"] == "llsvm inspect --memory-limit=500MB --json -- m"
    assert lines[2]["answer"]["kind"] == "model"


@pytest.mark.parametrize("json_said", ["", "json = true\n", "json = false\n"])
def test_every_step_answers_in_its_line_whether_json_is_said_or_not(folder, json_said):
    (folder / "run.toml").write_text(SHARED + TRAINS + json_said + EVALUATES + json_said)
    command = [sys.executable, "-m", "llsvm", "run", str(folder / "run.toml"), "-q"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["answer"]["rows"] for line in done.stdout.splitlines()] == [70, 35]


def test_a_quiet_run_says_nothing_but_errors(folder):
    (folder / "zeros.svm").write_text("1 0:1\n-1 0:-1\n" * 20)  # a note says that its columns begin at 0
    steps = [
        'command = "convert"\nfiles = ["zeros.svm", "rows.parquet"]\n',
        'command = "train"\nfiles = "zeros.svm"\nmodel = "m"\n',
        'command = "evaluate"\nfiles = "zeros.svm"\nmodel = "m"\n',
        'command = "predict"\nfiles = "zeros.svm"\nmodel = "m"\noutput = "p"\n',
        'command = "report"\nmodel = "m"\noutput = "r.html"\n',
        'command = "verify"\nfiles = "zeros.svm"\nmodel = "m"\n',
    ]
    (folder / "run.toml").write_text("".join(f"[[step]]\n{each}" for each in steps))
    command = [sys.executable, "-m", "llsvm", "run", str(folder / "run.toml")]
    done = subprocess.run([*command, "-q"], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    loud = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert "40 rows written to rows.parquet" in loud.stderr


def test_a_step_reads_standard_input_which_no_second_one_can(folder):
    piped = SHARED.replace('"train.csv"', '"-"')
    (folder / "run.toml").write_text(piped + TRAINS + EVALUATES)
    with open(folder / "train.csv") as rows:
        command = [sys.executable, "-m", "llsvm", "run", str(folder / "run.toml"), "--quiet"]
        done = subprocess.run(command, stdin=rows, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["answer"]["rows"] for line in done.stdout.splitlines()] == [70, 35]
    again = "standard input can be read once only: write the data to a file"
    assert f"line 12: {again}" in refused(folder, piped + TRAINS + '[[step]]\ncommand = "verify"\n')
    compared = SHARED.replace("C = 0.5", "C = 0.5\nkeep-if-worse-by = 0.01") + TRAINS + EVALUATES
    assert f"line 15: {again}" in refused(folder, compared.replace("test.csv", "-"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_run_of_a_file_is_refused_and_a_signal_ends_the_step(folder, number):
    fifo = folder / "train.csv"
    fifo.unlink()
    os.mkfifo(fifo)  # the step waits for rows
    (folder / "run.toml").write_text(SHARED + TRAINS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "llsvm", "run", str(folder / "run.toml")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = subprocess.Popen(command, text=True, env=environment, **pipes)
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    while not (step := children.read_text().split()):
        time.sleep(0.02)
    second = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert second.returncode == 2
    assert "is being run by another process" in second.stderr
    first.send_signal(number)
    answer, said = first.communicate()
    assert first.returncode == 128 + number
    assert said.count(f"stopped by {number.name}") == 2  # the step, and the run
    assert "in step 1, train" in said
    assert not answer or json.loads(answer)["exit_code"] == 128 + number
    assert not os.path.exists(f"/proc/{step[0]}")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (CHOOSES + 'score = "kappa"\n', "--score must be one of accuracy, "),
        (CHOOSES + 'rule = "worst"\n', "--rule must be best or 1se, not 'worst'"),
        (CHOOSES + "folds = 1\n", "--folds must be a whole number, 2 or more, not 1"),
        (CHOOSES + "holdout = 2.0\n", "--holdout must be a share of the rows"),
        (CHOOSES + 'probabilities = "no"\n', "--probabilities must be "),
        (PREDICTS + "explain = true\ntop = 0\n", "--top must be 1 or more, not 0"),
        (PREDICTS + 'keep = ["x"]\n', "--keep goes with a table of predictions"),
        (EVALUATES + "thresholds = 0\n", "--thresholds must be 1 or more, not 0"),
    ],
)
def test_what_no_data_could_change_is_refused_before_the_first_step(folder, steps, words):
    assert words in refused(folder, SHARED + TRAINS + steps)


def test_a_command_line_is_saved_as_a_run_file_that_says_the_same(folder):
    options = ["--label", "label", "-C", "0.5", "--class-weight", "1=2", "--class-weight", "-1=3"]
    command = [
        "train",
        "../train.csv",
        "--model",
        "../m",
        *options,
        "--save-run",
        str(folder / "saved.toml"),
        "-q",
    ]
    assert CliRunner().invoke(app, command).exit_code == 0
    said = tomllib.loads((folder / "saved.toml").read_text())
    assert said["data"] == {"files": ["train.csv"], "label": "label"}
    assert said["model"] == {"path": "m", "C": 0.5, "class-weight": ["1=2", "-1=3"]}
    first = (folder / "m").read_bytes()
    (folder / "m").unlink()
    done = CliRunner().invoke(app, ["run", str(folder / "saved.toml")])
    assert done.exit_code == 0, done.stderr
    assert (folder / "m").read_bytes() == first


TRAIN = get_command(app).commands["train"]
TEXTS = (
    "a,b",
    "-1",
    "=1",
    "two words",
    'a "quoted" \\ one',
    "Größe",
    "\N{GRINNING FACE}",
    "tab\tnewline\n",
    "\x7f",
    "~",
    "#1",
)


def typed(param):
    """Command lines that have an option, in each form that its value can have."""
    flag = max(param.opts, key=len)
    if param.is_flag:
        return [[each] for each in (flag, *param.secondary_opts)]
    if isinstance(option := OPTIONS.get(param.name), Option) and option.choices:
        values = option.choices
    elif param.name == "class_weight":
        return [[flag, "balanced"], [flag, "a=2", flag, "b c=0.5", flag, "-1=3"]]
    elif param.type.name in ("int", "integer"):
        values = ("1", "7")
    elif param.type.name == "float":
        values = ("0.5", "1e-05", "1", "1e22")
    else:
        values = {
            **{"bias": ("auto", "1", "-0.5"), "memory_limit": ("25%", "2GB"), "disk_limit": ("10GB",)},
            **{
                "min_df": ("2", "0.5"),
                "max_df": ("2", "0.5"),
                "max_seconds": ("60",),
                "checkpoint_every": ("10min",),
            },
            "ngrams": ("1-2",),
        }.get(param.name, TEXTS)
    if param.multiple:
        return [[flag, values[0]], [word for each in values for word in (flag, each)]]
    return [[f"{flag}={each}"] if flag.startswith("--") else [flag, each] for each in values]


OWN = [each for each in TRAIN.params if each.param_type_name == "option"]
SAVED = {each.name: each for each in OWN if each.name not in ("save_run", "help", "model")}


@pytest.mark.parametrize("name", SAVED)
def test_all_that_a_command_line_says_survives(folder, name):
    """Saved and read again, the command line gives the command the same values."""
    file = folder / "saved.toml"
    for words in typed(SAVED[name]):
        given = TRAIN.make_context("train", ["../train.csv", "--model", "../m", *words])
        with given:
            save_run(given, str(file))
        try:
            settings_of({key: value for key, value in given.params.items() if key in OPTIONS}, given)
        except UsageError as error:  # then the run file is refused for the same
            with pytest.raises(UsageError, match=re.escape(str(error))):
                read_run(str(file), get_command(app).commands)
            continue
        step = read_run(str(file), get_command(app).commands).steps[0]
        again = TRAIN.make_context("train", list(step.words))
        places = {key for key, param in SAVED.items() if param.metavar in PLACES} | {
            "data",
            "model",
            "save_run",
            "json",
        }
        mine, theirs = (
            {
                k: names_in(",".join(v or ())) if holds_names(k) else v
                for k, v in one.params.items()
                if k not in places
            }
            for one in (given, again)
        )
        assert mine == theirs
        for key in places - {
            "data",
            "save_run",
            "json",
        }:  # from the folder of the run file, as they were from here
            was, now = given.params[key], again.params[key]
            assert (was is None and now is None) or os.path.abspath(was) == os.path.normpath(folder / now)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_the_run_files_in_configs_are_sound(config):
    assert len(CONFIGS) == 3
    done = CliRunner().invoke(app, ["run", str(config), "--dry-run"])
    assert done.exit_code == 0, done.stderr
