"""One cell of a table: llsvm on a file as people run it, in a process of its own, judged by the referee."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.contestants import environment
from tools.bench.datasets import Dataset
from tools.bench.kernel_models import evaluate_kernel, read_llsvm_kernel
from tools.bench.measure import Measurement, run
from tools.bench.models import READERS
from tools.bench.objective import Evaluation, evaluate
from tools.bench.row_losses import OF_RESIDUALS, ONE_CLASS, Objective

BIG_BYTES = 4_000_000_000
TINY_BYTES = 500_000  # data have no small limit where the two that inspect names are nearer than this
_LLSVM = "import sys; from llsvm.cli import main; sys.exit(main())"
_PROFILED = (
    "import cProfile, pstats, sys\nfrom llsvm.cli import main\nwatch = cProfile.Profile()\n"
    "try: watch.runcall(main)\nexcept SystemExit: pass\n"
    "finally:\n pstats.Stats(watch, stream=sys.stderr).sort_stats('tottime').print_stats(8)"
)
_GRACE_SECONDS = 20  # for the pass that --max-seconds lets end, before the process is killed
_OPTIONS = {"epsilon": "--epsilon", "quantile": "--quantile", "delta": "--delta", "nu": "--nu"}
_LOOKS_AT = {
    "epsilon": ("epsilon_insensitive", "squared_epsilon_insensitive"),
    "quantile": ("quantile",),
    "delta": ("huber",),
    "nu": ("one_class",),
}


@dataclass(frozen=True)
class Problem:
    """What is to be solved: a data set, an objective, maybe with an RBF kernel (of scikit-learn's gamma "auto",
    LIBSVM's default: 1 / columns), maybe with an intercept that is not penalised."""

    dataset: Dataset
    objective: Objective
    kernel: bool = False
    intercept: bool = False

    @property
    def labels_are_classes(self) -> bool:
        return self.objective.loss not in (*OF_RESIDUALS, ONE_CLASS)

    @property
    def form(self) -> str:
        """The column "classes" of a table: how they are told apart."""
        words = ["rbf"] if self.kernel else []
        words += ["intercept"] if self.intercept else []
        if not self.labels_are_classes:
            return "none" if self.objective.loss == ONE_CLASS else "numbers"
        words += [self.objective.multiclass] if len(self.dataset.facts["classes"]) > 2 else []
        return " ".join(words) or "two"

    @property
    def key(self) -> str:
        o = self.objective
        words = [self.dataset.name, f"{o.C:g}", o.loss, self.form]
        words += [
            f"{each.name}={getattr(o, each.name)}"
            for each in fields(Objective)
            if each.name not in ("C", "loss", "multiclass") and getattr(o, each.name) != each.default
        ]
        return "|".join(word.replace(" ", "-") for word in words)

    @property
    def without_C(self) -> str:
        """What the memory that is needed depends on."""
        return replace(self, objective=replace(self.objective, C=1.0)).key

    @property
    def gamma(self) -> float:
        return 1.0 / float(self.dataset.facts["columns"])

    @property
    def options(self) -> list[str]:
        """Of ``llsvm train`` and ``inspect``."""
        o = self.objective
        found = ["-C", repr(o.C), "--loss", o.loss]
        if self.form.endswith(o.multiclass) and o.multiclass != "ovr":
            found += ["--multiclass", o.multiclass]
        found += [] if o.penalty == "l2" else ["--penalty", o.penalty]
        for name, flag in _OPTIONS.items():
            found += [flag, repr(getattr(o, name))] if o.loss in _LOOKS_AT[name] else []
        found += ["--kernel", "rbf"] if self.kernel else []
        return found + (["--intercept"] if self.intercept else [])

    def judge(self, model: Path) -> Evaluation:
        """llsvm's model file."""
        if self.kernel:
            return evaluate_kernel(read_llsvm_kernel(model), self.dataset.train, self.objective)
        known = np.array(self.dataset.facts["classes"])
        return evaluate(READERS["llsvm"](model, known), self.dataset.train, self.objective)


class Machine:
    """Runs llsvm. work: for models and spill files. numba_cache: of compiled kernels. threads: None for all. root:
    the checkout whose llsvm it is; None for this one."""

    def __init__(
        self, work: Path, numba_cache: Path, threads: int | None = None, root: Path | None = None
    ) -> None:
        self.work, self.numba_cache, self.threads, self.root = work, numba_cache, threads, root
        self._limits = work / "limits.json"
        self._own = tempfile.TemporaryDirectory(dir=work, prefix="cells-")  # several may run side by side
        self.model = Path(self._own.name) / "model"
        """Of the last run."""

    def train(
        self, problem: Problem, limit_bytes: int, timeout: float, more: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Train, compiled beforehand: a run during which something was compiled is done again.

        Returns plain values, some missing where there is no model: exit_code; wall_seconds, cpu_seconds; gap, dual,
        said_primal; primal, the referee's; sentence: why it refused, or ended early.
        """
        for _ in range(3):
            compiled = self._compiled()
            measured = self._run(problem, limit_bytes, timeout, more)
            if self._compiled() == compiled or measured.timed_out:
                break
        return self._told(problem, limit_bytes, measured)

    def weights(self, problem: Problem) -> Any:
        """Of the last run's model, (problems, columns from 0)."""
        return READERS["llsvm"](self.model, np.array(problem.dataset.facts["classes"])).coef

    def profile(self, problem: Problem, limit_bytes: int, timeout: float) -> str:
        """Where a run's main thread spends its time, the few worst functions: a kernel's time is its caller's."""
        measured = self._run(problem, limit_bytes, timeout, (), _PROFILED)
        lines = [line.split(None, 5) for line in measured.stderr.splitlines()]
        rows = [words for words in lines if len(words) == 6 and words[0].split("/")[0].isdigit()]
        return "; ".join(f"{words[1]} s {words[5].rpartition('llsvm/')[2]}" for words in rows[:4])

    def small_limit(self, problem: Problem) -> int | None:
        """A limit under which the rows do not all stay in memory: a tenth of the way up from the smallest that
        ``llsvm inspect`` names; None where there is no such limit, the data being tiny."""
        known = json.loads(self._limits.read_text()) if self._limits.exists() else {}
        key = problem.without_C
        if key not in known:
            asked = [sys.executable, "-c", _LLSVM, "inspect", str(problem.dataset.train), "--json"]
            measured = run([*asked, *problem.options], env=self._environment(), timeout=600)
            answer = json.loads(measured.stdout) if measured.exit_code == 0 else {}
            known[key] = [answer.get("smallest_memory_bytes"), answer.get("in_memory_bytes")]
            self._limits.write_text(json.dumps(known, indent=1))
        smallest, in_memory = known[key]
        if smallest is None:
            return None
        if in_memory is None:
            return int(smallest * 1.05)
        return None if in_memory - smallest < TINY_BYTES else smallest + (in_memory - smallest) // 10

    def of_checkout(self, root: Path) -> Machine:
        """The same, with another checkout's llsvm; its kernels are kept in it."""
        cache = root / "numba-cache"
        cache.mkdir()
        return Machine(self.work, cache, self.threads, root)

    def _environment(self) -> dict[str, str]:
        paths = [] if self.root is None else [self.root]
        return environment(*paths, NUMBA_CACHE_DIR=str(self.numba_cache))

    def _compiled(self) -> int:
        return sum(1 for _ in self.numba_cache.rglob("*.nbc"))

    def _run(
        self,
        problem: Problem,
        limit_bytes: int,
        timeout: float,
        more: tuple[str, ...],
        program: str = _LLSVM,
    ) -> Measurement:
        self.model.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-P",  # not the llsvm of the folder that this is called in
            "-c",
            program,
            "train",
            str(problem.dataset.train),
            "--model",
            str(self.model),
        ]
        command += [*problem.options, "--memory-limit", str(limit_bytes), "--json", "--quiet"]
        command += ["--spill-dir", str(self.work), "--max-seconds", f"{timeout:g}", *more]
        command += ["--threads", str(self.threads)] if self.threads else []
        return run(command, env=self._environment(), timeout=timeout + _GRACE_SECONDS)

    def _told(self, problem: Problem, limit_bytes: int, measured: Measurement) -> dict[str, Any]:
        told: dict[str, Any] = {
            "limit_bytes": limit_bytes,
            "wall_seconds": round(measured.wall_seconds, 3),
            "cpu_seconds": round(measured.cpu_seconds, 3),
            "peak_rss_bytes": measured.peak_rss_bytes,
            "exit_code": measured.exit_code,
            "timed_out": measured.timed_out,
        }
        lines = [line.strip() for line in measured.stderr.splitlines() if line.strip()]
        try:
            answer = json.loads(measured.stdout)
        except ValueError:
            return told | {"sentence": lines[-1][:400] if lines else "it said nothing"}
        told |= {name: answer[name] for name in ("solver", "passes", "dual", "read_from", "why", "converged")}
        told |= {"said_primal": answer["primal"], "gap": answer["relative_gap"]}
        told["sentence"] = ": ".join(filter(None, [answer["cause"], answer["advice"]]))
        told |= {"nonzero": answer["nonzero_weights"], "work": answer.get("work")}
        return told | {"primal": problem.judge(self.model).primal if self.model.exists() else None}


def commit() -> str:
    """Of the checkout that is measured; "" outside one."""
    folder = Path(__file__).resolve().parent
    asked = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
