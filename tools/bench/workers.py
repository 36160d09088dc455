"""What runs inside a contestant's own process where the contestant is a Python package. Not for people:

    python -m tools.bench.workers NAME '{"train": ..., "model": ..., "C": ..., "setting": ..., ...}'

Trains, saves the model and prints a JSON object: passes where they are known, seconds spent reading.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

CHUNK_BYTES = 32 << 20


def _read(path: str, **options: Any) -> Any:
    """scikit-learn's reader, its indices as its solvers want them."""
    import numpy as np
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(path, **options)
    if X.nnz < 2**31:
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


def linearsvc(task: dict[str, Any]) -> dict[str, Any]:
    """scikit-learn's LinearSVC: LIBLINEAR's dual coordinate descent over a matrix in memory."""
    import numpy as np
    from sklearn.svm import LinearSVC

    began = time.monotonic()
    X, y = _read(task["train"])
    reading = time.monotonic() - began
    svm = LinearSVC(
        C=task["C"], loss="hinge", dual=True, fit_intercept=False, tol=task["setting"], max_iter=10_000
    )
    svm.fit(X, y)
    _save(task, svm.coef_, 0.0, svm.classes_)
    return {"passes": int(np.max(svm.n_iter_)), "reading_seconds": reading}


def sgd(task: dict[str, Any]) -> dict[str, Any]:
    """scikit-learn's SGDClassifier.partial_fit over pieces of the file, averaged from the second epoch.

    alpha = 1 / (n C).
    """
    import numpy as np
    from sklearn.linear_model import SGDClassifier

    svm = SGDClassifier(
        loss="hinge",
        alpha=1 / (task["rows"] * task["C"]),
        fit_intercept=False,
        average=task["rows"],
        random_state=0,
    )
    classes, size, reading = np.array(task["classes"]), os.path.getsize(task["train"]), 0.0
    for _ in range(int(task["setting"])):
        for offset in range(0, size, CHUNK_BYTES):
            began = time.monotonic()
            X, y = _read(
                task["train"], n_features=task["columns"], offset=offset, length=CHUNK_BYTES, zero_based=False
            )
            reading += time.monotonic() - began
            if X.shape[0]:
                svm.partial_fit(X, y, classes=classes)
    _save(task, svm.coef_, 0.0, svm.classes_)
    return {"passes": int(task["setting"]), "reading_seconds": reading}


def liblinear(task: dict[str, Any]) -> dict[str, Any]:
    """PyPI's bindings of LIBLINEAR, one core or several: its own reader, its own model file."""
    from liblinear.liblinearutil import problem, save_model, svm_read_problem, train

    began = time.monotonic()
    y, x = svm_read_problem(task["train"], return_scipy=True)
    reading = time.monotonic() - began
    threads = f" -m {task['threads']}" if task["multicore"] else ""
    model = train(problem(y, x), f"-s 3 -c {task['C']} -e {task['setting']} -q{threads}")
    save_model(task["model"], model)
    return {"reading_seconds": reading}


def snapml(task: dict[str, Any]) -> dict[str, Any]:
    """Snap ML's SupportVectorMachine on a matrix that scikit-learn read; regularizer = 1 / C."""
    import numpy as np
    from snapml import SupportVectorMachine

    began = time.monotonic()
    X, y = _read(task["train"], dtype=np.float32)
    reading = time.monotonic() - began
    svm = SupportVectorMachine(
        loss="hinge",
        regularizer=1 / task["C"],
        tol=task["setting"],
        n_jobs=task["threads"],
        fit_intercept=False,
        max_iter=10_000,
        random_state=0,
    )
    svm.fit(X, np.where(y == task["classes"][1], 1.0, -1.0))
    _save(task, np.asarray(svm.coef_).reshape(1, -1), 0.0, np.array(task["classes"]))
    return {"reading_seconds": reading}


