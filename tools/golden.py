"""A safety net for changes that must not change results: small runs of this checkout and of another commit.

    python -m tools.golden --against COMMIT                     the same to the last bit?
    python -m tools.golden --against COMMIT --certificates      the same as far as certificates tell?
    python -m tools.golden --against COMMIT --only NAME ...     these runs alone
    python -m tools.golden --against COMMIT --random 500        so many random small problems instead
    python -m tools.golden --against COMMIT --surface           the public surface instead
    python -m tools.golden --against COMMIT --combinations      which options go together
    python -m tools.golden --against COMMIT --limits            the smallest memory limits

Each run of tools/golden_runs.py is done twice on this machine, by the commit (in a checkout of its own, with its
own kernels) and by the files as they are here, in fresh processes with one thread and a fixed seed. Nothing that
was recorded elsewhere is trusted: another processor, NumPy or Numba adds in another order.

To the last bit: exit codes, weights, certificate, passes, solver, where rows were read from, whether survivors were
spilled, and whatever else the command answers but for times and peaks. By certificates: the exit codes are the
same; the intervals from dual to primal overlap, problem by problem; ``verify``, as it is here, finds no fault with
either model (so that models of the other commit are read, too); there are at most a tenth more passes, or one; a
tenth more work, where both count it; the peak is within the limit; and a state that the commit has left is gone on
from here, or refused for its version. Exit code 1 on any difference. All take some five minutes, once kernels are
compiled.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from llsvm.process.work import Work
from tools.checkout import ROOT, checkout_of
from tools.golden_data import write_data
from tools.golden_runs import OPTIONS, RUNS, Run, command, files_of

TIMEOUT_SECONDS = 300
_LEAST_WORK_SECONDS = 0.01  # less than that more is none
OTHER_VERSION = "a state of version"  # of a refusal, see llsvm/state/container.py
MOST_RISE = 0.08  # of a smallest limit
VOLATILE = ("seconds", "spent", "peak_rss_bytes", "peak_disk_bytes")  # of an answer


def outcome(
    run: Run, data: Path, folder: Path, root: Path, last: Path | None = None
) -> dict[str, Any] | None:
    """What a run gives, done in fresh processes by the code below ``root``; None where its data are missing. data:
    where generated data are. folder: for its model and state, which stay. last: below which the last step's code
    is, if it is not the same."""
    step: Run | None = run
    found: dict[str, Any] = {}
    while step is not None:
        if (files := files_of(step, data)) is None:
            return None
        found = _answer(command(step, files, folder), folder, root if step.then else last or root)
        step = step.then
    model = folder / "model"
    return found | weights(model) if model.exists() else found


def _answer(words: list[str], folder: Path, root: Path) -> dict[str, Any]:
    try:
        done = _run(words, folder, root, TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"exit": None, "error": f"not done after {TIMEOUT_SECONDS} s"}
    if not done.stdout:
        return {"exit": done.returncode, "error": done.stderr.strip()[-600:]}
    return {"exit": done.returncode, "answer": json.loads(done.stdout)}


def _run(
    words: list[str], folder: Path, root: Path, seconds: float | None
) -> subprocess.CompletedProcess[str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    env = {**os.environ, **one, "PYTHONPATH": str(root), "TMPDIR": str(folder)}
    env.pop("NUMBA_CACHE_DIR", None)  # the kernels of each commit have a folder of their own
    return subprocess.run(
        words, cwd=root, env=env, capture_output=True, text=True, timeout=seconds, check=False
    )


def weights(path: Path) -> dict[str, Any]:
    """What a model's file says, by zipfile and NumPy alone."""
    with zipfile.ZipFile(path) as archive:
        certificate = json.loads(archive.read("header.json"))["certificate"]
        found: dict[str, Any] = {"certificate": certificate}
        for name in ("coef", "intercept"):
            array = np.load(io.BytesIO(archive.read(f"{name}.npy")))
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
            found[name] = f"{array.dtype} {list(array.shape)} {digest[:12]}"
    return found


# -- compared to the last bit ----------------------------------------------------------------------------------


def differing_bits(old: Any, new: Any, name: str = "") -> list[str]:
    """What differs between two outcomes, a line for each; none where they are the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [key for key in {**old, **new} if key not in VOLATILE]
        return [
            line
            for key in keys
            for line in differing_bits(old.get(key), new.get(key), f"{name}.{key}" if name else key)
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for i, (a, b) in pairs for line in differing_bits(a, b, f"{name}[{i}]")]
    return [] if old == new else [f"{name}: {old!r} -> {new!r}"]


# -- compared by certificates ----------------------------------------------------------------------------------


def differing_certificates(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two outcomes as far as it matters to a user, a line for each."""
    told = [f"exit: {old['exit']} -> {new['exit']}"] if old["exit"] != new["exit"] else []
    told += _apart(old.get("certificate"), new.get("certificate"))
    told += _dearer(old.get("answer", {}), new.get("answer", {}))
    answer = new.get("answer", {})
    peak, limit = answer.get("peak_rss_bytes", 0), answer.get("memory_limit_bytes", 0)
    if peak > limit:
        told.append(f"peak: {peak:,} bytes, where {limit:,} are the limit")
    return told


