"""Memory matrix: does every command keep its memory limit, whatever it is asked to do?

    python tests/memory_matrix.py                        the whole matrix, at most half an hour on two cores
    python tests/memory_matrix.py --minutes 5 --seed 3   a seeded sample
    python tests/memory_matrix.py --against COMMIT       the same cells with that commit too, and what differs

A cell is a command with a solver, loss, penalty, form of multi-class, format, shape of data, cache and C. The cells
cover every pair of values that go together. Each cell runs to its end at the smallest limit that it accepts and at
300, 340 and 400 MB, in a memory cgroup of exactly that limit if the machine lets us make one. A run is wrong if its
peak is over its limit, if it ends with another exit code than the guide has for it, or if a limit that a refusal
named is refused again, unless it said "at least". If less limit takes more memory, that is reported as a cliff.

Exit code: 1 if a run is over its limit or ends as it should not, else 0. One JSON object a run is written to --out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from llsvm.errors import UsageError  # noqa: E402
from llsvm.settings.objective import KINDS, REGRESSION  # noqa: E402
from llsvm.settings.settings import OPTIONS, Settings  # noqa: E402
from tools.bench.measure import memory_cgroup, run  # noqa: E402
from tools.checkout import checkout_of  # noqa: E402

MB = 1_000_000
LIMITS = (300, 340, 400)
TIMEOUT_SECONDS = 150
TRAIN_SECONDS = (
    10  # of a training: the plan of memory is made, and most methods have begun their second order
)
TUNE_SECONDS = 60  # after which a tuning, which has no --max-seconds, is stopped, as far as it has come
CLIFF = 1.1  # a smaller limit may take so much more: measured peaks vary with the moment of compilation
ENDINGS = {
    "train": (0, 5),
    "tune": (0, 5),
    "path": (0, 5),
    "verify": (0, 7),
}  # verify: of a model that is unfinished
REFUSED = 4
AGAIN = "the limit that was named is refused"
NAMED = re.compile(r"--memory-limit (\d+)MB")

COMMANDS = ("train", "tune", "path", "predict", "evaluate", "report", "verify", "inspect", "convert")
TABLES = ("csv", "jsonl", "parquet", "arrow")
VALUES = {
    "command": COMMANDS,
    "solver": ("auto", "llsvm", "smsvm", "nesvm", "smo", "nesvm kernel"),
    "loss": tuple(KINDS),
    "penalty": ("l2", "l1", "elasticnet"),
    "multiclass": ("ovr", "ovo", "crammer-singer", "weston-watkins", "softmax"),
    "format": ("svmlight", "vw", *TABLES, "hdf5", "numpy", "fasttext"),
    "shape": ("tall", "wide", "classes", "text"),
    "cache": ("always", "never"),
    "C": (1.0, 1e4),
}


@dataclass(frozen=True)
class Cell:
    """One value of each of VALUES."""

    command: str
    solver: str
    loss: str
    penalty: str
    multiclass: str
    format: str
    shape: str
    cache: str
    C: float

    def is_offered(self) -> bool:
        """Return whether the values go together."""
        has_text = self.shape == "text"
        if has_text != (self.format == "fasttext") and (not has_text or self.format not in TABLES):
            return False
        if (self.multiclass != "ovr") != (self.shape == "classes") and self.multiclass != "ovr":
            return False
        if self.shape == "classes" and KINDS[self.loss] == REGRESSION:
            return False
        if self.solver == "nesvm kernel" and self.shape == "tall":
            return False  # the kernel matrix of so many rows takes 51 GB of disk, which few machines have to spare
        if self.command in ("tune", "path") and (self.solver != "auto" or self.loss == "one_class"):
            return False
        if self.command == "tune" and self.multiclass not in ("ovr", "ovo"):
            return False
        if self.command == "path" and (self.penalty == "l2" or self.multiclass != "ovr" or self.C != 1):
            return False
        if self.command == "path" and self.shape == "classes":
            return False
        return are_settings(tuple(self.settings().items()))

    def settings(self) -> dict[str, object]:
        """Return what differs from the defaults, as ``Settings`` takes it."""
        given: dict[str, object] = {"loss": self.loss, "penalty": self.penalty, "multiclass": self.multiclass}
        given["solver"], given["C"] = self.solver.split()[0], self.C
        if self.loss == "one_class":
            del given["C"]
        if self.solver in ("smo", "nesvm kernel"):
            given["kernel"] = "rbf"
        return {name: value for name, value in given.items() if value != OPTIONS[name].default}

    def training(self) -> list[str]:
        """Return the options of a training."""
        flags = {"C": "-C"}
        given = [(flags.get(name, f"--{name}"), f"{value}") for name, value in self.settings().items()]
        return [word for pair in given for word in pair] + self.reading()

    def reading(self) -> list[str]:
        """Return the options that say how the data are read."""
        return (
            ["--text", "text", "--label", "label"]
            if self.shape == "text" and self.format != "fasttext"
            else []
        )

    def name(self) -> str:
        return " ".join(
            f"{value:g}" if isinstance(value, float) else str(value) for value in asdict(self).values()
        )


@cache
def are_settings(given: tuple[tuple[str, object], ...]) -> bool:
    """Return whether some method does what these settings ask for."""
    try:
        return bool(Settings(**dict(given)).method)
    except UsageError:
        return False


FIELDS = [field.name for field in fields(Cell)]


def pairs_of(cell: Cell) -> set[tuple[tuple[str, object], tuple[str, object]]]:
    """Return the pairs of values that a cell covers."""
    return set(combinations([(name, getattr(cell, name)) for name in FIELDS], 2))


def pairwise_cells(seed: int, n_candidates: int = 2_000) -> list[Cell]:
    """Return cells that cover every pair of values of some candidate, drawn from the seed."""
    rng = random.Random(seed)
    candidates: list[Cell] = []
    while len(candidates) < n_candidates:
        cell = Cell(**{name: rng.choice(values) for name, values in VALUES.items()})
        if cell.is_offered():
            candidates.append(cell)
    covered = [pairs_of(cell) for cell in candidates]
    missing = set().union(*covered)
    chosen = []
    while missing:
        best = max(range(len(candidates)), key=lambda i: len(covered[i] & missing))
        chosen.append(candidates[best])
        missing -= covered[best]
    return chosen


# -- data --------------------------------------------------------------------------------------------------


def labels(kind: str, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return labels of a kind, "two", "many" or "numbers", for scores (n, k)."""
    if kind == "many":
        return np.argmax(scores, axis=1)
    noisy = scores[:, 0] + 0.3 * rng.standard_normal(len(scores))
    return np.round(noisy, 3) if kind == "numbers" else np.where(noisy > 0, 1, -1)


