"""Tab in bash, zsh and fish, in a terminal, after ``llsvm --install-completion``: a session's first one, too."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import pytest

ARGUMENTS = {"bash": ["--norc", "-i"], "zsh": ["-i"], "fish": ["-i"]}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of one's own, with llsvm on the path, and a file to be named."""
    program = tmp_path / "bin" / "llsvm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m llsvm "$@"\n')
    program.chmod(0o755)
    (tmp_path / "rows.csv").write_text("")
    more = {"HOME": tmp_path, "ZDOTDIR": tmp_path, "TERM": "dumb", "PS1": "READY "}
    more |= {"XDG_CONFIG_HOME": tmp_path / ".config", "XDG_DATA_HOME": tmp_path / ".local"}
    for name, value in {**more, "PATH": f"{program.parent}:{os.environ['PATH']}"}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Terminal:
    """A shell in a terminal; what it shows is read until a pattern is there."""

    def __init__(self, words):
        pid, self._fd = pty.fork()
        if pid == 0:
            os.execvp(words[0], words)
        self._pid = pid

    def types(self, text, shows, seconds=20):
        os.write(self._fd, text.encode())
        end, shown = time.monotonic() + seconds, b""
        while not re.search(shows, shown):
            assert time.monotonic() < end, f"{text!r}: {shown!r} has no {shows!r}"
            if select.select([self._fd], [], [], 0.1)[0]:
                shown += os.read(self._fd, 1 << 16)

    def close(self):
        os.kill(self._pid, 9)
        os.close(self._fd)
        os.waitpid(self._pid, 0)


@pytest.mark.parametrize(
    "shell",
    ["bash", pytest.param("zsh", marks=pytest.mark.slow), pytest.param("fish", marks=pytest.mark.slow)],
)
def test_words_are_completed(shell, home):
    if (path := shutil.which(shell)) is None:
        pytest.skip(f"no {shell} here: apt-get install {shell}")
    done = subprocess.run([path, "-c", "llsvm --install-completion; true"], capture_output=True, text=True)
    assert f"{shell} completion installed in {home}" in done.stdout, done.stderr
    terminal = Terminal([path, *ARGUMENTS[shell]])
    try:
        read = "source .bashrc; " if shell == "bash" else ""
        terminal.types(read + "printf 're%s' ady\n", b"ready")
        terminal.types("llsvm eval\t", b"uate")
        terminal.types("--thr\t", b"esholds")
        terminal.types("3 --form\t", b"at")
        terminal.types("par\t", b"quet")
        if shell != "bash":  # it asks us for words alone
            terminal.types("ro\t", b"ws.csv")
    finally:
        terminal.close()
