"""Random small problems, trained: a line of JSON for each, for ``tools.golden --random`` to compare.

    python tools/golden_random.py --count 500 --seed 0

Which options go together is drawn blindly, so that what is refused, and by which sentence, is compared too. It is a
program of its own, since the code that it trains with is that of another checkout.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

import llsvm
from llsvm.errors import LLSVMError

LOSSES = ("hinge", "squared_hinge", "logistic", "least-squares")
REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "huber")
OWN = {"quantile": {"quantile": 0.8}, "epsilon_insensitive": {"epsilon": 0.2}, "huber": {"delta": 0.7}}


def problem(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data (X, y and sample_weight) and options."""
    rng = np.random.default_rng(seed)
    n, d, classes = int(rng.integers(10, 80)), int(rng.integers(1, 12)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1)
    X[rng.random((n, d)) > rng.choice([1.0, 0.4])] = 0.0
    scores = X @ rng.normal(size=(d, classes)) + rng.gumbel(size=(n, classes)) * X.std()
    options: dict[str, Any] = {
        "C": float(10 ** rng.uniform(-3, 4)),
        "tol": float(rng.choice([1e-3, 1e-6])),
        "max_passes": 2000,
        "penalty": str(rng.choice(["l2", "l2", "l1", "elasticnet"])),
        "solver": str(rng.choice(["auto", "auto", "auto", "llsvm", "smsvm"])),
    }
    if rng.random() < 0.7:
        options["loss"] = loss = str(rng.choice(LOSSES))
        options["multiclass"] = str(
            rng.choice(["ovr", "ovr", "ovr", "ovo", "crammer-singer", "weston-watkins", "softmax"])
        )
        y = np.argmax(scores, axis=1)
        y[:2] = 0, 1  # two classes at least
        if rng.random() < 0.2:
            options["class_weight"] = "balanced"
    elif rng.random() < 0.85:
        options["loss"] = loss = str(rng.choice(REGRESSION))
        y = scores[:, 0]
    else:
        options["loss"], y = (loss := "one_class"), np.ones(n)
        options["nu"] = float(rng.uniform(0.05, 0.9))
    options |= OWN.get(loss, {})
    if loss != "one_class":  # which has a constant term of its own
        options |= {"intercept": True} if rng.random() < 0.3 else {"bias": float(rng.choice([0.0, 1.0]))}
    if rng.random() < 0.3:  # rows come from disk, and those still moving go there
        options |= {"cache": "always", "survivors": 0.2}
    if rng.random() < 0.3:
        options["scale"] = "maxabs"
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], n) if rng.random() < 0.3 else None
    if weight is not None:
        weight[:2] = 1.0
    data = {"data": sp.csr_matrix(X) if rng.random() < 0.4 else X, "y": y, "sample_weight": weight}
    return data, options


def solved(seed: int) -> dict[str, Any]:
    """What training gives; floats to all their digits."""
    data, options = problem(seed)
    found: dict[str, Any] = {"seed": seed, "options": options}
    try:
        model = llsvm.train(**data, **options, threads=1, seed=0, memory_limit="1GB")
    except LLSVMError as error:
        return found | {"refused": f"{type(error).__name__}: {error}"}
    certificate = model.certificate
    if certificate is None:
        return found | {"certificate": None}
    told = {"primal": list(certificate.primal), "dual": list(certificate.dual), "passes": certificate.passes}
    return found | {"certificate": told, "coef": np.abs(model.coef_).sum()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for seed in range(given.seed, given.seed + given.count):
        print(json.dumps(solved(seed), default=float), flush=True)


if __name__ == "__main__":
    main()