def rows(shape: str, format: str, kind: str) -> tuple[object, np.ndarray]:
    """Return (X, y): a dense array or a CSR matrix, or the texts."""
    rng = np.random.default_rng(0)
    if shape == "text":
        words = np.array([f"w{i}" for i in range(30_000)])
        n = 20_000
        drawn = np.minimum((len(words) ** rng.random((n, 40))).astype(int), len(words) - 1)
        return [" ".join(words[each]) for each in drawn], labels(kind, (drawn[:, :2] - 170.0) / 5000, rng)
    if shape == "wide" and format in ("svmlight", "vw"):
        import scipy.sparse as sp

        n, d, filled = 20_000, 20_000, 60
        columns = np.minimum((d ** rng.random((n, filled))).astype(int), d - 1)
        indptr = np.arange(0, n * filled + 1, filled)
        X = sp.csr_matrix((rng.random(n * filled) + 0.1, columns.ravel(), indptr), (n, d))
        X.sum_duplicates()
        return X, labels(kind, X @ rng.standard_normal((d, 2)), rng)
    n, d = {"tall": (80_000, 20), "wide": (2_500, 1_500), "classes": (6_000, 60)}[shape]
    X = rng.standard_normal((n, d)).astype(np.float32)
    return X, labels(kind, X @ rng.standard_normal((d, 30 if kind == "many" else 2)) / d**0.5, rng)


