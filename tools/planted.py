"""Does the test suite catch what it should? Known mistakes are planted, one at a time, and the tests are to fail.

    python -m tools.planted                   all of them, a quarter of an hour on two cores
    python -m tools.planted --only WORDS ...  those in whose names the words are

Each is planted in a checkout of HEAD, and the tests that should catch it are run there. Exit code 1 where they
pass, or where the text that is to be changed is not there any more: whoever rewrites a room plants its mistakes
anew.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.checkout import checkout_of


@dataclass(frozen=True)
class Mistake:
    """name: what is wrong. path: the file. text: what is replaced wherever it is. instead: by what. tests: files
    of those that are to fail, without their ending."""

    name: str
    path: str
    text: str
    instead: str
    tests: str


DESCENT, COSTS = "llsvm/solvers/llsvm/kernels.py", "llsvm/objective/problems.py"
MISTAKES = (
    Mistake("a sign of the dual", DESCENT, "- old * z", "+ old * z", "test_kernels"),
    Mistake(
        "alpha without an upper bound",
        DESCENT,
        "min(max(new, low), high)",
        "max(new, low)",
        "test_llsvm_solver",
    ),
    Mistake(
        "a step of the bias away from the optimum",
        DESCENT,
        "w[last] += step",
        "w[last] -= step",
        "test_llsvm_solver",
    ),
    Mistake(
        "sample weights count nothing",
        COSTS,
        "cost = cost * block.weight",
        "cost = cost * 1.0",
        "test_sample_weights",
    ),
    Mistake(
        "held-out rows are trained on",
        COSTS,
        "block.class_ids)] = 0.0",
        "block.class_ids)] *= 1.0",
        "test_tune",
    ),
    Mistake(
        "class weights of the rest instead of the class",
        COSTS,
        "np.where(in_class, cost * self.positive[positive], cost)",
        "np.where(in_class, cost, cost * self.positive[positive])",
        "test_multiclass",
    ),
    Mistake(
        "epsilon of the dual with the other sign",
        "llsvm/objective/losses.py",
        "value - self.epsilon * np.abs(a)",
        "value + self.epsilon * np.abs(a)",
        "test_losses",
    ),
    Mistake(
        "the logistic loss falls where it rises",
        "llsvm/objective/losses.py",
        "return -logistic(-margin)",
        "return -logistic(margin)",
        "test_losses",
    ),
    Mistake(
        "the certificate leaves rounding out",
        "llsvm/objective/certificate.py",
        "off = abs(primal - dual) + rounding",
        "off = abs(primal - dual)",
        "test_true_certificates test_rounding",
    ),
    Mistake(
        "damage in the spill file goes unseen",
        "llsvm/spill/store.py",
        "if checksum.value != page.checksum:",
        "if checksum.value != page.checksum and page.checksum < 0:",
        "test_stores",
    ),
    Mistake(
        "pages begin at the rows of another",
        "llsvm/spill/packing.py",
        "indptr = X.indptr if start == 0 else X.indptr - start",
        "indptr = X.indptr",
        "test_stores",
    ),
    Mistake(
        "survivors that do not fit are lost",
        "llsvm/stream/survivors.py",
        "self._spill(block, candidates[",
        "self._spill(block, candidates[:0][",
        "test_stream",
    ),
    Mistake(
        "a second reservation replaces the first",
        "llsvm/memory/budget.py",
        "self._lines[what] = self._lines.get(what, 0) + nbytes",
        "self._lines[what] = nbytes",
        "test_memory",
    ),
    Mistake(
        "labels in the order of their appearance",
        "llsvm/features/labels.py",
        "rank[ids] = np.arange(len(ids), dtype=np.int32)",
        "rank[:] = np.arange(len(ids), dtype=np.int32)",
        "test_labels",
    ),
    Mistake(
        "columns are not centred",
        "llsvm/features/scaling.py",
        "shift = fill\n",
        "shift = 0 * fill\n",
        "test_scaling",
    ),
    Mistake(
        "precision with the rows of the class below",
        "llsvm/scoring/metrics.py",
        "return ratio(self.hits, self.predicted)",
        "return ratio(self.hits, self.support)",
        "test_predict",
    ),
    Mistake(
        "the sum of the L1 norm is taken as squares",
        "llsvm/objective/penalty.py",
        "self.l1 * np.abs(w).sum()",
        "self.l1 * (w @ w)",
        "test_smsvm_solver",
    ),
    Mistake(
        "momentum goes on uphill",
        "llsvm/solvers/nesvm/nesterov.py",
        "if g @ (self.y",
        "if -1e9 > g @ (self.y",
        "test_nesvm_parts",
    ),
    Mistake(
        "what Crammer-Singer's sub-problem lacks to 1 is lost",
        "llsvm/solvers/sequential_dual/kernels.py",
        "work[best] += 1.0 - total",
        "work[best] += 0.0",
        "test_multiclass",
    ),
    Mistake(
        "a state is used for other labels",
        "llsvm/state/runs.py",
        'elif record.data["classes"] != data["classes"]:',
        'elif record.data["classes"] is None:',
        "test_warm test_beginnings",
    ),
    Mistake(
        "verify believes the model",
        "llsvm/verification/claim.py",
        "if not (agree(claim, primal, size, rounding)",
        "if not (claim == claim",
        "test_verify",
    ),
)


def planted(mistake: Mistake, checkout: Path) -> str:
    """What becomes of a mistake: "caught", or what is wrong."""
    path = checkout / mistake.path
    before = path.read_text()
    if mistake.text not in before:
        return f"NOT PLANTED: {mistake.path} has no {mistake.text!r}"
    path.write_text(before.replace(mistake.text, mistake.instead))
    tests = [f"tests/{name}.py" for name in mistake.tests.split()]
    env = {**os.environ, "CI": "true", "PYTHONPATH": str(checkout)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", *tests],
            cwd=checkout,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_text(before)
    if done.returncode == 1:
        return "caught"
    return "MISSED" if done.returncode == 0 else f"NOT RUN: {(done.stdout + done.stderr)[-300:]}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.planted", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="those with these words alone")
    only = parser.parse_args().only
    chosen = [each for each in MISTAKES if not only or any(words in each.name for words in only)]
    wrong = 0
    with checkout_of("HEAD") as checkout:
        for mistake in chosen:
            found = planted(mistake, checkout)
            wrong += found != "caught"
            print(f"{found:10} {mistake.name}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} caught")
    return int(wrong > 0 or not chosen)


if __name__ == "__main__":
    sys.exit(main())
