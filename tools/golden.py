"""A safety net for changes that must not change results: a fixed list of small training runs, bit for bit.

    python -m tools.golden record FILE.json                      what every run gives now
    python -m tools.golden compare FILE.json [--only NAME ...]   does it still? exit code 1 on any difference
    python -m tools.golden compare FILE.json --accept NAME ...   compare, and rewrite these entries on purpose

Each run is ``python -m llsvm train ...`` in a fresh process with one thread and a fixed seed, so that modules may
be moved at will. Recorded are the exit code, SHA-256 and size of the weights (``coef`` and ``intercept`` of the
model's file, read as the zip file of arrays that it is), the certificate (primal, dual, gap; floats as exact
hexadecimal text), the passes, the solver, where the rows were read from and whether survivors were spilled, so that
a run goes on testing what it is named for. Data are generated from seeds (tools/golden_data.py); runs on real data
are left out where $LLSVM_DATA has none. Runs are known by name: where options, their values or keys of the answer
are renamed, change the tables at the top of this file. All take about a minute, once the kernels are compiled.

Equal bits are to be had on one machine only, with the same NumPy and Numba: another processor adds in another
order. All these are recorded, and ``compare`` says where they differ. No run depends on clocks, on other processes,
or on how much memory is free: limits are named, and the room for rows follows from ``RUNTIME_BYTES``;
whoever changes that constant changes the blocks of the runs under the smallest limits ("tight").
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tools.golden_data import write_data

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_SECONDS = 300

# What the command line calls things: change these when options are renamed.
OPTIONS = {
    "model": "--model",
    "json": "--json",
    "quiet": "--quiet",
    "seed": "--seed",
    "threads": "--threads",
    "memory": "--memory-limit",
    "solver": "--solver",
    "multiclass": "--multiclass",
    "loss": "--loss",
    "penalty": "--penalty",
    "l1_ratio": "--l1-ratio",
    "C": "-C",
    "lambda2": "--lambda2",
    "tol": "--tol",
    "passes": "--max-passes",
    "paper": "--paper",
    "class_weight": "--class-weight",
    "weight": "--weight",
    "bias": "--bias",
    "intercept": "--intercept",
    "scale": "--scale",
    "label": "--label",
    "positive": "--positive",
    "exclude": "--exclude",
    "missing": "--missing",
    "hash_bits": "--hash-bits",
    "cache": "--cache",
    "survivors": "--survivors",
    "spill_format": "--spill-format",
    "step": "--step",
    "stop": "--stop",
    "kernel": "--kernel",
    "gamma": "--gamma",
    "degree": "--degree",
    "coef0": "--coef0",
    "map": "--feature-map",
    "components": "--components",
}
SQUARED_HINGE, LEAST_SQUARES, ELASTIC = "squared_hinge", "least-squares", "elasticnet"
# Keys of the answer (--json): what they are called in the record -> in the answer.
ANSWER = {"solver": "solver", "values": "values", "read_from": "read_from", "rows": "rows"}
AMOUNTS = {"spilled": "bytes_spilled", "on_disk": "peak_disk_bytes"}  # recorded as: any, or none
ROOMY, TIGHT = "1GB", "276MB"  # room for all rows; for a part of those of "large" only
LABELLED = {"label": "last"}  # of NumPy's files


@dataclass(frozen=True)
class Run:
    """data: names of files that ``tools.golden_data`` writes, or of ``real`` ones, below $LLSVM_DATA.
    options: keys of OPTIONS; True for a flag, a list for one that is repeated."""

    data: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    real: bool = False


def _run(*data: str, **options: Any) -> Run:
    return Run(data, options)


def _real(*data: str, **options: Any) -> Run:
    return Run(data, options, real=True)


def _tight(*data: str, **options: Any) -> Run:
    return Run(data, {"memory": TIGHT, "tol": 0.01, **options})


RUNS = {
    # coordinate descent
    "llsvm hinge": _run("sparse.svm", solver="llsvm"),
    "llsvm squared hinge, bias": _run("sparse.svm", loss=SQUARED_HINGE, bias=1, tol=1e-4),
    "llsvm paper": _run("sparse.svm", solver="llsvm", paper=True),
    "llsvm unconverged": _run("sparse.svm", solver="llsvm", C=100, tol=1e-6, passes=4),
    "llsvm lambda2, class weights": _run(
        "sparse.svm", solver="llsvm", lambda2=1e-3, class_weight=["-1=0.5", "1=2"]
    ),
    "llsvm scaled": _run("dense.svm", solver="llsvm", scale="minmax", bias=1, positive="2"),
    "llsvm ovr": _run("dense.svm", solver="llsvm"),
    "llsvm ovo balanced": _run("dense.svm", solver="llsvm", multiclass="ovo", class_weight="balanced"),
    "crammer-singer": _run("dense.svm", multiclass="crammer-singer", C=0.1),
    "weston-watkins": _run("dense.svm", multiclass="weston-watkins", C=0.1),
    "crammer-singer sparse": _run("sparse.svm", multiclass="crammer-singer", C=0.1),
    # NESVM
    "nesvm hinge": _run("sparse.svm", solver="nesvm", tol=0.01, passes=80),
    "nesvm intercept ovo": _run("dense.svm", solver="nesvm", intercept=True, multiclass="ovo", tol=0.01),
    "nesvm paper": _run("sparse.svm", solver="nesvm", step="paper", stop="change", passes=60),
    "nesvm l1": _run("sparse.svm", solver="nesvm", penalty="l1", tol=0.01, passes=40),
    "nesvm least squares": _run(
        "dense.svm", solver="nesvm", loss=LEAST_SQUARES, intercept=True, scale="maxabs"
    ),
    "kernel rbf": _run("few.svm", solver="nesvm", kernel="rbf", gamma=0.1),
    "kernel poly ovo": _run(
        "few.svm", kernel="poly", degree=2, coef0=1, gamma=0.1, multiclass="ovo", tol=0.01
    ),
    "kernel least squares": _run("few.svm", kernel="rbf", gamma=0.1, loss=LEAST_SQUARES, intercept=True),
    "map nystroem": _run("dense.svm", map="nystroem", components=60, gamma=0.05, solver="llsvm"),
    "map rff smsvm": _run("dense.svm", map="rff", components=60, gamma=0.05, solver="smsvm"),
    # smoothed Newton
    "smsvm l2": _run("sparse.svm", solver="smsvm"),
    "smsvm l1": _run("dense.svm", solver="smsvm", penalty="l1", bias=1, positive="0"),
    "smsvm l1 sparse": _run("sparse.svm", solver="smsvm", penalty="l1", C=0.3),
    "smsvm squared hinge ovr": _run("dense.svm", solver="smsvm", loss=SQUARED_HINGE, bias=1, tol=1e-6),
    "smsvm squared hinge l1": _run("sparse.svm", solver="smsvm", loss=SQUARED_HINGE, penalty="l1", C=0.1),
    "smsvm squared hinge wide": _run("wide.svm", solver="smsvm", loss=SQUARED_HINGE),
    "smsvm wide": _run("wide.svm", solver="smsvm"),
    "smsvm wide l1": _run("wide.svm", solver="smsvm", penalty="l1", tol=0.01),
    "smsvm elastic ovr": _run("dense.svm", solver="smsvm", penalty=ELASTIC, l1_ratio=0.3, C=0.1),
    "smsvm dense scaled": _run("dense.svm", solver="smsvm", scale="standard", bias=1),
    # auto: it counts updates, and looks at no clock
    "auto": _run("sparse.svm"),
    "auto changes to smsvm": _run("few.svm", C=1000, positive="1"),
    # formats
    "gzip": _run("sparse.svm.gz", solver="llsvm"),
    "several files": _run("part1.svm", "part2.svm", "part3.svm", solver="llsvm"),
    "csv numbers": _run("numbers.csv", solver="llsvm"),
    "csv text, weights": _run("mixed.csv", solver="llsvm", weight="importance", missing="mean"),
    "csv nesvm, weights": _run("mixed.csv", solver="nesvm", weight="importance", missing="zero", tol=0.01),
    "csv hashed": _run("mixed.csv", exclude="importance", missing="zero", hash_bits=6, solver="smsvm"),
    "parquet": _run("mixed.parquet", solver="llsvm", weight="importance", missing="mean"),
    "npy": _run("rows.npy", label="last", solver="llsvm"),
    "hdf5": _run("rows.h5", solver="llsvm"),
    # rows beyond the memory limit
    "tight cache, spilled": _tight("large.svm", solver="llsvm"),
    "tight source, spilled": _tight("large.svm", solver="llsvm", cache="never", tol=0.05),
    "tight hdf5 spill": _tight("large.svm", solver="llsvm", spill_format="hdf5", tol=0.05),
    "tight survivors": _tight("large.npy", **LABELLED, positive="1", survivors=0.1, tol=0.1, solver="llsvm"),
    "tight scaled ovr": _tight("large.npy", **LABELLED, solver="llsvm", scale="standard", bias=1, tol=0.05),
    "tight ovo": _tight("large.npy", **LABELLED, multiclass="ovo", C=0.01, tol=0.1),
    "tight crammer-singer": _tight(
        "large.npy", **LABELLED, memory="296MB", multiclass="crammer-singer", C=0.01, tol=0.05
    ),
    "tight nesvm": _tight("large.npy", **LABELLED, positive="1", solver="nesvm", tol=0.05),
    "tight smsvm": _tight("large.svm", solver="smsvm", cache="never"),
    "tight kernel": _tight("some.svm", kernel="rbf", gamma=0.02, tol=0.05),
    # real data
    "a9a": _real("adult/a9a.xz", solver="llsvm"),
    "a9a auto balanced": _real("adult/a9a.xz", class_weight="balanced", bias=1, tol=0.01),
    "australian": _real("australian/australian", scale="minmax", bias=1, C=10),
}


# -- runs ------------------------------------------------------------------------------------------------


def command(run: Run, files: list[Path], model: Path) -> list[str]:
    """What is run, as words of a command line."""
    options = {"threads": 1, "seed": 7, "memory": ROOMY, "json": True, "quiet": True, "model": model}
    words = [sys.executable, "-m", "llsvm", "train", *map(str, files)]
    for name, value in {**options, **run.options}.items():
        for each in value if isinstance(value, list) else [value]:
            words += [OPTIONS[name]] if each is True else [OPTIONS[name], str(each)]
    return words


def files_of(run: Run, folder: Path) -> list[Path] | None:
    """Where the run's data are; None where real data are missing."""
    if run.real:
        folder = Path(os.environ.get("LLSVM_DATA", ROOT.parent / "shared" / "data"))
    paths = [folder / name for name in run.data]
    return paths if all(path.exists() for path in paths) else None