def write(path: Path, format: str, X: object, y: np.ndarray) -> None:
    """Write rows as a file of a format."""
    if format in ("svmlight", "vw", "fasttext"):
        with open(path, "w") as file:
            file.writelines(lines(format, X, y))
        return
    if format == "hdf5":
        import h5py

        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, y
        return
    if format == "numpy":
        np.savez(path, X=X, y=y)
        return
    import pyarrow as pa
    from pyarrow import csv, feather, parquet

    columns = (
        {"text": pa.array(X)} if isinstance(X, list) else {f"c{j}": np.round(c, 5) for j, c in enumerate(X.T)}
    )
    table = pa.table({**columns, "label": y})
    if format == "csv":
        csv.write_csv(table, path)
    elif format == "parquet":
        parquet.write_table(table, path, row_group_size=10_000)
    elif format == "arrow":
        feather.write_feather(table, path, compression="uncompressed", chunksize=10_000)
    else:
        with open(path, "w") as file:
            for batch in table.to_batches(500):
                file.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())


def lines(format: str, X: object, y: np.ndarray) -> Iterator[str]:
    """Yield lines of text of a format."""
    if format == "fasttext":
        yield from (f"__label__{label:g} {text}\n" for label, text in zip(y, X, strict=True))
        return
    form = "{} | {}\n" if format == "vw" else "{} {}\n"
    prefix = "f" if format == "vw" else ""
    for i, label in enumerate(y):
        if isinstance(X, np.ndarray):
            found = enumerate(X[i], 1)
        else:
            part = slice(X.indptr[i], X.indptr[i + 1])
            found = zip(X.indices[part] + 1, X.data[part], strict=True)
        yield form.format(f"{label:g}", " ".join(f"{prefix}{j}:{value:.4g}" for j, value in found))


ENDS = {"svmlight": "svm", "fasttext": "txt", "hdf5": "h5", "numpy": "npz"}


