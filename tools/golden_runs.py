"""The runs that ``tools.golden`` compares: what is trained on which data.

Runs are known by name. Data are generated from seeds (tools/golden_data.py); runs on real data are left out where
$LLSVM_DATA has none. No run depends on clocks, on other processes, or on how much memory is free: limits are named,
and the room for rows follows from ``RUNTIME_BYTES``; whoever changes that constant changes the blocks of the runs
under the smallest limits ("tight").
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.checkout import ROOT

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
    "state": "--state",
    "points": "--points",
    "holdout": "--holdout",
    "folds": "--folds",
    "analyzer": "--analyzer",
    "ngrams": "--ngrams",
    "text": "--text",
    "prune": "--prune",
    "nu": "--nu",
    "quantile": "--quantile",
    "epsilon": "--epsilon",
}
SQUARED_HINGE, LEAST_SQUARES, LOGISTIC, ELASTIC = "squared_hinge", "least-squares", "logistic", "elasticnet"
ROOMY, TIGHT = "1GB", "276MB"  # room for all rows; for a part of those of "large" only
LABELLED = {"label": "last"}  # of NumPy's files


@dataclass(frozen=True)
class Run:
    """data: names of files that ``tools.golden_data`` writes, or of ``real`` ones, below $LLSVM_DATA.
    options: keys of OPTIONS; True for a flag, a list for one that is repeated; "state" has the run's own folder.
    command: of llsvm. then: what is run after it, with the same model and state."""

    data: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    real: bool = False
    command: str = "train"
    then: Run | None = None


def _run(*data: str, command: str = "train", then: Run | None = None, **options: Any) -> Run:
    return Run(data, options, command=command, then=then)


def _real(*data: str, **options: Any) -> Run:
    return Run(data, options, real=True)


def _tight(*data: str, then: Run | None = None, **options: Any) -> Run:
    return Run(data, {"memory": TIGHT, "tol": 0.01, **options}, then=then)


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
    "auto on large C": _run("sparse.svm", C=1e4),
    "auto on large C ovr": _run("dense.svm", C=1e4),
    "auto on a few values": _run("few.svm", C=1e4, tol=1e-8),
    # other losses
    "logistic": _run("sparse.svm", loss=LOGISTIC),
    "logistic ovr, intercept": _run("dense.svm", loss=LOGISTIC, intercept=True),
    "logistic ovo": _run("dense.svm", loss=LOGISTIC, multiclass="ovo"),
    "logistic llsvm": _run("sparse.svm", loss=LOGISTIC, solver="llsvm", C=10),
    "logistic l1": _run("sparse.svm", loss=LOGISTIC, penalty="l1"),
    "logistic weights": _run("mixed.csv", loss=LOGISTIC, weight="importance", missing="mean"),
    "softmax": _run("dense.svm", loss=LOGISTIC, multiclass="softmax"),
    "softmax wide": _run("dense.svm", loss=LOGISTIC, multiclass="softmax", C=100, class_weight="balanced"),
    "epsilon-insensitive": _run("numbers.csv", label="x0", loss="epsilon_insensitive", epsilon=0.2),
    "squared epsilon-insensitive": _run("numbers.csv", label="x0", loss="squared_epsilon_insensitive"),
    "quantile": _run("numbers.csv", label="x0", loss="quantile", quantile=0.9),
    "quantile, weights": _run(
        "mixed.csv", label="x0", loss="quantile", quantile=0.2, weight="importance", missing="mean"
    ),
    "huber": _run("numbers.csv", label="x0", loss="huber", intercept=True),
    "huber smsvm": _run("numbers.csv", label="x0", loss="huber", solver="smsvm"),
    "one class": _run("dense.svm", loss="one_class", nu=0.2),
    "one class sparse": _run("sparse.svm", loss="one_class", nu=0.5),
    # intercepts, classes and costs
    "free intercept": _run("sparse.svm", intercept=True),
    "free intercept ovr": _run("dense.svm", intercept=True),
    "free intercept squared hinge ovo": _run(
        "dense.svm", intercept=True, loss=SQUARED_HINGE, multiclass="ovo"
    ),
    "balanced ovr": _run("dense.svm", class_weight="balanced", C=10),
    "squared hinge large C": _run("dense.svm", loss=SQUARED_HINGE, C=1e4),
    "crammer-singer large C": _run("dense.svm", multiclass="crammer-singer", C=100, tol=0.01),
    "weston-watkins sparse": _run("sparse.svm", multiclass="weston-watkins"),
    "pruned": _run("sparse.svm", penalty="l1", prune=0.01),
    "kernel smo": _run("few.svm", kernel="rbf", gamma=0.1, solver="smo"),
    "kernel smo large C ovr": _run("few.svm", kernel="rbf", gamma=0.1, solver="smo", C=100, multiclass="ovr"),
    # text
    "text": _run("reviews.csv", text="review"),
    "text hashed": _run("reviews.csv", text="review", hash_bits=12, ngrams="1-2"),
    "text of characters, logistic": _run(
        "reviews.csv", text="review", analyzer="char_wb", ngrams="2-4", loss=LOGISTIC
    ),
    # other commands
    "tune": _run("dense.svm", command="tune", C="0.01,0.1,1,10", folds=3),
    "tune losses": _run("sparse.svm", command="tune", C="0.1,1", loss=[LOGISTIC, SQUARED_HINGE], folds=4),
    "tune text": _run("reviews.csv", command="tune", text="review", C="0.1,1,10", folds=3),
    "tune regression": _run(
        "numbers.csv", command="tune", label="x0", loss="quantile", C="0.1,1", holdout=0.25
    ),
    "path": _run("sparse.svm", command="path", points=5, loss=SQUARED_HINGE),
    "path logistic": _run("sparse.svm", command="path", points=4, loss=LOGISTIC),
    # states
    "state, another C": _run("sparse.svm", state=True, then=_run("sparse.svm", state=True, C=3)),
    "state, rows appended": _run(
        "part1.svm", "part2.svm", state=True, then=_run("part1.svm", "part2.svm", "part3.svm", state=True)
    ),
    "state, passes in turn": _run(
        "dense.svm", state=True, passes=2, solver="llsvm", then=_run("dense.svm", state=True, solver="llsvm")
    ),
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
    "tight ovo": _tight("large.npy", **LABELLED, memory="296MB", multiclass="ovo", C=0.01, tol=0.1),
    "tight crammer-singer": _tight(
        "large.npy", **LABELLED, memory="296MB", multiclass="crammer-singer", C=0.01, tol=0.05
    ),
    "tight nesvm": _tight("large.npy", **LABELLED, positive="1", solver="nesvm", tol=0.05),
    "tight smsvm": _tight("large.svm", solver="smsvm", cache="never"),
    "tight large C": _tight("large.svm", C=100, tol=0.05, positive="1"),
    "tight free intercept": _tight("large.svm", intercept=True, tol=0.05),
    "tight logistic": _tight("large.svm", loss=LOGISTIC),
    "tight softmax": _tight("large.npy", **LABELLED, loss=LOGISTIC, multiclass="softmax", memory="296MB"),
    "tight one class": _tight("large.svm", loss="one_class", nu=0.1),
    "tight state, another C": _tight(
        "large.svm", memory="280MB", state=True, then=_tight("large.svm", memory="280MB", state=True, C=2)
    ),
    "tight kernel": _tight("some.svm", kernel="rbf", gamma=0.02, tol=0.05),
    # real data
    "a9a": _real("adult/a9a.xz", solver="llsvm"),
    "a9a auto balanced": _real("adult/a9a.xz", class_weight="balanced", bias=1, tol=0.01),
    "australian": _real("australian/australian", scale="minmax", bias=1, C=10),
}


def command(run: Run, files: list[Path], folder: Path) -> list[str]:
    """What is run, as words of a command line; model and state lie in ``folder``."""
    common: dict[str, Any] = {"threads": 1, "memory": ROOMY, "json": True}
    if run.command != "path":
        common |= {"seed": 7, "quiet": True, "model": folder / "model"}
    words = [sys.executable, "-m", "llsvm", run.command, *map(str, files)]
    for name, value in {**common, **run.options}.items():
        for each in value if isinstance(value, list) else [value]:
            is_flag = each is True and name != "state"
            words += (
                [OPTIONS[name]] if is_flag else [OPTIONS[name], str(folder / name if each is True else each)]
            )
    return words


def files_of(run: Run, folder: Path) -> list[Path] | None:
    """Where the run's data are; None where real data are missing."""
    if run.real:
        folder = Path(os.environ.get("LLSVM_DATA", ROOT.parent / "shared" / "data"))
    paths = [folder / name for name in run.data]
    return paths if all(path.exists() for path in paths) else None
