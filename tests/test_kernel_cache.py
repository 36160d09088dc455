"""Compiled kernels are kept in a private folder of the user's, never in the package."""

import ast
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

import llsvm
from llsvm.kernels import options

PACKAGE = Path(llsvm.__file__).parent
VERSION = options.folder_name(PACKAGE)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home, and no other word on where to keep things."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(options.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def is_temporary(folder):
    return folder.name.startswith("llsvm-kernels-") and folder.stat().st_mode & 0o777 == 0o700


def test_the_users_cache_folder_and_private(home):
    folder = options.cache_folder()
    assert folder == home / ".cache" / "llsvm" / VERSION
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert options.cache_folder() == folder  # again, now that it is there


def test_other_places_that_the_user_names(home, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert options.cache_folder() == home / ".cache" / "llsvm" / VERSION
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert options.cache_folder() == tmp_path / "xdg" / "llsvm" / VERSION
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "deep" / "numba"))
    assert options.cache_folder() == tmp_path / "deep" / "numba" / f"llsvm-{VERSION}"


def test_without_home_the_list_of_users_is_asked(home, monkeypatch):
    user = pwd.struct_passwd(("u", "x", 1, 1, "", str(home / "listed"), ""))
    monkeypatch.setattr(options.pwd, "getpwuid", lambda uid: user)
    for unset in (lambda: monkeypatch.setenv("HOME", ""), lambda: monkeypatch.delenv("HOME")):
        unset()
        assert options.cache_folder() == home / "listed" / ".cache" / "llsvm" / VERSION


def test_a_link_in_its_place_is_not_followed(home, tmp_path):
    (tmp_path / "theirs").mkdir()
    (home / ".cache").mkdir()
    (home / ".cache" / "llsvm").symlink_to(tmp_path / "theirs")
    assert is_temporary(options.cache_folder())
    assert list((tmp_path / "theirs").iterdir()) == []


@pytest.mark.parametrize("place", [".cache/llsvm", ".cache", "."])
def test_a_folder_that_others_can_write_is_not_used(home, place):
    (home / ".cache" / "llsvm").mkdir(parents=True, mode=0o700)
    (home / place).chmod(0o777)
    assert is_temporary(options.cache_folder())


@pytest.mark.parametrize("uid", [0, 4321])
def test_somebody_elses_folder_is_not_used(home, monkeypatch, uid):
    assert options.cache_folder().parent == home / ".cache" / "llsvm"
    other = uid if uid != os.geteuid() else 4321
    monkeypatch.setattr(options.os, "geteuid", lambda: other)
    assert is_temporary(options.cache_folder())


def test_nowhere_to_write_is_no_error(home, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert is_temporary(options.cache_folder())
    monkeypatch.setattr(options.tempfile, "tempdir", str(tmp_path / "missing"))
    assert options.cache_folder() is None
    monkeypatch.setattr(options, "_FOLDER", None)
    assert options.njit(**options.JIT)(lambda x: x + 1)(1) == 2


def test_a_folder_that_cannot_be_made_gives_way_to_the_next(home, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "numba"))
    assert options.cache_folder() == home / ".cache" / "llsvm" / VERSION


