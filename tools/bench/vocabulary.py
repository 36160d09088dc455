"""An exact vocabulary, counted out of core: so many n-grams in so much memory, in a cgroup of that size if one can
be made (root), else by the peak of the resident set.

python -m tools.bench vocabulary --size 400MB --memory 600MB --min-df 2

Reviews of ``tools.bench.documents`` are made as they are counted, by a process of their own (outside the limit and
the clocks). A tenth of a limit, and what the interpreter and the compiled code take, stay for all else.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from tools.bench.documents import BYTES_PER_DOCUMENT, SCHEMA, chunks
from tools.bench.measure import memory_cgroup, run
from tools.bench.results import foot, size

_TABLES = 0.45  # of the memory that is left: a table is sorted in as much again


def main(arguments: list[str], config: dict[str, Any]) -> int:
    options = _options(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    task = {
        "documents": options.size // BYTES_PER_DOCUMENT,
        "memory": options.memory,
        "min_df": options.min_df,
    }
    task |= {"work": str(options.work.resolve()), "ngrams": options.ngrams, "threads": options.threads}
    fence = memory_cgroup(options.memory) if options.cgroup else nullcontext()
    from tools.bench.contestants import environment

    with fence as cgroup:
        command = [sys.executable, "-m", "tools.bench.vocabulary", json.dumps(task)]
        measured = run(command, env=environment(), cgroup=cgroup, timeout=7200)
    if measured.exit_code:
        print(f"ended with {measured.exit_code}:\n{measured.stderr}", file=sys.stderr)
        return 1
    said = json.loads(measured.stdout.strip().splitlines()[-1])
    said |= {"wall_seconds": measured.wall_seconds, "cpu_seconds": measured.cpu_seconds}
    said |= {
        "peak_rss_bytes": measured.peak_rss_bytes,
        "cgroup_bytes": options.memory if options.cgroup else None,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(said, indent=1))
    fenced = "in a cgroup of that size" if options.cgroup else "without a cgroup"
    print(
        f"{said['distinct']:,} distinct n-grams of {said['counted']:,} in {said['documents']:,} documents "
        f"({said['bytes'] / 1e6:.0f} MB); {said['kept']:,} kept\n"
        f"peak {measured.peak_rss_bytes / 1e6:.0f} MB of {options.memory / 1e6:.0f} MB, {fenced}; "
        f"{said['runs']} runs, {said['disk_bytes'] / 1e6:.0f} MB on disk\n"
        + "".join(
            f"{name}: {said[name]['cpu']:.1f} s of CPU, {said[name]['wall']:.1f} s; "
            f"{said[name]['cpu'] / said['distinct'] * 1e9:.0f} ns of CPU per distinct n-gram\n"
            for name in ("analysing", "counting", "merging")
        )
        + foot(0)
    )
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench vocabulary",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--size", type=size, default=400_000_000, help="of the text; default: 400MB")
    add("--memory", type=size, default=600_000_000, help="default: 600MB")
    add("--min-df", type=int, default=2, help="documents that an n-gram must be in to be kept; default: 2")
    add("--ngrams", type=lambda text: [int(n) for n in text.split("-")], default=[1, 2], metavar="1-2")
    add("--threads", type=int, default=os.cpu_count())
    add("--no-cgroup", dest="cgroup", action="store_false", help="only measure the peak")
    add("--work", type=Path, default=Path("build/bench/work"), help="for what does not fit in memory")
    add("--out", type=Path, default=Path("build/bench/vocabulary"), help="results.json")
    return parser.parse_args(arguments)


def _batches(documents: int) -> Iterator[Any]:
    """Columns of documents, from a process of their own."""
    command = [sys.executable, "-c", f"from tools.bench.vocabulary import send; send({documents})"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as sender,
        pa.ipc.open_stream(sender.stdout) as batches,
    ):
        for batch in batches:
            yield batch["review"]


def send(documents: int) -> None:
    """Write them to the standard output, as Arrow's stream."""
    with pa.ipc.new_stream(sys.stdout.buffer, SCHEMA) as out:
        for chunk in chunks(documents, threads=1):
            out.write_table(chunk.table())


class _Clock:
    """Seconds of a phase: ``with clock: ...``."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    @staticmethod
    def _now() -> tuple[float, float]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime, time.perf_counter()

    def __enter__(self) -> None:
        self._cpu, self._wall = self._now()

    def __exit__(self, *_: object) -> None:
        cpu, wall = self._now()
        self.cpu, self.wall = self.cpu + cpu - self._cpu, self.wall + wall - self._wall


class _Files:
    """ScratchFiles in a folder. runs: how many; nbytes: of all files."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, count()
        self.runs = self.nbytes = 0

    def new(self, nbytes: int) -> Path:
        self.runs += 1
        self.claim(nbytes)
        return self.new_array()

    def new_array(self) -> Path:
        return self._folder / str(next(self._numbers))

    def claim(self, nbytes: int) -> None:
        self.nbytes += nbytes

    def release(self, nbytes: int) -> None:  # all that there ever was is told
        pass


def _count(task: dict[str, Any]) -> dict[str, Any]:
    from llsvm.features.text.analysis import Analyzer, Documents
    from llsvm.features.text.counting import VocabularyCounter
    from llsvm.features.text.options import TextOptions
    from llsvm.process.threads import Threads

    options = TextOptions(ngrams=tuple(task["ngrams"]), min_df=task["min_df"])
    analysing, counted, merging = _Clock(), _Clock(), _Clock()
    n_bytes = n_grams = distinct = 0
    with tempfile.TemporaryDirectory(dir=task["work"]) as folder, Threads(task["threads"]) as threads:
        files = _Files(Path(folder))
        analyzers = [Analyzer(options) for _ in range(threads.number)]
        counter = None
        for column in _batches(task["documents"]):
            documents = Documents.of(column)
            n_bytes += int(documents.offsets[-1] - documents.offsets[0])
            with analysing:
                parts = threads.over_rows(
                    documents.number, lambda t, a, b, d=documents, by=analyzers: by[t].grams(d, a, b)
                )
            if counter is None:  # all is compiled and allocated that will be, but for the tables
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
                room = int(_TABLES * (0.9 * task["memory"] - peak))
                counter = VocabularyCounter(options, threads, room, files)
            with counted:
                counter.add(parts)
            n_grams += sum(len(part.grams) for part in parts)
        assert counter is not None
        del parts, analyzers
        with merging:
            vocabulary = counter.finish()
        distinct = counter.n_distinct
        return {
            "distinct": distinct,
            "counted": n_grams,
            "documents": task["documents"],
            "bytes": n_bytes,
            "kept": len(vocabulary),
            "tables_bytes": room,
            "runs": files.runs,
            "disk_bytes": files.nbytes,
            "analysing": {"cpu": analysing.cpu, "wall": analysing.wall},
            "counting": {"cpu": counted.cpu, "wall": counted.wall},
            "merging": {"cpu": merging.cpu, "wall": merging.wall},
        }


if __name__ == "__main__":
    print(json.dumps(_count(json.loads(sys.argv[1]))))
