"""Which options go together, as JSON, for ``tools.golden --combinations`` to compare: by combination, its outcome.

    python tools/golden_combinations.py

Every solver is asked for with every loss, penalty and form of multi-class, and each of these with every line of
MORE; then every solver and loss with every two lines. What is accepted is trained on 30 rows, for two passes. It is
a program of its own, since the code that it asks is that of another checkout.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import scipy.sparse as sp

import llsvm
from llsvm.errors import LLSVMError

SOLVERS = ("auto", "llsvm", "smsvm", "nesvm", "smo")
CLASSES = ("hinge", "squared_hinge", "least-squares", "logistic")
NUMBERS = ("epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "huber")
PENALTIES = ("l2", "l1", "elasticnet")
FORMS = ("ovr", "ovo", "crammer-singer", "weston-watkins", "softmax")
DATA = "data"  # in MORE, what is special about the rows
MORE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "two classes": {DATA: "two"},
    "weights": {DATA: "weighted"},
    "sparse rows": {DATA: "sparse"},
    "free intercept": {"intercept": True},
    "bias": {"bias": 1.0},
    "balanced": {"class_weight": "balanced"},
    "class weights": {"class_weight": {0: 2.0}},
    "columns scaled": {"scale": "standard"},
    "rows scaled": {"scale": "unit-row"},
    "targets scaled": {"target_scale": "standard"},
    "rbf": {"kernel": "rbf"},
    "polynomial": {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1.0},
    "precomputed": {"kernel": "precomputed"},
    "nystroem": {"feature_map": "nystroem", "components": 5},
    "rff": {"feature_map": "rff", "components": 5, "kernel": "rbf"},
    "gamma alone": {"gamma": 0.5},
    "paper": {"paper": True},
    "paper's step": {"step": "paper"},
    "stop by change": {"stop": "change"},
    "mu": {"mu": 0.5},
    "last mu": {"mu_end": 0.01},
    "no homotopy": {"homotopy": False},
    "pruned": {"prune": 0.01},
    "lambda1": {"lambda1": 0.01},
    "lambda2": {"lambda2": 0.01},
    "both lambdas": {"lambda1": 0.01, "lambda2": 0.01},
    "C": {"C": 10.0},
    "l1_ratio": {"l1_ratio": 0.3},
    "epsilon": {"epsilon": 0.3},
    "quantile": {"quantile": 0.3},
    "delta": {"delta": 0.3},
    "nu": {"nu": 0.3},
    "survivors": {"survivors": 0.5},
    "cache": {"cache": "always"},
}
_FLAG = re.compile(r"(?<!\S)\(?(--[a-z][a-z0-9-]*|-C\b)")


def asked() -> Iterator[tuple[str, dict[str, Any]]]:
    """The combinations: a name, and the options, of which ``DATA`` is none."""
    for solver, loss in product(SOLVERS, (*CLASSES, *NUMBERS, "one_class")):
        for penalty, form, more in product(PENALTIES, FORMS, MORE):
            options = {"solver": solver, "loss": loss, "penalty": penalty, "multiclass": form}
            yield f"{solver}, {loss}, {penalty}, {form}, {more}", options | MORE[more]
        for one, other in combinations(list(MORE)[1:], 2):
            if not MORE[one].keys() & MORE[other].keys():
                options = {"solver": solver, "loss": loss} | MORE[one] | MORE[other]
                yield f"{solver}, {loss}, {one}, {other}", options


def rows(kind: str, loss: str, kernel: str | None) -> dict[str, Any]:
    """30 rows, of three classes or of numbers: data, y and sample_weight. kind: see DATA, or "". kernel: option."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    y = np.arange(30) % (2 if kind == "two" else 3)
    X[:, 0] += y
    data: Any = X @ X.T if kernel == "precomputed" else sp.csr_matrix(X) if kind == "sparse" else X
    weight = rng.choice([0.5, 2.0], 30) if kind == "weighted" else None
    return {"data": data, "y": X[:, 0] if loss in NUMBERS else y, "sample_weight": weight}


def outcome(options: dict[str, Any]) -> str:
    """Who trained how many problems; or the exit code, the kind of error, and the options that its words name."""
    given = dict(options)
    bounds = {"tol": 0.5, "max_passes": 2, "threads": 1, "seed": 0, "memory_limit": "4GB"}
    try:
        data = rows(given.pop(DATA, ""), given["loss"], given.get("kernel"))
        model = llsvm.train(**data, **given, **bounds)
    except LLSVMError as error:
        named = " ".join(sorted(set(_FLAG.findall(str(error.args[0])))))
        return f"refused: exit {error.exit_code}, {type(error).__name__}, names {named or 'no option'}"
    except Exception as error:  # which is a bug, and a difference if only one of both has it
        return f"BUG: {type(error).__name__}: {error}"
    problems = 0 if model.certificate is None else len(model.certificate.primal)
    return f"accepted: {model.extra['solver']}, {problems} certified problems"


def main() -> None:
    warnings.simplefilter("ignore")
    print(json.dumps({name: outcome(options) for name, options in asked()}, indent=0))


if __name__ == "__main__":
    main()
