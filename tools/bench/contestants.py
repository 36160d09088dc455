"""The contestants: how each is run on a data set, why one cannot be, and what it says of its run.

All minimise ½‖w‖² + C Σ hinge without bias. A contestant that is not installed is skipped with a reason. Peers from
PyPI are looked for in folders of their own (``--peers DIR``: two of them install the same package name), made by

    pip install --no-deps --target DIR/NAME NAME
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.bench.datasets import Dataset

_ROOT = Path(__file__).resolve().parents[2]
_LLSVM = "import sys; from llsvm.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Setup:
    """What all runs share.

    peers: folder with the packages of peers. memory_bytes: llsvm's limit. numba_cache: where llsvm's compiled code
    is kept (an empty folder: a cold start; None: where it always is). threads: None: each one's default, except
    that peers which must be told use ``os.cpu_count()``.
    """

    work: Path
    peers: Path
    memory_bytes: int = 400_000_000
    numba_cache: Path | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Job:
    """A command to measure. model: the file it writes, in the format ``reader`` (see ``models.READERS``)."""

    command: list[str]
    env: dict[str, str]
    model: Path
    reader: str


@dataclass(frozen=True)
class Contestant:
    """job(dataset, setting, setup): the command. said(stdout, stderr, job): what it reports of itself.
    missing(peers): why it cannot run here, or "". binary_only: no more than two classes."""

    name: str
    job: Callable[[Dataset, float, Setup], Job]
    said: Callable[[str, str, Job], dict[str, Any]]
    missing: Callable[[Path], str]
    setting_is: str
    binary_only: bool = False
    compiles: bool = False
    accepted: tuple[int, ...] = field(default=(0,))

    def skip_reason(self, peers: Path, dataset: Dataset | None = None) -> str:
        reason = self.missing(peers)
        if not reason and dataset is not None and self.binary_only and not dataset.binary:
            reason = f"two classes only here, {dataset.name} has {len(dataset.facts['classes'])}"
        return reason


def environment(*paths: Path, **variables: str) -> dict[str, str]:
    path = os.pathsep.join([*map(str, paths), str(_ROOT)])
    variables = {**os.environ, "PYTHONPATH": path, **variables}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs have their byte code
    return variables


# -- llsvm -------------------------------------------------------------------------------------------------------


def _llsvm_job(dataset: Dataset, setting: float, setup: Setup) -> Job:
    model = setup.work / "llsvm.models.model"
    command = [sys.executable, "-c", _LLSVM, "train", str(dataset.train), "--model", str(model)]
    command += ["-C", str(dataset.C), "--tol", str(setting), "--memory-limit", str(setup.memory_bytes)]
    command += ["--json", "--quiet", "--spill-dir", str(setup.work)]
    if setup.threads:
        command += ["--threads", str(setup.threads)]
    cache = {} if setup.numba_cache is None else {"NUMBA_CACHE_DIR": str(setup.numba_cache)}
    return Job(command, environment(**cache), model, "llsvm")


def _llsvm_said(stdout: str, stderr: str, job: Job) -> dict[str, Any]:
    """From its ``--json``, and the history of its passes: seconds are kept beside the model."""
    import zipfile

    answer = json.loads(stdout)
    with zipfile.ZipFile(job.model) as archive:
        history = json.loads(archive.read("header.json"))["history"]
    log = job.model.with_name(job.model.name + ".log.json")
    clocks = json.loads(log.read_text()).get("history", []) if log.exists() else []
    history = [{**row, **clock} for row, clock in zip(history, clocks, strict=False)] or history
    wanted = ("passes", "relative_gap", "dual", "bytes_read", "peak_disk_bytes", "read_from", "converged")
    return {**{name: answer[name] for name in wanted}, "history": history}


# -- LIBLINEAR and others of its family ----------------------------------------------------------------------------


def _liblinear_job(dataset: Dataset, setting: float, setup: Setup) -> Job:
    model = setup.work / "liblinear.model"
    command = ["liblinear-train", "-s", "3", "-c", str(dataset.C), "-e", str(setting)]
    return Job([*command, str(dataset.train), str(model)], dict(os.environ), model, "liblinear")


def liblinear_said(stdout: str, stderr: str = "", job: Job | None = None) -> dict[str, Any]:
    """From LIBLINEAR's own words: iterations (the most of its problems) and its dual objective."""
    iterations = [int(n) for n in re.findall(r"#iter = (\d+)", stdout)]
    values = [float(v) for v in re.findall(r"Objective value = (\S+)", stdout)]
    support = [int(n) for n in re.findall(r"nSV = (\d+)", stdout)]
    said: dict[str, Any] = {"passes": max(iterations)} if iterations else {}
    if values:
        said["dual"] = -sum(values)  # what it prints is minus the dual
    if support:
        said["support_vectors"] = sum(support)
    if "WARNING: reaching max number of iterations" in stdout + stderr:
        said["note"] = "stopped at its cap of iterations"
    return said


