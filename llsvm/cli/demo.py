"""``llsvm demo``: the whole thing on a made-up file several times larger than the memory it allows itself."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from llsvm.cli.evaluate import print_evaluation
from llsvm.cli.options import Quiet, open_data
from llsvm.cli.output import echo, print_table
from llsvm.cli.train import outcome, run_training
from llsvm.errors import DiskError
from llsvm.files.writing import replacing
from llsvm.process.signals import registered_cleanup
from llsvm.settings.settings import Settings

_N_FEATURES = 50_000
_C = 0.01
_CHUNK_BYTES = 4 << 20
_SPILL_SHARE = 1.0  # of the file's size: the binary copy, and the survivors
_TEST_SHARE = 0.02


def demo(
    size: Annotated[str, typer.Option(metavar="SIZE", help="Of the data file.")] = "1GB",
    memory_limit: Annotated[
        str,
        typer.Option("--memory-limit", "--memory", metavar="SIZE", help="Limit on the peak memory."),
    ] = "300MB",
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the files in this folder.", show_default="no")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="INT", help="Of the made-up data and of training.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Train on a made-up file larger than the limit: a minute."""
    from llsvm.kernels.start import start_quickly
    from llsvm.memory.sizes import format_size, memory_limit_bytes, parse_size

    start_quickly()  # before the kernel that writes rows: what Numba loads otherwise stays, and takes 20 MB
    file_bytes, limit_bytes = parse_size(size), memory_limit_bytes(memory_limit)
    settings = Settings(C=_C, seed=seed, memory_limit=memory_limit)
    with _folder(keep, file_bytes) as folder:
        data, test, model = (folder / name for name in ("demo.svm", "demo-test.svm", "demo.llsvm"))
        started = time.monotonic()
        n_rows = write_data(data, file_bytes, seed)
        write_data(test, int(_TEST_SHARE * file_bytes), seed + 1_000_000)
        echo(
            f"Wrote {n_rows:,} rows with up to {_N_FEATURES:,} features to {data} "
            f"({format_size(data.stat().st_size)}, {time.monotonic() - started:.0f} s)."
        )
        less = (
            f", {file_bytes / limit_bytes:.1f} times less than the file" if file_bytes > limit_bytes else ""
        )
        echo(f"Training on it with at most {format_size(limit_bytes)} of memory in all{less}:")
        echo(f"  llsvm train {data} --model {model} --memory-limit {memory_limit} -C {_C} --seed {seed}")
        summary = run_training(
            open_data([str(data)], settings), settings, str(model), quiet, keep_so_far=keep is not None
        )
        echo(outcome(summary, settings))
        echo("On rows it has not seen:")
        _evaluate(model, test, memory_limit)
        _print_story(summary, limit_bytes, data.stat().st_size)
        echo(f"Files kept in {folder}." if keep else "The files are removed (--keep DIR keeps them).")


def write_data(path: Path, file_bytes: int, seed: int) -> int:
    """Write about ``file_bytes`` of made-up svmlight rows to ``path``; returns the number of rows."""
    import numpy as np

    from llsvm.kernels.demo_rows import MAX_ROW_BYTES, write_rows

    n_rows = written = 0
    text = np.empty(_CHUNK_BYTES, np.uint8)
    with replacing(path) as stream:
        while written < file_bytes:
            room = min(len(text), file_bytes - written + MAX_ROW_BYTES)
            used, rows = write_rows(seed + written, _N_FEATURES, text[:room])
            stream.write(text[:used].data)
            written += used
            n_rows += rows
    return n_rows


@contextmanager
def _folder(keep: Path | None, file_bytes: int) -> Iterator[Path]:
    """Yield the folder to work in: ``keep``, or a temporary one that is removed in the end, whatever happens."""
    from llsvm.memory.sizes import format_size

    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    parent = str(keep) if keep is not None else tempfile.gettempdir()
    needed = int(file_bytes * (1 + _TEST_SHARE + _SPILL_SHARE))
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise DiskError(
            f"{parent}: {format_size(needed)} are needed for the demo and {format_size(free)} are free; "
            "pass a smaller --size, or --keep DIR on another disk"
        )
    if keep is not None:
        yield keep
        return
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="llsvm-demo-"))
        stack.enter_context(registered_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True)))
        yield Path(folder)


def _evaluate(model: Path, test: Path, memory_limit: str) -> None:
    from llsvm.memory.process import return_dropped_memory
    from llsvm.models.model import Model
    from llsvm.scoring.measure import measure

    return_dropped_memory()  # of training, which is over
    print_evaluation(
        measure(
            Model.load(model, with_log=False),
            open_data([os.fspath(test)], Settings()),
            memory_limit=memory_limit,
        )
    )


def _print_story(summary: dict[str, Any], limit_bytes: int, file_bytes: int) -> None:
    from llsvm.memory.sizes import format_size

    peak = summary["peak_rss_bytes"]
    print_table(
        ("what happened", ""),
        [
            ["data file", format_size(file_bytes)],
            ["memory limit", format_size(limit_bytes)],
            ["peak memory of the process", format_size(peak)],
            ["full passes over the data", summary["passes"]],
            ["bytes read", format_size(summary["bytes_read"])],
            ["time", f"{summary['seconds']:.1f} s"],
            ["certified distance to the optimum, at most", f"{summary['relative_gap']:.3%}"],
        ],
    )
    verdict = "stayed below" if peak <= limit_bytes else "went above"
    echo(
        f"The process {verdict} its limit. The certificate is measured, not hoped for: no weights whatever have "
        f"an objective below {summary['dual']:.6g}, and these have {summary['primal']:.6g}."
    )