def outcome(run: Run, files: list[Path], folder: Path) -> dict[str, Any]:
    """Train in a fresh process; what is recorded of it."""
    model, work = folder / "model", folder / "work"
    model.unlink(missing_ok=True)
    work.mkdir(exist_ok=True)
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    env = {**os.environ, **one, "PYTHONPATH": str(ROOT), "TMPDIR": str(work)}
    words = command(run, files, model)
    try:
        done = subprocess.run(
            words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"exit": None, "error": f"not done after {TIMEOUT_SECONDS} s"}
    found: dict[str, Any] = {"exit": done.returncode}
    if not model.exists():
        return found | {"error": done.stderr.strip()[-600:]}
    answer = json.loads(done.stdout or "{}")  # what is missing there is a difference like others
    found |= {name: answer.get(key) for name, key in ANSWER.items()}
    found |= {name: answer.get(key, 0) > 0 for name, key in AMOUNTS.items()}
    return found | weights(model)


def weights(path: Path) -> dict[str, Any]:
    """What is recorded of a model's file, by zipfile and NumPy alone."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        found: dict[str, Any] = {}
        for name in ("coef", "intercept"):
            array = np.load(io.BytesIO(archive.read(f"{name}.npy")))
            found[name] = {
                "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
                "bytes": array.nbytes,
                "shape": list(array.shape),
                "dtype": array.dtype.str,
            }
    certificate = header["certificate"]
    if certificate is None:  # not measured
        return found | dict.fromkeys(("primal", "dual", "gap", "passes"))
    primal, dual = map(float, (sum(certificate["primal"]), sum(certificate["dual"])))
    return found | {
        "primal": [float(value).hex() for value in certificate["primal"]],
        "dual": [float(value).hex() for value in certificate["dual"]],
        "gap": (primal - dual).hex(),
        "passes": certificate["passes"],
    }


def machine() -> dict[str, str]:
    """What equal bits depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    versions = {name: version(name) for name in ("numpy", "numba", "scipy", "pyarrow", "h5py")}
    return {"cpu": cpu or platform.processor(), "python": platform.python_version(), **versions}


