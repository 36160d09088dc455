"""Raw text to rows of hashed words and pairs of words: llsvm beside scikit-learn, and what others take to parse it.

python -m tools.bench vectorise --size 100MB --rounds 3
python -m tools.bench vectorise --size 2GB --contestants llsvm,scikit-learn --out build/bench/vectorise-2GB

Reviews of ``tools.bench.documents`` (word 1-2-grams, 2^20 columns). llsvm and scikit-learn's HashingVectorizer have
the documents in memory, as an Arrow column and as a list of ``str``, and make rows in batches that are thrown away;
by one and by two threads, or processes: what processes would need to hand their rows back is not counted. Vowpal
Wabbit (``--ngram 2``, its parser alone, ``--noop``) and fastText (its dictionary alone, and with one epoch of
dimension 1 over pairs of words) read files of the same words, already in small letters with a space between them.
Each run is a process of its own, in turn; starting up, compiling and making the files are outside the clocks.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tools.bench.datasets import replacing
from tools.bench.documents import BYTES_PER_DOCUMENT, ParquetFile, chunks
from tools.bench.results import foot, size, words

COLUMNS = ("program", "wall s", "CPU s", "MB/s", "MB/s of CPU", "times scikit-learn's", "stored values")
_BITS = 20
_WORDS = re.compile(r"(?u)\b\w\w+\b")
_HANDS = (1, 2)  # threads, or processes


@dataclass(frozen=True)
class Run:
    """Seconds of vectorising, or of reading a file; stored: values of all rows, 0 where it is not known."""

    wall_seconds: float
    cpu_seconds: float
    stored: int = 0


def main(arguments: list[str], config: dict[str, Any]) -> int:
    options = _options(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    documents = options.size // BYTES_PER_DOCUMENT
    n_bytes = sum(len(chunk.text) for chunk in chunks(documents))
    done: dict[str, list[Run]] = {}
    missing: dict[str, str] = {}
    for turn in range(options.rounds):
        tasks = list(_tasks(options.contestants, documents))
        for task in tasks[turn % len(tasks) :] + tasks[: turn % len(tasks)]:
            try:
                found = _run(task, options)
            except RuntimeError as error:
                missing[task["title"]] = str(error)
                continue
            done.setdefault(task["title"], []).append(found)
            print(f"{task['title']}: {found}", file=sys.stderr, flush=True)
    order = [task["title"] for task in _tasks(options.contestants, documents)]
    text = _table({title: done[title] for title in order if title in done}, n_bytes, documents)
    text += "".join(f"- {title}: not run: {why}\n" for title, why in missing.items()) + f"\n{foot(0)}\n"
    options.out.mkdir(parents=True, exist_ok=True)
    runs = {title: [asdict(run) for run in found] for title, found in done.items()}
    (options.out / "results.json").write_text(json.dumps({"bytes": n_bytes, "runs": runs}, indent=1))
    (options.out / "table.md").write_text(text)
    print(text)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench vectorise",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--size", type=size, default=100_000_000, help="of the text; default: 100MB")
    add("--rounds", type=int, default=3)
    add("--contestants", type=words, default=list(_TITLES), help=",".join(_TITLES))
    add("--peers", type=Path, default=Path("build/bench/peers"), help="folder of PyPI's peers")
    add("--work", type=Path, default=Path("build/bench/work"), help="files for those who read files (large)")
    add("--out", type=Path, default=Path("build/bench/vectorise"), help="results.json and table.md")
    return parser.parse_args(arguments)


def _tasks(contestants: list[str], documents: int) -> Iterator[dict[str, Any]]:
    for name in contestants:
        for number, title in enumerate(_TITLES[name]):
            yield {"worker": name, "title": title, "variant": number, "documents": documents}


def _run(task: dict[str, Any], options: argparse.Namespace) -> Run:
    """In a process of its own. Raises RuntimeError with its last words where it fails."""
    from tools.bench.contestants import environment
    from tools.bench.measure import run

    worker = task["worker"]
    path = options.work / f"reviews-{task['documents']}.{worker if worker in _LINES else 'parquet'}"
    if not path.exists():
        with replacing(path) as (part, _):
            _write(part, worker, task["documents"])
    task = task | {"path": str(path)}
    folder = (options.peers / _PACKAGES.get(worker, "")).resolve()
    command = [sys.executable, "-m", "tools.bench.vectorise", json.dumps(task)]
    measured = run(command, env=environment(folder), timeout=options.rounds * 7200)
    if measured.exit_code:
        raise RuntimeError((measured.stderr.strip().splitlines() or ["no word of why"])[-1][:200])
    return Run(**json.loads(measured.stdout.strip().splitlines()[-1]))


def _write(path: Path, worker: str, documents: int) -> None:
    """The file that it reads."""
    if worker not in _LINES:
        with ParquetFile(path) as out:
            for chunk in chunks(documents):
                out.write(chunk)
        return
    with open(path, "w", encoding="utf-8") as file:
        for chunk in chunks(documents):
            for stars, review in zip(chunk.stars.tolist(), chunk.reviews(), strict=True):
                found = " ".join(_WORDS.findall(review.lower()))
                file.write(_LINES[worker].format(stars=stars, sign=1 if stars > 3 else -1, words=found))


def _table(done: dict[str, list[Run]], n_bytes: int, documents: int) -> str:
    from tools.bench.verdicts import markdown

    clocks = {title: _medians(runs) for title, runs in done.items()}
    theirs = {_hands(title): clocks[title] for title in _TITLES["scikit-learn"] if title in clocks}
    rows = []
    for title, (wall, cpu) in clocks.items():
        of_wall, of_cpu = theirs.get(_hands(title), (0.0, 0.0))
        stored = done[title][-1].stored
        rows.append(
            {
                "program": title,
                "wall s": f"{wall:.2f}",
                "CPU s": f"{cpu:.2f}",
                "MB/s": f"{n_bytes / wall / 1e6:.1f}",
                "MB/s of CPU": f"{n_bytes / cpu / 1e6:.1f}",
                "times scikit-learn's": f"{of_wall / wall:.1f} ({of_cpu / cpu:.1f} of CPU)"
                if of_wall
                else "",
                "stored values": f"{stored:,}" if stored else "",
            }
        )
    n = len(next(iter(done.values()), []))
    head = f"{documents:,} documents, {n_bytes / 1e6:.0f} MB of text; medians of {n} rounds.\n\n"
    return head + markdown(COLUMNS, rows) + "\n\n"


def _medians(runs: list[Run]) -> tuple[float, float]:
    """(wall, CPU) seconds."""
    return statistics.median(r.wall_seconds for r in runs), statistics.median(r.cpu_seconds for r in runs)


def _hands(title: str) -> str:
    return title.rpartition(", ")[2].split()[0]


# -- one run, in its own process -----------------------------------------------------------------------------------


def _timed(work: Callable[[], int]) -> Run:
    """cpu_seconds: of children too."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)

    def cpu() -> float:
        return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, who))

    began, cpu_began = time.perf_counter(), cpu()
    stored = work()
    return Run(time.perf_counter() - began, cpu() - cpu_began, stored)