# -- runs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run. at: "smallest", or the limit. peak_mb: of the resident set, rounded up. named_mb: by its refusal;
    at_least: which says that more may be needed. wrong: "" or what is wrong with it."""

    cell: str
    at: str
    limit_mb: int
    exit_code: int
    peak_mb: int
    seconds: float
    named_mb: int | None
    at_least: bool
    wrong: str


class Laboratory:
    """Data and models of a checkout, each made when it is first needed, and runs of cells."""

    def __init__(self, work: Path, checkout: Path, has_cgroup: bool) -> None:
        self._work, self._checkout, self._has_cgroup = work, checkout, has_cgroup
        self._env = {**os.environ, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(work / "cache")}
        self._env.pop("NUMBA_CACHE_DIR", None)

    def prepare(self, cell: Cell) -> None:
        """Make the data of a cell and, where its command takes one, the model."""
        self._data(cell)
        if cell.command in ("predict", "evaluate", "report", "verify"):
            self._model(cell)

    def runs(self, cell: Cell) -> list[Run]:
        """Run a cell at all limits."""
        each = self._run(cell, "smallest", 1)
        found = [] if each.exit_code == REFUSED and each.named_mb else [self._unrefused(each)]
        for _ in range(4):
            if each.exit_code != REFUSED or each.named_mb is None:
                break
            before, each = each, self._run(cell, "smallest", each.named_mb)
            if each.exit_code == REFUSED and not before.at_least:
                each = replace(each, wrong=f"{AGAIN}, now {each.named_mb} MB")
            found.append(each)
        return found + [self._run(cell, f"{limit}", limit) for limit in LIMITS]

    @staticmethod
    def _unrefused(run: Run) -> Run:
        """Return the run under 1 MB, which names no limit that is enough. (``inspect`` may say so and go on.)"""
        if run.exit_code == 0 and run.cell.startswith("inspect"):
            return run
        what = "refused without a limit that is enough" if run.exit_code == REFUSED else "1 MB was enough"
        return replace(run, wrong=run.wrong or what)

    def _run(self, cell: Cell, at: str, limit_mb: int) -> Run:
        with tempfile.TemporaryDirectory(dir=self._work) as folder:
            command = [sys.executable, "-m", "llsvm", *self._command(cell, Path(folder))]
            command += ["--memory-limit", f"{limit_mb}MB"]
            timeout = TUNE_SECONDS if cell.command == "tune" else TIMEOUT_SECONDS
            if self._has_cgroup and limit_mb > 100:
                with memory_cgroup(limit_mb * MB) as cgroup:
                    done = run(command, env=self._env, cgroup=cgroup, timeout=timeout)
            else:
                done = run(command, env=self._env, timeout=timeout)
        named = NAMED.findall(done.stderr)
        wrong = ""
        was_stopped = done.timed_out and cell.command == "tune"
        if done.exit_code not in (*ENDINGS.get(cell.command, (0,)), REFUSED) and not was_stopped:
            told = [line for line in done.stderr.strip().splitlines() if line][-1:]
            wrong = (
                "not over in time"
                if done.timed_out
                else f"ended with {done.exit_code}: {''.join(told)[:200]}"
            )
        if done.peak_rss_bytes > limit_mb * MB and limit_mb > 100:
            wrong = "OVER"
        peak_mb = -(-done.peak_rss_bytes // MB)
        seconds = round(done.wall_seconds, 1)
        named_mb = int(named[-1]) if named else None
        at_least = "at least" in done.stderr
        return Run(cell.name(), at, limit_mb, done.exit_code, peak_mb, seconds, named_mb, at_least, wrong)

    def _command(self, cell: Cell, folder: Path) -> list[str]:
        data, out = str(self._data(cell)), str(folder / "out")
        spill = ["--spill-dir", str(folder)]
        bounded = ["--max-seconds", str(TRAIN_SECONDS), *spill]
        training = [*cell.training(), "--threads", "2"]
        if cell.command == "train":
            return ["train", data, "--model", out, "-q", "--cache", cell.cache, *bounded, *training]
        if cell.command == "tune":
            training = [*replace(cell, C=1.0).training(), "--threads", "2"]
            costs = ["-C", f"{cell.C / 10:g},{cell.C:g}", "--folds", "3", "--max-passes", "4"]
            return ["tune", data, "--model", out, "-q", *costs, *spill, *training]
        if cell.command == "path":
            beside = ["--lambda2", "1e-3"] if cell.penalty == "elasticnet" else []
            return ["path", data, "-q", "--points", "2", *bounded, *training, *beside]
        if cell.command == "inspect":
            return ["inspect", data, *training]
        if cell.command == "convert":
            return ["convert", data, f"{out}.parquet", *cell.reading()]
        model = str(self._model(cell))
        if cell.command == "predict":
            scores = [] if KINDS[cell.loss] == REGRESSION else ["--scores"]
            return ["predict", model, data, "-o", f"{out}.csv", *scores]
        if cell.command == "report":
            return ["report", model, "--data", data, "-o", f"{out}.html"]
        return [cell.command, model, data, *(spill if cell.command == "verify" else [])]

    def _data(self, cell: Cell) -> Path:
        kind = "many" if cell.shape == "classes" else "numbers" if KINDS[cell.loss] == REGRESSION else "two"
        path = self._work / f"{cell.shape}-{kind}.{ENDS.get(cell.format, cell.format)}"
        if not path.exists():
            X, y = rows(cell.shape, cell.format, kind)
            write(path, cell.format, X, y)
        return path

    def _model(self, cell: Cell) -> Path:
        trained = replace(cell, command="train", cache="always")
        path = self._work / f"{trained.name().replace(' ', '_')}.model"
        if not path.exists():
            command = [
                sys.executable,
                "-m",
                "llsvm",
                "train",
                str(self._data(cell)),
                "--model",
                str(path),
                "-q",
            ]
            command += ["--max-seconds", "3", "--memory-limit", "2GB", *cell.training()]
            done = subprocess.run(command, capture_output=True, text=True, env=self._env, check=False)
            if done.returncode not in (0, 5):
                raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return path


def cliffs(found: Sequence[Run]) -> list[str]:
    """Say where a smaller limit took more memory, of the runs of one cell."""
    ran = sorted(
        (run for run in found if run.exit_code != REFUSED and not run.wrong), key=lambda run: run.limit_mb
    )
    return [
        f"{less.cell}: {less.peak_mb} MB at {less.limit_mb}, {more.peak_mb} MB at {more.limit_mb}"
        for less, more in combinations(ran, 2)
        if less.limit_mb < more.limit_mb and less.peak_mb > CLIFF * more.peak_mb
    ]


def measured(
    cells: Sequence[Cell], checkout: Path, has_cgroup: bool, seconds: float, note: Callable[[Run], None]
) -> dict[str, list[Run]]:
    """Run cells, two at a time, until the time is over; returns the runs of each."""
    found: dict[str, list[Run]] = {}
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="llsvm-matrix-") as work, ThreadPoolExecutor(2) as pool:
        laboratory = Laboratory(Path(work), checkout, has_cgroup)

        def runs(cell: Cell) -> list[Run]:
            return [] if time.monotonic() > end else laboratory.runs(cell)

        if seconds > 0:
            for start in range(0, len(cells), 8):
                some = [cell for cell in cells[start : start + 8] if time.monotonic() <= end]
                for cell in some:  # one after the other: two cells may ask for the same file
                    laboratory.prepare(cell)
                for cell, each in zip(some, pool.map(runs, some), strict=True):
                    if each:
                        found[cell.name()] = each
                    for run in each:
                        note(run)
    return found


def can_make_cgroups() -> bool:
    try:
        with memory_cgroup(500 * MB):
            return True
    except OSError as error:
        print(f"no memory cgroup to be had here ({error}): peaks of resident sets alone", flush=True)
        return False


def differences(old: dict[str, list[Run]], new: dict[str, list[Run]]) -> list[str]:
    """Say what differs between two commits: endings, peaks by more than 10 %, smallest limits by more than 8 %."""
    told = []
    for cell in new:
        before = {each.at: each for each in old.get(cell, ())}
        for now in new[cell]:
            was, place = before.get(now.at), f"{cell} at {now.at}"
            if was is None:
                continue
            if (was.exit_code, bool(was.wrong)) != (now.exit_code, bool(now.wrong)):
                told.append(f"{place}: was {was.exit_code} {was.wrong}, is {now.exit_code} {now.wrong}")
            elif now.at == "smallest" and abs(now.limit_mb - was.limit_mb) > 0.08 * was.limit_mb:
                told.append(f"{place}: was {was.limit_mb} MB, is {now.limit_mb} MB")
            elif abs(now.peak_mb - was.peak_mb) > 0.1 * was.peak_mb:
                told.append(f"{place}: peak was {was.peak_mb} MB, is {now.peak_mb} MB")
    return told


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30, help="no cell is begun after so many")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of cells and their order")
    parser.add_argument("--only", default="", help="cells whose names match this regular expression")
    parser.add_argument(
        "--against", metavar="COMMIT", help="run the same cells with that commit, and compare"
    )
    parser.add_argument("--out", type=Path, help="JSON lines, one for each run")
    options = parser.parse_args()
    cells = [cell for cell in pairwise_cells(options.seed) if re.search(options.only, cell.name())]
    has_cgroup = can_make_cgroups()
    out = options.out.open("w") if options.out else None

    def note(run: Run) -> None:
        if out is not None:
            print(json.dumps(asdict(run)), file=out, flush=True)
        if run.wrong:
            print(
                f"{run.cell} at {run.at} ({run.limit_mb} MB): {run.wrong}; peak {run.peak_mb} MB", flush=True
            )

    found = measured(cells, ROOT, has_cgroup, 60 * options.minutes, note)
    runs = [run for each in found.values() for run in each]
    wrong = [run for run in runs if run.wrong]
    over = sum(run.wrong == "OVER" or run.wrong.startswith("ended with -9") for run in runs)
    for each in found.values():
        for cliff in cliffs(each):
            print(f"cliff: {cliff}")
    if options.against:
        with checkout_of(options.against) as checkout:
            some = [cell for cell in cells if cell.name() in found]
            old = measured(some, checkout, has_cgroup, 60 * options.minutes, lambda run: None)
        for difference in differences(old, found):
            print(f"differs: {difference}")
    accepted = sum(run.exit_code != REFUSED for run in runs)
    print(f"{len(found)} of {len(cells)} cells, {len(runs)} runs, {accepted} accepted")
    again = sum(run.wrong.startswith(AGAIN) for run in wrong)
    print(f"{over} over, {len(wrong) - over - again} wrong endings, {again} limits refused again")
    return 1 if len(wrong) > again or not found else 0


if __name__ == "__main__":
    sys.exit(main())
