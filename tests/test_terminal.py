"""What reaches a terminal: nothing that it obeys; and errors of the system in a sentence with their path."""

import errno
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from oracle import rows, write_svmlight
from typer.testing import CliRunner

from llsvm import cli
from llsvm.files import writing as files
from llsvm.models import model_file
from llsvm.models.model import Model
from llsvm.process import printable

EVIL = "\x1b]0;mine\x07\x1b[31m"
PROGRAM = [sys.executable, "-m", "llsvm"]


def run(*words):
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def test_printable():
    assert printable("plain, ümläut 漢字 λ₁") == "plain, ümläut 漢字 λ₁"
    assert printable("a\x1b[31mb\r\n\x9b\u202e\udc80") == r"a\x1b[31mb\r\n\x9b\u202e\udc80"
    assert printable("a\n\tb", keep="\n") == "a\n\\tb"


@pytest.fixture
def evil(tmp_path):
    """A model whose names and labels, and a table whose column and label, are escape sequences."""
    path = tmp_path / f"m{EVIL}"
    names = (f"a{EVIL}", "b")
    Model(np.ones((1, 2)), [0.0], [f"x{EVIL}", "y"], feature_names=names, settings={"label": EVIL}).save(path)
    table = tmp_path / f"t{EVIL}.csv"
    table.write_text(f"a{EVIL},b,label\n" + f"1,2,p{EVIL}\n3,4,q\n" * 5)
    return path, table


def test_no_command_repeats_escape_sequences(evil, tmp_path):
    model, table = evil
    said = [
        run("inspect", model),
        run("inspect", table),
        run("train", table, "--model", tmp_path / f"n{EVIL}", "--memory", "2GB"),
        run("evaluate", tmp_path / f"n{EVIL}", table, "--memory", "2GB"),
        run("evaluate", model, table, "--memory", "2GB"),
        run("train", tmp_path / EVIL, "--model", tmp_path / "m"),
        run("train", table, "--model", tmp_path / f"no{EVIL}" / "m"),
        run("train", table, "--model", tmp_path / "m", "--label", EVIL),
        run("convert", table, tmp_path / f"c{EVIL}.svm", "--memory", "2GB"),
        run("inspect", model, "--json"),
    ]
    for answer in said:
        text = answer.stdout + answer.stderr
        assert text
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "internal error" not in text
    assert [answer.exit_code for answer in said[:4]] == [0, 0, 0, 0]


def test_predictions_on_a_terminal(evil, tmp_path, monkeypatch):
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    from llsvm.cli.predict import _writing

    for stream, shown in ((Terminal(), "x\\x1b[31m\t1\n"), (io.StringIO(), "x\x1b[31m\t1\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        with _writing("-") as out:
            out.write("x\x1b[31m\t1\n")
        monkeypatch.undo()
        assert stream.getvalue() == shown


def test_a_negative_seed_is_refused_in_a_sentence(tmp_path):
    path = write_svmlight(tmp_path / "a.svm", *rows(n=20, d=3))
    answer = run("train", path, "--model", tmp_path / "m", "--seed", "-1")
    assert answer.exit_code == 2
    assert answer.stderr == "llsvm: error: --seed must be 0 or a positive number, not -1\n"
    assert run("demo", "--seed", "-1").exit_code == 2


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OSError(errno.EIO, "Input/output error"), 4, "Input/output error"),
        (OSError(errno.EIO, "Input/output error", "/disk/f"), 4, "/disk/f: Input/output error"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), 4, "Resource temporarily"),
        (RuntimeError("can't start new thread"), 4, "starts no more threads.*--threads 1"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/disk/f"), 3, "/disk/f: No such file"),
        (RuntimeError("mine"), 1, "internal error"),
    ],
)
def test_errors_of_the_system_are_no_bugs(tmp_path, monkeypatch, error, status, words):
    import re

    from llsvm.cli import answers

    said = []
    monkeypatch.setattr(answers, "say", said.append)
    assert answers.explain_error(error) == status
    assert re.search(words, said[0])
    assert ("internal error" in said[0]) == (status == 1)