def copy_of_kernels(folder):
    """The package's compiled loops, and what they take from each other, in a folder of that name."""
    for pattern in options.SOURCES:
        for file in PACKAGE.glob(pattern):
            copy = folder / file.relative_to(PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
    return folder


def test_any_change_of_a_kernel_has_a_folder_of_its_own(tmp_path):
    package = copy_of_kernels(tmp_path / "llsvm")
    assert options.folder_name(package) == VERSION
    changed = package / "kernels" / "intrinsics.py"  # which kernels of other files are made of
    before, text = changed.stat(), changed.read_text()
    changed.write_text(text[:-2] + "#\n")
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changed.stat().st_size == before.st_size
    assert options.folder_name(package) != VERSION
    changed.write_text(text)
    assert options.folder_name(package) == VERSION


def test_every_file_with_kernels_counts():
    counted = {file for pattern in options.SOURCES for file in PACKAGE.glob(pattern)}
    for path in PACKAGE.rglob("*.py"):
        if re.search(
            r"^from llsvm.kernels.options import .*njit|^@intrinsic", path.read_text(), re.MULTILINE
        ):
            assert path in counted, path


def test_the_name_costs_next_to_nothing():
    """Each start of a command reads these files and hashes them, at some 1 GB a second."""
    counted = {file for pattern in options.SOURCES for file in PACKAGE.glob(pattern)}
    assert sum(file.stat().st_size for file in counted) < 400_000


def test_folders_of_other_states_go_when_they_were_not_used_for_long(home):
    ours, long_ago = home / ".cache" / "llsvm", time.time() - options.UNUSED_SECONDS - 60
    old, used, other = (
        ours / name for name in ("0.0.9-numba-0.60.0", "0.1.0-numba-0.61.0-abc", "somebody's")
    )
    for folder in (old, used, other):
        (folder / "deep").mkdir(parents=True, mode=0o700)
        (folder / "deep" / "kernel.nbi").touch()
    ours.chmod(0o700)
    for folder in (old, other):
        os.utime(folder, (long_ago, long_ago))
    folder = options.cache_folder()
    assert sorted(ours.iterdir()) == sorted([folder, used, other])


def test_a_folder_in_use_is_kept(home):
    folder, long_ago = options.cache_folder(), time.time() - options.UNUSED_SECONDS - 60
    os.utime(folder, (long_ago, long_ago))
    options.cache_folder()
    assert time.time() - folder.stat().st_mtime < 60


def test_other_code_keeps_its_own_place(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    options.njit(**options.JIT)(test_other_code_keeps_its_own_place)
    assert str(tmp_path) == numba.config.CACHE_DIR


def test_every_kernel_is_compiled_by_our_own_njit():
    """Numba's would write into the package."""
    for path in (PACKAGE / "kernels").glob("*.py"):
        if path.name != "options.py":
            assert not re.search(r"from numba.*\b(njit|jit|vectorize)\b|numba\.n?jit", path.read_text()), path


def test_what_kernels_of_a_file_call_is_inlined_or_knows_whole_numbers_alone():
    """See INLINED in kernels/options.py."""
    whole_numbers = {"parse.py", "text.py", "ngrams.py"}
    for path in set(PACKAGE.rglob("*.py")) - {PACKAGE / "kernels" / name for name in whole_numbers}:
        functions = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)]
        options_of = {n.name: " ".join(map(ast.unparse, n.decorator_list)) for n in functions}
        kernels = {name: how for name, how in options_of.items() if "njit(" in how}
        for kernel in functions:
            for node in ast.walk(kernel) if kernel.name in kernels else ():
                called = (
                    node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
                )
                assert "INLINED" in kernels.get(called, "INLINED"), (path, called)


def test_what_python_must_not_call_is_called_by_kernels_of_its_file_alone():
    """See CALLED in kernels/options.py: a call from Python ends the process, once nothing older is cached."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        body = ast.parse(path.read_text()).body
        how = {
            n: " ".join(map(ast.unparse, n.decorator_list)) for n in body if isinstance(n, ast.FunctionDef)
        }
        called = {n.name for n in how if "CALLED" in how[n]}
        others = [n for n in body if "njit(" not in how.get(n, "")]
        names = {each.id for n in others for each in ast.walk(n) if isinstance(each, ast.Name)}
        assert not called & names, path
        found[".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)] = called
    assert all(name.startswith("_") for called in found.values() for name in called)
    assert sum(map(len, found.values())) > 20
    for path in [*PACKAGE.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not found.get(node.module, set()) & {each.name for each in node.names}, path


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_an_installed_package_gets_no_file_and_the_next_process_finds_the_kernels(home, tmp_path):
    installed = tmp_path / "site" / "llsvm"
    shutil.copytree(PACKAGE, installed, ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(installed.rglob("*"))
    code = (
        "import numpy as np; from llsvm.kernels import demo_rows as d;"
        "d.write_rows(0, 9, np.empty(99_999, np.uint8));"
        "print(d.__file__, sum(d.write_rows.stats.cache_hits.values()))"
    )
    env = {**os.environ, "PYTHONPATH": str(installed.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    for hits in (0, 1):
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [str(installed / "kernels" / "demo_rows.py"), str(hits)]
    assert sorted(installed.rglob("*")) == before
    assert list((home / ".cache" / "llsvm" / VERSION).rglob("demo_rows.*.nbi"))


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_kernel_whose_files_are_cut_off_is_compiled_anew(home, suffix):
    code = (
        "import numpy as np; from llsvm.kernels import demo_rows as d; from llsvm.kernels.start import *;"
        "start_quickly(); d.write_rows(0, 9, np.empty(99_999, np.uint8));"
        "print(sum(d.write_rows.stats.cache_hits.values()))"
    )

    def hits():
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert [hits(), hits()] == [0, 1]
    for file in (home / ".cache" / "llsvm" / VERSION).rglob(f"demo_rows.*.{suffix}"):
        os.truncate(file, 10)
    assert [hits(), hits(), hits()] == [0, 0, 1]