def unlimited(task: dict[str, Any]) -> dict[str, Any]:
    """LIBLINEAR inside scikit-learn, without LIBLINEAR's limit of iterations. multiclass: "ovr", "ovo" or
    "crammer-singer". Seconds of the solving alone, reading not counted."""
    import numpy as np
    from sklearn.svm import LinearSVC

    X, y = _read(task["train"])
    if "epsilon" in task["loss"]:
        return _unlimited_numbers(task, X, y)
    options = {"C": task["C"], "loss": task["loss"], "tol": task["setting"], "fit_intercept": False}
    options |= {"max_iter": 100_000_000, "random_state": 0}
    if task["multiclass"] == "crammer-singer":
        options["multi_class"] = "crammer_singer"
    classes, rows = np.unique(y), []
    pairs = [(a, b) for i, a in enumerate(classes) for b in classes[i + 1 :]]
    problems = [np.flatnonzero((y == a) | (y == b)) for a, b in pairs] if _by_pairs(task, classes) else [None]
    began, cpu = time.monotonic(), time.process_time()
    for mine in problems:
        svm = LinearSVC(dual=True, **options)
        svm.fit(X, y) if mine is None else svm.fit(X[mine], y[mine])
        rows.append(svm.coef_ if mine is None else -svm.coef_)  # positive for a pair's smaller label
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    _save(task, np.vstack(rows), 0.0, classes)
    return {"seconds": seconds, "cpu_seconds": cpu}


def _unlimited_numbers(task: dict[str, Any], X: Any, y: Any) -> dict[str, Any]:
    import numpy as np
    from sklearn.svm import LinearSVR

    began, cpu = time.monotonic(), time.process_time()
    options = {"C": task["C"], "loss": task["loss"], "epsilon": task["epsilon"], "tol": task["setting"]}
    svr = LinearSVR(fit_intercept=False, dual=True, max_iter=100_000_000, random_state=0, **options)
    svr.fit(X, y)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    _save(task, svr.coef_, 0.0, np.zeros(0))
    return {"seconds": seconds, "cpu_seconds": cpu}


def svc(task: dict[str, Any]) -> dict[str, Any]:
    """LIBSVM inside scikit-learn: RBF kernel, hinge, an intercept that is not penalised; pairs of classes.

    The model is β of every row, a column per pair. Seconds of the solving alone."""
    import numpy as np
    from sklearn.svm import SVC

    X, y = _read(task["train"])
    classes = np.unique(y)
    svm = SVC(C=task["C"], gamma=task["gamma"], tol=task["setting"], cache_size=1000)
    pairs = [(a, b) for i, a in enumerate(classes) for b in classes[i + 1 :]]
    coef, intercept = np.zeros((X.shape[0], len(pairs))), np.zeros(len(pairs))
    turn = (
        -1.0 if len(classes) > 2 else 1.0
    )  # positive for a pair's smaller label, but for the larger one of two
    seconds = cpu_seconds = 0.0
    for p, (a, b) in enumerate(pairs):
        mine = np.flatnonzero((y == a) | (y == b))
        began, cpu = time.monotonic(), time.process_time()
        svm.fit(X[mine], np.where(y[mine] == b, 1, -1))
        seconds, cpu_seconds = seconds + time.monotonic() - began, cpu_seconds + time.process_time() - cpu
        dual = svm.dual_coef_.toarray() if hasattr(svm.dual_coef_, "toarray") else svm.dual_coef_
        coef[mine[svm.support_], p] = turn * np.ravel(dual)
        intercept[p] = turn * svm.intercept_[0]
    _save(task, coef, intercept, classes)
    return {"seconds": seconds, "cpu_seconds": cpu_seconds}


def _by_pairs(task: dict[str, Any], classes: Any) -> bool:
    return task["multiclass"] == "ovo" and len(classes) > 2


def _save(task: dict[str, Any], coef: Any, intercept: Any, classes: Any) -> None:
    import numpy as np

    with open(task["model"], "wb") as file:
        np.savez(file, coef=coef, intercept=intercept, classes=classes)


# -- reading alone ---------------------------------------------------------------------------------------------


def read_llsvm(task: dict[str, Any]) -> dict[str, Any]:
    """llsvm's reader over the file, after a first block that compiles it."""
    from llsvm.data import open_source

    source = open_source(task["train"], threads=task["threads"])
    next(iter(source.blocks(1 << 16)))
    source = open_source(task["train"], threads=task["threads"])
    began, cpu, rows = time.monotonic(), time.process_time(), 0
    for block in source.blocks(task["block_bytes"]):
        rows += block.n_rows
    return {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu, "rows": rows}


def read_sklearn(task: dict[str, Any]) -> dict[str, Any]:
    """scikit-learn's load_svmlight_file over the whole file."""
    from sklearn.datasets import load_svmlight_file

    began, cpu = time.monotonic(), time.process_time()
    X, _ = load_svmlight_file(task["train"])
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "rows": int(X.shape[0])}


WORKERS = {
    worker.__name__: worker
    for worker in (linearsvc, unlimited, svc, sgd, liblinear, snapml, read_llsvm, read_sklearn)
}

if __name__ == "__main__":
    print(json.dumps(WORKERS[sys.argv[1]](json.loads(sys.argv[2]))))