def test_a_disk_that_fills_after_the_model_is_no_failure(tmp_path):
    path = write_svmlight(tmp_path / "a.svm", *rows(n=50, d=3))
    before = "import llsvm.models.model_file as m; m.log_path = lambda path: m.Path('/dev/full')"
    program = f"{before}\nfrom llsvm.__main__ import main\nmain()"
    command = [
        sys.executable,
        "-c",
        program,
        "train",
        path,
        "--model",
        tmp_path / "m",
        "--memory",
        "2GB",
        "-q",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "llsvm: warning: /dev/full: No space left" in done.stderr
    assert "the model itself is written" in done.stderr
    Model.load(tmp_path / "m")


@pytest.mark.parametrize("standard_error", ["full", "closed", "all closed"])
def test_a_run_does_not_need_standard_error(tmp_path, standard_error):
    path = write_svmlight(tmp_path / "a.svm", *rows(n=50, d=3))
    redirect = {"full": "2>/dev/full", "closed": "2>&-", "all closed": "<&- >&- 2>&-"}[standard_error]
    command = ["sh", "-c", f'"$@" {redirect}', "sh", *PROGRAM, "train", path, "--model", tmp_path / "m"]
    done = subprocess.run([*command, "--memory", "2GB"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("" if standard_error == "all closed" else f"written to {tmp_path / 'm'}\n")
    Model.load(tmp_path / "m")


def test_nothing_takes_the_place_of_a_closed_standard_file(tmp_path):
    """A message from below (a C library, the sentence at a signal) would else be written into a file of ours."""
    program = f"""
import os, llsvm.__main__, llsvm.cli
def run():
    with open({str(tmp_path / "m")!r}, "w") as out:
        print([os.readlink(f"/proc/self/fd/{{i}}") for i in range(3)], file=out)
        os.write(2, b"lost")
llsvm.cli.main = run
llsvm.__main__.main()
"""
    (tmp_path / "program.py").write_text(program)
    command = f"{sys.executable} {tmp_path / 'program.py'} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0
    assert (tmp_path / "m").read_text() == "['/dev/null', '/dev/null', '/dev/null']\n"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_on_a_full_disk(option):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PROGRAM, option], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr == "llsvm: error: standard output: No space left on device; free some space\n"


LONG = "x" * 250  # the file system takes 255 bytes, but not with .log.json behind


def test_everything_about_the_output_is_tried_before_the_first_pass(tmp_path, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("it has begun to read")

    from llsvm.stream.stream import Stream

    monkeypatch.setattr(Stream, "read", never)
    data = write_svmlight(tmp_path / "a.svm", *rows(n=20, d=3))
    (tmp_path / "folder").mkdir()
    (tmp_path / "m.log.json").mkdir()
    cases = {
        tmp_path / ("x" * 256): "name too long",
        tmp_path / LONG: "name too long",
        tmp_path / "folder": "is a folder",
        tmp_path / "m": "m.log.json: is a folder",
        tmp_path / "missing" / "m": "does not exist",
        data / "m": "a.svm",
    }
    import llsvm
    from llsvm.errors import UsageError

    for path, words in cases.items():
        answer = run("train", data, "--model", path)
        assert answer.exit_code == 2, answer.stderr
        assert words in answer.stderr
        with pytest.raises(UsageError, match=words):
            llsvm.train(str(data), output=path)
    assert sorted(os.listdir(tmp_path)) == ["a.svm", "folder", "m.log.json"]

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(files, "temporary_name", refuse)
    with pytest.raises(UsageError, match="read-only file system"):
        model_file.require_writable(tmp_path / "new")


@pytest.fixture(scope="module")
def towns(tmp_path_factory):
    """A table of words that Latin-1 has, and has not, and a model of it."""
    folder = tmp_path_factory.mktemp("towns")
    (folder / "t.csv").write_text("ville,y\nZürich,大阪\nOslo,né\nZürich,大阪\n大阪,né\n", encoding="utf-8")
    done = run("train", folder / "t.csv", "--label", "y", "--model", folder / "m", "--quiet")
    assert done.exit_code == 0, done.stderr
    return folder


SHOWN = {
    "labels": ["predict", "m", "t.csv"],
    "reasons": ["predict", "m", "t.csv", "--explain"],
    "model": ["inspect", "m"],
    "table": ["inspect", "t.csv", "--label", "y", "--memory-limit", "1GB"],
    "evaluated": ["evaluate", "m", "t.csv"],
    "help": ["train", "--help"],
    "guide": ["guide", "losses"],
}


@pytest.mark.parametrize(
    ("name", "encoding"), [*((name, "latin-1") for name in SHOWN), ("labels", "ascii"), ("help", "ascii")]
)
def test_a_locale_that_lacks_letters(towns, name, encoding):
    """What a pipe gets is UTF-8 whatever the locale; a terminal gets what it has, and escapes for the rest."""
    words = SHOWN[name]
    env = os.environ | {"PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}
    expected = subprocess.run([*PROGRAM, *words], cwd=towns, env=env, capture_output=True, check=True).stdout
    env["PYTHONIOENCODING"] = encoding
    piped = subprocess.run([*PROGRAM, *words], cwd=towns, env=env, capture_output=True, check=True).stdout
    with_any_time = [
        re.sub(r"about \d+ seconds?", "a time", each.decode("utf-8")) for each in (piped, expected)
    ]
    assert with_any_time[0] == with_any_time[1]  # how long a pass may take is measured
    ours, terminal = pty.openpty()
    shown = subprocess.Popen([*PROGRAM, *words], cwd=towns, env=env, stdout=terminal, stderr=terminal)
    os.close(terminal)
    seen = b""
    with suppress(OSError):  # nobody is at the other end any more
        while more := os.read(ours, 10_000):
            seen += more
    os.close(ours)
    assert shown.wait() == 0, seen
    if name == "labels":
        shown_letters = r"n\xe9" if encoding == "ascii" else "né"
        assert seen.decode(encoding).split() == [r"\u5927\u962a", shown_letters] * 2
    elif encoding != "ascii":  # which says that no locale is set: click takes it for UTF-8
        seen.decode(encoding)
