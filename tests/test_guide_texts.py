"""README and guides: short, true to the command line, with links that lead somewhere; and ``llsvm guide``."""

import inspect
import itertools
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields

import pytest
import typer
from guide_texts import GUIDES, README, ROOT, TOOLS
from typer.testing import CliRunner

import llsvm
from llsvm import LLSVMClassifier, errors
from llsvm.cli import app
from llsvm.cli.guide import topics
from llsvm.settings.methods import METHODS
from llsvm.settings.settings import Settings
from tools import check_layers

TEXTS = [README, *GUIDES]
PROGRAM = typer.main.get_command(app)
COMMANDS = PROGRAM.commands
OPTION = re.compile(r"(?<![\w-])--[A-Za-z][a-z0-9-]*")


def flags(command):
    options = [param for param in command.params if param.param_type_name == "option"]
    return {word for option in options for word in (*option.opts, *option.secondary_opts)}


ALL_FLAGS = {"--help"}.union(*map(flags, (PROGRAM, *COMMANDS.values())))


def guide(*words):
    return CliRunner().invoke(app, ["guide", *words])


def test_the_readme_is_for_the_first_hour():
    assert len(README.read_text().splitlines()) <= 200


@pytest.mark.parametrize("document", [*TEXTS, *TOOLS], ids=str)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        assert not target.startswith("#"), target
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", TEXTS, ids=str)
def test_every_option_that_is_named_exists(document):
    lines = [line for line in document.read_text().splitlines() if "python -m tools" not in line]
    named = {word for line in lines for word in OPTION.findall(line)}
    assert named <= ALL_FLAGS, named - ALL_FLAGS


@pytest.mark.parametrize("document", TEXTS, ids=str)
def test_every_command_line_that_is_shown_has_options_of_its_command(document):
    for name, words in re.findall(r"llsvm (\w+)((?:[^`\n#])*)", document.read_text()):
        if name in COMMANDS:
            unknown = set(OPTION.findall(words)) - flags(COMMANDS[name]) - {"--help"}
            assert not unknown, f"llsvm {name}{words}: {unknown}"


def test_every_option_of_train_is_explained():
    prose = " ".join(path.read_text() for path in TEXTS)
    named = set(OPTION.findall(prose))
    options = [param for param in COMMANDS["train"].params if param.param_type_name == "option"]
    missing = [p.opts[0] for p in options if not named & {*p.opts, *p.secondary_opts} and p.opts[0] != "-C"]
    assert missing == []


def test_the_table_of_options_has_them_all_with_what_they_mean():
    text = guide("options").stdout
    for name, command in COMMANDS.items():
        for param in command.params:
            if param.param_type_name == "option" and name == "train":
                assert param.help.replace("|", "\\|") in text
        assert flags(command) <= {*OPTION.findall(text), "-C", "-q", "-o", "-h", "--help"}


def test_the_guide_maps_the_names_of_options_that_differ():
    rows = re.findall(
        r"^\| (.+) \| (.+) \| (.+) \|$", (ROOT / "llsvm/guide/options.md").read_text(), re.MULTILINE
    )
    estimator = inspect.signature(LLSVMClassifier).parameters
    for field in fields(Settings):
        flag = "-C" if field.name == "C" else f"--{field.name.replace('_', '-')}"
        told = [row for row in rows if re.search(rf"{flag}(?![\w-])|{field.name}=", f"{row[0]} {row[1]}")]
        if field.name in estimator:
            assert all(re.search(rf"`{field.name}|the same", row[2]) for row in told), field.name
        else:
            assert told, f"{field.name}: what is it called in LLSVMClassifier?"
    for row in rows:
        for name in re.findall(r"(\w+)=", row[2]):
            assert name in {*estimator, "weight"}, name
    assert {"max_iter", "n_jobs", "random_state"} <= estimator.keys()


def test_the_guide_says_what_each_method_trains():
    text = (ROOT / "llsvm/guide/solvers.md").read_text()
    table = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", text, re.MULTILINE))
    assert set(table) == {method.solver for method in METHODS.values() if method.solver}
    for method in METHODS.values():
        told = table.get(method.solver, text).replace(" ", "-").replace("_", "-")
        wanted = {*method.objectives, *itertools.chain(*method.objectives.values()), *method.multiclass}
        missing = [word for word in wanted if word.replace("_", "-") not in told]
        assert not missing, f"{method.name}: {missing}"
    words = {word for method in METHODS.values() for word in (*method.objectives, *method.multiclass)}
    for method in [method for method in METHODS.values() if method.solver and not method.kernels]:
        others = words - {*method.objectives, *method.multiclass} - {"hinge"}
        kernel = [each for each in METHODS.values() if each.kernels and each.solver == method.solver]
        others -= {word for each in kernel for word in (*each.objectives, *each.multiclass)}
        false = [word for word in others if word.replace("_", "-") in table[method.solver].replace(" ", "-")]
        assert not false, f"{method.name}: {false}"