def _json_said(stdout: str, stderr: str, job: Job) -> dict[str, Any]:
    return dict(json.loads(stdout.strip().splitlines()[-1]))


def _worker(name: str, worker: str, reader: str, package: str = "", **more: Any) -> Any:
    """A job that runs a function of ``tools.bench.workers``, its package in a folder of its own."""

    def job(dataset: Dataset, setting: float, setup: Setup) -> Job:
        model = setup.work / f"{name}.model"
        task = {
            "train": str(dataset.train),
            "model": str(model),
            "C": dataset.C,
            "setting": setting,
            "rows": dataset.facts["rows"],
            "columns": dataset.facts["columns"],
            "classes": dataset.facts["classes"],
            "threads": setup.threads or os.cpu_count() or 1,
            **more,
        }
        command = [sys.executable, "-m", "tools.bench.workers", worker, json.dumps(task)]
        return Job(command, environment(*_folder(setup.peers, package)), model, reader)

    return job


# -- Vowpal Wabbit -------------------------------------------------------------------------------------------------


def _vw_job(dataset: Dataset, setting: float, setup: Setup) -> Job:
    """Its L2 term is per row: λ = 1 / (n C). Its own text format is made outside the clock."""
    model = setup.work / "vw.model"
    bits = max(dataset.facts["columns"].bit_length(), 1)
    options = [
        "--loss_function",
        "hinge",
        "--noconstant",
        "--l2",
        str(1 / (dataset.facts["rows"] * dataset.C)),
    ]
    options += ["-b", str(bits), "--passes", str(int(setting)), "-d", str(dataset.in_vw_format())]
    options += ["--readable_model", str(model), "--holdout_off", "--quiet"]
    if setting > 1:
        options += ["-k", "--cache_file", str(setup.work / "vw.cache")]
    command = [sys.executable, "-m", "vowpalwabbit", *options]
    return Job(command, environment(*_folder(setup.peers, "vowpalwabbit")), model, "vw")


def _nothing_said(stdout: str, stderr: str, job: Job) -> dict[str, Any]:
    if "--passes" in job.command:
        return {"passes": int(job.command[job.command.index("--passes") + 1])}
    return {}


# -- which are there -----------------------------------------------------------------------------------------


def _folder(peers: Path, package: str) -> list[Path]:
    return [peers / package] if package and (peers / package).is_dir() else []


def _needs_program(program: str, package: str) -> Callable[[Path], str]:
    def missing(peers: Path) -> str:
        return "" if shutil.which(program) else f"{program} is not installed (Debian's package {package})"

    return missing


def _needs_module(module: str, package: str) -> Callable[[Path], str]:
    def missing(peers: Path) -> str:
        if _folder(peers, package) or importlib.util.find_spec(module):
            return ""
        return f"not installed: pip install --no-deps --target {peers / package} {package}"

    return missing


def _needs_own_folder(package: str) -> Callable[[Path], str]:
    """Two packages share the module name ``liblinear``: only the folder says which one it is."""

    def missing(peers: Path) -> str:
        if _folder(peers, package):
            return ""
        return f"not installed: pip install --no-deps --target {peers / package} {package}"

    return missing


def _pypi_liblinear(name: str, multicore: bool) -> Contestant:
    job = _worker(name, "liblinear", "liblinear", name, multicore=multicore)
    return Contestant(name, job, _json_said, _needs_own_folder(name), "-e")


CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        # first: its peak decides llsvm's memory limit
        Contestant(
            "liblinear",
            _liblinear_job,
            liblinear_said,
            _needs_program("liblinear-train", "liblinear-tools"),
            "-e",
        ),
        Contestant(  # 5: not converged, the model is there and is judged like any other
            "llsvm", _llsvm_job, _llsvm_said, lambda _: "", "--tol", compiles=True, accepted=(0, 5)
        ),
        _pypi_liblinear("liblinear-official", multicore=False),
        _pypi_liblinear("liblinear-multicore", multicore=True),
        Contestant(
            "linearsvc",
            _worker("linearsvc", "linearsvc", "arrays"),
            _json_said,
            _needs_module("sklearn", "scikit-learn"),
            "tol",
        ),
        Contestant(
            "sgd",
            _worker("sgd", "sgd", "arrays"),
            _json_said,
            _needs_module("sklearn", "scikit-learn"),
            "epochs",
        ),
        Contestant(
            "vw",
            _vw_job,
            _nothing_said,
            _needs_module("vowpalwabbit", "vowpalwabbit"),
            "passes",
            binary_only=True,
        ),
        Contestant(
            "snapml",
            _worker("snapml", "snapml", "arrays", "snapml"),
            _json_said,
            _needs_module("snapml", "snapml"),
            "tol",
            binary_only=True,
        ),
    )
}