# -- record and compare ----------------------------------------------------------------------------------


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two outcomes of a run, a line for each; none where they are the same."""
    names = [*old, *(name for name in new if name not in old)]
    return [
        f"{name}: {_shown(old.get(name))} -> {_shown(new.get(name))}"
        for name in names
        if name not in old or name not in new or old[name] != new[name]
    ]


def _shown(value: Any) -> str:
    """For people: hexadecimal floats as decimal ones of all digits, hashes shortened."""
    if isinstance(value, dict):
        return f"{value['sha256'][:12]} ({value['bytes']} bytes, {value['dtype']} {value['shape']})"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value[:4])) + (", ...]" if len(value) > 4 else "]")
    if isinstance(value, str) and value.startswith(("0x", "-0x")):
        return repr(float.fromhex(value))
    return repr(value)


def outcomes(names: list[str], say: Callable[[str, dict[str, Any] | None, float], None]) -> None:
    """Run these; ``say`` takes the name, the outcome (None where data are missing) and the seconds."""
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        folder = Path(place)
        write_data(folder)
        for name in names:
            began, files = time.monotonic(), files_of(RUNS[name], folder)
            found = None if files is None else outcome(RUNS[name], files, folder)
            say(name, found, time.monotonic() - began)


def record(path: Path) -> int:
    """Write what all runs give now; 1 where one of them gives no model."""
    runs: dict[str, Any] = {}

    def note(name: str, found: dict[str, Any] | None, seconds: float) -> None:
        if found is None:
            print(f"left out   {name}: no {' '.join(RUNS[name].data)} in $LLSVM_DATA")
            return
        runs[name] = found
        text = found.get("error") or " ".join(
            str(found[key]) for key in ("exit", "passes", *ANSWER, *AMOUNTS)
        )
        print(f"recorded   {name}: {text} ({seconds:.1f} s)", flush=True)

    outcomes(list(RUNS), note)
    _write(path, {"machine": machine(), "runs": runs})
    return int(any("error" in found for found in runs.values()))


def compare(path: Path, only: list[str], accept: list[str]) -> int:
    """Run again and say what differs from the file; 1 where something does that is not accepted."""
    base = json.loads(path.read_text())
    for line in differences(base["machine"], machine()):
        print(f"another machine, bits may differ: {line}")
    known = {**dict.fromkeys(RUNS), **dict.fromkeys(base["runs"])}
    if strange := [name for name in (*only, *accept) if name not in known]:
        print(f"no such run: {', '.join(map(repr, strange))}; there are {', '.join(map(repr, known))}")
        return 2
    wanted = [name for name in known if not only or name in only or name in accept]
    wrong: list[str] = []
    left_out: list[str] = []

    def judge(name: str, found: dict[str, Any] | None, seconds: float) -> None:
        if found is None:
            left_out.append(name)
            print(f"left out   {name}: no {' '.join(RUNS[name].data)} in $LLSVM_DATA")
            return
        lines = differences(base["runs"].get(name, {}), found)
        state = "accepted" if lines and name in accept else "DIFFERS" if lines else "same"
        print(f"{state:10} {name} ({seconds:.1f} s)" + "".join(f"\n    {line}" for line in lines), flush=True)
        if name in accept:
            base["runs"][name] = found
        elif lines:
            wrong.append(name)

    outcomes([name for name in wanted if name in RUNS], judge)
    for name in wanted:
        if name not in RUNS:
            print(f"{'accepted' if name in accept else 'DIFFERS':10} {name}: recorded, and no run any more")
            base["runs"].pop(name) if name in accept else wrong.append(name)
    if accept:
        _write(path, base)
    judged = len(wanted) - len(left_out)
    print(f"{len(wrong)} of {judged} runs differ" if wrong else f"all {judged} as recorded")
    return int(bool(wrong))


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.golden", description=(__doc__ or "").split("\n")[0]
    )
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("record", help="write what every run gives").add_argument("file", type=Path)
    comparing = commands.add_parser("compare", help="say what differs from a record")
    comparing.add_argument("file", type=Path)
    comparing.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these runs alone")
    comparing.add_argument("--accept", nargs="+", default=[], metavar="NAME", help="rewrite these entries")
    given = parser.parse_args(words)
    return record(given.file) if given.what == "record" else compare(given.file, given.only, given.accept)


if __name__ == "__main__":
    sys.exit(main())