def _dearer(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Counted work that is too much, where both commits count it."""
    if "work" not in old or "work" not in new:
        return []
    before, after = (Work.of(each["work"]).seconds for each in (old, new))
    if after <= 1.1 * before + _LEAST_WORK_SECONDS:
        return []
    return [f"work: {before:.3f} s -> {after:.3f} s at the prices of llsvm/process/work.py"]


def _apart(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[str]:
    """Problems whose optimum cannot be the same, and passes that are too many."""
    if old is None or new is None:
        return [] if old == new else [f"certificate: {old} -> {new}"]
    if len(old["primal"]) != len(new["primal"]):
        return [f"problems: {len(old['primal'])} -> {len(new['primal'])}"]
    told = []
    for i, (dual, primal, more_dual, more_primal) in enumerate(
        zip(old["dual"], old["primal"], new["dual"], new["primal"], strict=True)
    ):
        room = 1e-9 * abs(primal)  # the rounding of sums
        if max(dual, more_dual) > min(primal, more_primal) + room:
            told.append(f"problem {i}: [{dual!r}, {primal!r}] -> [{more_dual!r}, {more_primal!r}]")
    before, after = old["passes"], new["passes"]
    if after > before + max(1, before / 10):
        told.append(f"passes: {before} -> {after}")
    return told


def unverified(run: Run, data: Path, folder: Path) -> list[str]:
    """What ``verify`` of this checkout says against a run's model; without its state, where that is of another
    version."""
    while run.then is not None:
        run = run.then
    files, model = files_of(run, data), folder / "model"
    if files is None or not model.exists():
        return []
    words = [sys.executable, "-m", "llsvm", "verify", str(model), *map(str, files), "--json"]
    given = {
        name: [OPTIONS[name], str(folder / name if run.options[name] is True else run.options[name])]
        for name in ("label", "state")
        if name in run.options
    }
    found = _answer(words + given.get("label", []) + given.get("state", []), folder, ROOT)
    if OTHER_VERSION in found.get("error", ""):
        found = _answer(words + given.get("label", []), folder, ROOT)
    told = found.get("error") or ", ".join(found["answer"]["differences"])
    return [f"verify: exit {found['exit']}: {told}"] if found["exit"] else []


def handed_over(run: Run, data: Path, folder: Path, checkout: Path, old: Mapping[str, Any]) -> list[str]:
    """What is wrong where this checkout goes on from the state that the commit's has left, in a folder that is new;
    a state of another version may be refused, with the sentence that says so. old: what the commit itself gives."""
    if run.then is None:
        return []
    folder.mkdir()
    found = outcome(run, data, folder, checkout, ROOT) or {}
    if OTHER_VERSION in found.get("error", ""):
        return []
    lines = [found["error"]] if "error" in found else differing_certificates(old, found)
    return [f"state handed over: {line}" for line in lines]


# -- both ------------------------------------------------------------------------------------------------------


def compare(commit: str, names: list[str], by_certificates: bool) -> int:
    """Do these runs with both, and say what differs; 1 where something does."""
    if strange := [name for name in names if name not in RUNS]:
        print(f"no such run: {', '.join(map(repr, strange))}; there are {', '.join(map(repr, RUNS))}")
        return 2
    wrong = judged = 0
    with checkout_of(commit) as checkout, tempfile.TemporaryDirectory(prefix="golden-") as place:
        data = Path(place) / "data"
        data.mkdir()
        write_data(data)
        for number, name in enumerate(names or RUNS):
            began, run = time.monotonic(), RUNS[name]
            folders = [Path(place) / f"{number}-{side}" for side in ("old", "new")]
            for folder in folders:
                folder.mkdir()
            old, new = (outcome(run, data, *pair) for pair in zip(folders, (checkout, ROOT), strict=True))
            if old is None or new is None:
                print(f"left out   {name}: no {' '.join(run.data)} in $LLSVM_DATA")
                continue
            if failed := [each["error"] for each in (old, new) if "error" in each]:
                lines = failed  # the same refusal twice compares nothing
            elif by_certificates:
                lines = differing_certificates(old, new)
                lines += [line for folder in folders for line in unverified(run, data, folder)]
                lines += handed_over(run, data, Path(place) / f"{number}-both", checkout, old)
            else:
                if "work" not in old["answer"]:  # a commit that does not count
                    new["answer"].pop("work", None)
                lines = differing_bits(old, new)
            judged, wrong = judged + 1, wrong + bool(lines)
            state = "DIFFERS" if lines else "same"
            print(f"{state:10} {name} ({time.monotonic() - began:.1f} s)", *lines, sep="\n    ", flush=True)
    print(f"{wrong} of {judged} runs differ" if wrong else f"all {judged} are the same")
    return int(wrong > 0 or judged == 0)


def _printed(commit: str, program: str, *words: str) -> list[str]:
    """What a program of this folder prints with the package of the commit, and with this one."""
    command = [sys.executable, str(ROOT / "tools" / program), *words]
    with checkout_of(commit) as checkout, tempfile.TemporaryDirectory(prefix="golden-") as place:
        done = [_run(command, Path(place), root, None) for root in (checkout, ROOT)]
    if failed := [each.stderr for each in done if each.returncode]:
        raise SystemExit(f"{program}: {failed[0]}")
    return [each.stdout for each in done]


def compare_random(commit: str, count: int, by_certificates: bool) -> int:
    """The same of random small problems (tools/golden_random.py)."""
    printed = _printed(commit, "golden_random.py", "--count", str(count))
    both = [[json.loads(line) for line in each.splitlines()] for each in printed]
    wrong = 0
    for old, new in zip(*both, strict=True):
        if by_certificates:
            lines = _apart(old.get("certificate"), new.get("certificate"))
            lines += differing_bits(old.get("refused"), new.get("refused"), "refused")
        else:
            lines = differing_bits(old, new)
        wrong += bool(lines)
        if lines:
            print(f"DIFFERS    problem {new['seed']}: {new['options']}", *lines, sep="\n    ", flush=True)
    refused = sum("refused" in each for each in both[1])
    print(f"{wrong} of {count} random problems differ ({refused} are refused)")
    return int(wrong > 0)


def compare_surface(commit: str) -> int:
    """The same of names, signatures, options and defaults (tools/golden_surface.py)."""
    old, new = _printed(commit, "golden_surface.py")
    lines = differing_bits(json.loads(old), json.loads(new))
    print(*lines, f"{len(lines)} differences", sep="\n")
    return int(bool(lines))


def compare_combinations(commit: str) -> int:
    """The same of which options go together (tools/golden_combinations.py); a change is told once, with how many
    combinations it concerns."""
    old, new = (json.loads(each) for each in _printed(commit, "golden_combinations.py"))
    changes: dict[tuple[Any, Any], list[str]] = {}
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            changes.setdefault((old.get(name), new.get(name)), []).append(name)
    for (before, after), names in sorted(changes.items(), key=lambda item: -len(item[1])):
        print(f"DIFFERS    {len(names)} such as {names[0]}", f"old: {before}", f"new: {after}", sep="\n    ")
    bugs = [name for name in new if new[name].startswith("BUG")]
    print(*(f"BUG        {name}: {new[name]}" for name in bugs), sep="\n")
    accepted = sum(each.startswith("accepted") for each in new.values())
    count = sum(map(len, changes.values()))
    print(f"{count} of {len(new)} combinations differ ({accepted} are accepted, {len(bugs)} end in a bug)")
    return int(count + len(bugs) > 0)


def compare_limits(commit: str) -> int:
    """The same of smallest limits (tools/golden_limits.py), as a table; a little more is no difference."""
    old, new = (json.loads(each) for each in _printed(commit, "golden_limits.py"))
    wrong = 0
    print(f"{'MB':>10} {'before':>10} {'change':>10}")
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        change = f"{after / before - 1:+.1%}" if isinstance(before, int) and isinstance(after, int) else "?"
        differs = after / before > 1 + MOST_RISE if change != "?" else before != after
        wrong += differs
        shown = "" if before == after else change
        print(f"{after!s:>10} {before!s:>10} {shown:>10}  {name}{'  DIFFERS' if differs else ''}")
    print(f"{wrong} of {len(new)} limits are over {MOST_RISE:.0%} higher, or another error")
    return int(wrong > 0)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.golden", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--against", metavar="COMMIT", required=True, help="what these files are compared with"
    )
    parser.add_argument(
        "--certificates",
        action="store_true",
        help="the same as far as certificates tell, not to the last bit",
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these runs alone")
    parser.add_argument("--random", type=int, metavar="COUNT", help="random small problems instead")
    records = {
        "surface": ("the public surface instead", compare_surface),
        "combinations": ("which options go together instead", compare_combinations),
        "limits": ("the smallest memory limits instead", compare_limits),
    }
    for name, (what, _) in records.items():
        parser.add_argument(f"--{name}", action="store_true", help=what)
    given = parser.parse_args(words)
    for name, (_, of_both) in records.items():
        if getattr(given, name):
            return of_both(given.against)
    if given.random is not None:
        return compare_random(given.against, given.random, given.certificates)
    return compare(given.against, given.only, given.certificates)


if __name__ == "__main__":
    sys.exit(main())