def test_the_guide_names_the_rooms_in_the_order_of_the_layers():
    text = (ROOT / "llsvm" / "guide" / "internals.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    rooms = [[name.removesuffix(".py").rstrip("/") for name in re.findall("`([^`]+)`", row)] for row in rows]
    assert [sorted(row) for row in rooms] == [sorted(layer) for layer in check_layers.LAYERS]


def test_every_exit_code_is_in_the_guide():
    text = (ROOT / "llsvm" / "guide" / "exit-codes.md").read_text()
    codes = [value for name, value in vars(errors).items() if name.startswith("EXIT_")]
    assert len(codes) == 9
    for code in [*codes, 130, 141, 143]:
        assert f"| {code} |" in text


def test_every_error_is_in_the_guide_with_its_exit_code():
    text = (ROOT / "llsvm" / "guide" / "python.md").read_text()
    there = [name for name in llsvm.__all__ if name.endswith("Error")]
    for name in set(there) - {"LLSVMError", "LongRowError"}:
        assert re.search(rf"\| `{name}` \|[^|]*\| {getattr(errors, name).exit_code} \|", text), name


@pytest.mark.parametrize("document", TEXTS, ids=str)
def test_files_of_the_package_that_are_named_exist(document):
    named = re.findall(
        r"`((?:llsvm|tests|tools|configs)/[\w/.-]+\.(?:py|md|toml|crontab))`", document.read_text()
    )
    assert [path for path in named if not (ROOT / path).exists()] == []


# -- llsvm guide ----------------------------------------------------------------------------------------


def test_the_topics_are_the_files_in_the_folder():
    assert set(topics()) == {path.stem for path in GUIDES} - {"README"}
    shown = guide()
    assert shown.exit_code == 0
    for topic, line in topics().items():
        assert topic in shown.stdout
        assert line in shown.stdout


@pytest.mark.parametrize("topic", [topic for topic in topics() if topic != "options"])
def test_a_guide_in_a_pipe_is_its_markdown(topic):
    text = (ROOT / "llsvm" / "guide" / f"{topic}.md").read_text()
    assert text.startswith("# ")
    assert guide(topic).stdout == re.sub(r"<!--.*?-->\n", "", text)


def test_a_topic_that_does_not_exist_names_the_nearest():
    answer = guide("formt")
    assert answer.exit_code == errors.EXIT_USAGE
    assert "did you mean formats?" in answer.stderr
    assert "there are formats, losses, python" in guide("xyz").stderr


def test_help_mentions_the_guides():
    assert "llsvm guide" in CliRunner().invoke(app, ["--help"]).stdout


def on_a_terminal(topic):
    """What ``llsvm guide TOPIC`` writes to a terminal of 80 columns, with the colours and without."""
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "llsvm", "guide", topic],
        stdout=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(theirs)
    shown = b""
    with open(ours, "rb", buffering=0) as screen, suppress(OSError):  # the terminal goes with the program
        while piece := screen.read(1 << 16):
            shown += piece
    assert program.wait() == 0
    return shown.decode(), re.sub(r"\x1b\[[\d;]*m", "", shown.decode())


def test_a_guide_on_a_terminal_is_rendered():
    coloured, text = on_a_terminal("python")
    assert "\x1b[" in coloured
    assert "# From Python" not in text
    assert "options (llsvm guide options)" in " ".join(text.split())


@pytest.mark.parametrize("topic", ["options", "formats", "solvers", "certificate"])
def test_tables_lose_nothing_on_a_narrow_terminal(topic):
    assert "…" not in on_a_terminal(topic)[1]


def test_a_guide_loads_nothing_slow():
    heavy = "{'numba', 'numpy', 'pyarrow', 'h5py', 'sklearn', 'scipy', 'rich.markdown'}"
    code = (
        "import sys\nfrom llsvm.cli import main\nsys.argv[1:] = ['guide', 'memory']\n"
        f"try:\n    main()\nexcept SystemExit:\n    print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.slow
def test_the_guides_are_installed_with_the_package(tmp_path):
    pytest.importorskip("setuptools")
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "clone"], check=True)
    build = [
        sys.executable,
        "-c",
        "import setuptools; setuptools.setup()",
        "-q",
        "build",
        "--build-lib",
        tmp_path,
    ]
    subprocess.run(build, cwd=tmp_path / "clone", check=True)
    there = {path.name for path in (tmp_path / "llsvm" / "guide").iterdir()}
    assert there == {path.name for path in GUIDES}