def _columns(path: str) -> Iterator[pa.StringArray]:
    """A gigabyte of text is not held at once: read between the runs that are timed, by one thread."""
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, ["review"], use_threads=False)[0].combine_chunks()


def _sum(runs: Iterator[Run]) -> Run:
    found = list(runs)
    return Run(
        *(sum(getattr(run, name) for run in found) for name in ("wall_seconds", "cpu_seconds", "stored"))
    )


def _llsvm(task: dict[str, Any]) -> Run:
    from llsvm.features.text.analysis import Documents
    from llsvm.features.text.options import TextOptions
    from llsvm.features.text.vectorizer import Vectorizer
    from llsvm.process.threads import Threads

    options = TextOptions(ngrams=(1, 2), hash_bits=_BITS, weight="count", unit=True)
    with Threads(_HANDS[task["variant"]]) as threads:
        vectorizer = Vectorizer(options, None, threads)
        vectorizer.rows(Documents.of(next(_columns(task["path"]))))  # compiled, or read from Numba's cache
        return _sum(
            _timed(lambda c=column: len(vectorizer.rows(Documents.of(c)).indices))
            for column in _columns(task["path"])
        )


def _scikit_learn(task: dict[str, Any]) -> Run:
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(ngram_range=(1, 2), n_features=1 << _BITS, dtype=np.float32)
    hands = _HANDS[task["variant"]]

    def work(reviews: list[str]) -> int:
        if hands == 1:
            return int(vectorizer.transform(reviews).nnz)
        return _in_processes(vectorizer, reviews, hands)

    return _sum(_timed(lambda r=column.to_pylist(): work(r)) for column in _columns(task["path"]))


def _in_processes(vectorizer: Any, reviews: list[str], hands: int) -> int:
    """Forked, so that they have the documents; the number of stored values comes back."""
    from multiprocessing import get_context

    context = get_context("fork")
    total = context.Value("q", 0)

    def part(number: int) -> None:
        n = vectorizer.transform(reviews[number::hands]).nnz
        with total.get_lock():
            total.value += int(n)

    workers = [context.Process(target=part, args=(number,)) for number in range(hands)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return int(total.value)


def _vw(task: dict[str, Any]) -> Run:
    from vowpalwabbit import Workspace

    def work() -> int:
        Workspace(f"--noop --ngram 2 -b {_BITS} --no_stdin --quiet -d {task['path']}").finish()
        return 0

    return _timed(work)


def _fasttext(task: dict[str, Any]) -> Run:
    import fasttext

    hands, epochs = _FASTTEXT[task["variant"]]
    options = {
        "epoch": epochs,
        "dim": 1,
        "wordNgrams": 2,
        "bucket": 1 << _BITS,
        "thread": hands,
        "verbose": 0,
    }

    def work() -> int:
        fasttext.train_supervised(task["path"], **options)
        return 0

    return _timed(work)


_FASTTEXT = ((1, 0), (2, 1))  # threads, epochs
_TITLES = {
    "scikit-learn": (
        "scikit-learn's HashingVectorizer, 1 process",
        "scikit-learn's HashingVectorizer, 2 processes",
    ),
    "llsvm": ("llsvm, 1 thread", "llsvm, 2 threads"),
    "vw": ("Vowpal Wabbit's parser, 1 thread",),
    "fasttext": ("fastText's dictionary, 1 thread", "fastText's dictionary and one epoch, 2 threads"),
}
_LINES = {"vw": "{sign} | {words}\n", "fasttext": "__label__{stars} {words}\n"}
_PACKAGES = {"vw": "vowpalwabbit", "fasttext": "fasttext-wheel"}
_WORKERS = {"llsvm": _llsvm, "scikit-learn": _scikit_learn, "vw": _vw, "fasttext": _fasttext}

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(asdict(_WORKERS[given["worker"]](given))))
