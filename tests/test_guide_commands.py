"""What README and guides show runs as it stands there: each document's blocks in order, in a folder of its own."""

import re
import shlex
import subprocess
import sys

import pytest
from guide_files import environment, make_files
from guide_texts import GUIDES, README, blocks, format_commands
from test_remote import needs_moto, s3, upload  # noqa: F401 (a fixture)
from typer.testing import CliRunner

from llsvm.cli import app

RUNNING = [path for path in [README, *GUIDES] if any(block.runs for block in blocks(path))]


@pytest.fixture
def folder(tmp_path):
    make_files(tmp_path)
    return tmp_path


def run(code, folder, kind="sh"):
    words = ["bash", "-euo", "pipefail", "-c", code] if kind == "sh" else [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, env=environment(folder))


@pytest.mark.slow
@pytest.mark.parametrize("document", RUNNING, ids=lambda path: path.stem)
def test_the_blocks_run(folder, document):
    for block in blocks(document):
        if block.runs:
            done = run(block.code, folder, block.kind)
            assert done.returncode == 0, (
                f"{document}:{block.line}:\n{block.code}\n{done.stdout}\n{done.stderr}"
            )
            assert "Traceback" not in done.stderr


def test_most_blocks_are_run():
    there = {path.stem for path in RUNNING}
    assert {"README", "formats", "losses", "python", "solvers", "nesvm", "memory"} <= there
    shown = [block for path in [README, *GUIDES] for block in blocks(path) if block.kind in ("sh", "python")]
    assert sum(block.runs for block in shown) >= 0.8 * len(shown)


def liblinear_options():
    """Row by row, what the README says LIBLINEAR's options are called here."""
    table = README.read_text().partition("## Coming from LIBLINEAR")[2].partition("\n\n`")[0]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("| `-")]
    return [" ".join(re.findall("`(-[^`]+)`", part)) for cell in cells for part in cell.split(";")]


@pytest.mark.slow
def test_what_liblinear_calls_otherwise_trains(folder, monkeypatch):
    options = liblinear_options()
    assert "--loss squared_hinge" in options
    assert len(options) == 13
    for words in options:
        (folder / "m").unlink(missing_ok=True)
        trains(f"llsvm train clicks.svm --model m {words}", folder, monkeypatch)


def trains(command, folder, monkeypatch):
    """A command that needs no shell runs in this process."""
    program, *words = shlex.split(command)
    if program == "llsvm":
        monkeypatch.chdir(folder)
        done = CliRunner().invoke(app, words)
        status, errors = done.exit_code, done.stderr
    else:
        done = run(command, folder)
        status, errors = done.returncode, done.stderr
    # 5: the model is there, but these made-up rows may not converge on unscaled columns
    assert status in (0, 5), errors
    assert (folder / "m").exists()


def test_there_are_commands_for_every_format():
    text = " ".join(format_commands())
    for word in (
        ".svm.gz",
        ".jsonl.zst",
        ".vw.gz",
        ".feather",
        ".h5ad",
        ".npy",
        ".npz",
        "--format csv",
        "s3://",
        "sales/",
    ):
        assert word in text


@pytest.mark.parametrize("command", [c for c in format_commands() if "s3://" not in c])
def test_the_command_for_a_format_runs(folder, command, monkeypatch):
    trains(command, folder, monkeypatch)


@needs_moto
@pytest.mark.parametrize("command", [c for c in format_commands() if "s3://" in c])
def test_the_command_for_remote_files_runs(s3, folder, command, monkeypatch):  # noqa: F811
    upload(s3, "rows.parquet", folder / "rows.parquet")
    trains(command, folder, monkeypatch)
