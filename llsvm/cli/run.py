"""``llsvm run``: the steps of a run file, one after the other, each a process of its own under its own limits."""

from __future__ import annotations

import fcntl
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from llsvm.cli.options import Quiet
from llsvm.cli.output import echo
from llsvm.cli.run_file import Comparison, RunFileStep, read_run
from llsvm.errors import EXIT_CONVERGED, EXIT_WORSE, UsageError
from llsvm.process.signals import ending, last_words
from llsvm.scoring import FIGURES, LARGER_IS_BETTER
from llsvm.settings.option import OUTPUT


def run(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A run file: see llsvm guide run-files.")],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check the file and show what would be run, and nothing else.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    quiet: Quiet = False,
) -> int:
    """Run the steps of a file, and answer each with a line of JSON; the first that fails is the last."""
    run_file = read_run(file, cast(Any, context.parent).command.commands)
    with _alone(file):
        for number, step in enumerate(run_file.steps, 1):
            step = step.quieted() if quiet else step
            done: dict[str, Any] = {
                "step": number,
                "command": step.name,
                "line": shlex.join(["llsvm", step.name, *step.words]),
            }
            if dry_run:
                echo(json.dumps(done))
                continue
            done |= _run(step, run_file.folder, number)
            echo(json.dumps(done))
            if done["exit_code"] not in step.accept:
                return int(done["exit_code"])
            if run_file.comparison is not None and number - 1 == run_file.comparison.step:
                if done["exit_code"] != EXIT_CONVERGED:  # accepted, but there is nothing to compare
                    return int(done["exit_code"])
                worse = _keep_the_better(run_file.comparison, step, done["answer"], run_file.folder)
                if worse:
                    return worse
    return EXIT_CONVERGED


@contextmanager
def _alone(file: str) -> Iterator[None]:
    """Raise UsageError where the same file is being run already."""
    with open(file, "rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{file}: is being run by another process; wait for its end") from None
        except OSError:  # a file system that knows no locks
            pass
        yield


def _run(step: RunFileStep, folder: Path, number: int) -> dict[str, Any]:
    """Run a step: its exit code, seconds and answer, if any. What else it prints goes to standard error."""
    began = time.monotonic()
    output = subprocess.PIPE if step.answers_json else 2
    command = [sys.executable, "-m", "llsvm", step.name, *step.words]
    given = None if step.reads_stdin else subprocess.DEVNULL
    with subprocess.Popen(command, stdin=given, stdout=output, cwd=folder) as process:

        def stop() -> str:
            """End the step by the signal that has come, as it would end by itself, saving what it saves."""
            process.send_signal(ending())
            process.wait()
            return f", in step {number}, {step.name}"

        with last_words(stop):
            answer = process.communicate()[0]
    seconds = round(time.monotonic() - began, 3)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    done: dict[str, Any] = {"exit_code": code, "seconds": seconds}
    if step.answers_json:
        done["answer"] = json.loads(answer) if answer.strip() else None
    return done


def _keep_the_better(
    comparison: Comparison, step: RunFileStep, answer: Mapping[str, Any], folder: Path
) -> int:
    """Put the new model in the place of the old one, unless it evaluates worse; say what was done.

    step, answer: what evaluated the new one. Returns an exit code."""
    from llsvm.models.model_file import log_path

    model, candidate = folder / comparison.model, folder / comparison.candidate
    metric = comparison.metric or next(name for name in FIGURES if name in answer)
    new, old = _figure(answer, metric), None
    if model.exists():
        of_old_model = replace(step, values={**step.values, "model": comparison.model})
        before = _run(of_old_model, folder, comparison.step + 1)
        if before["exit_code"] != EXIT_CONVERGED:
            echo(
                f"llsvm: the old model {model} could not be evaluated; it stays, and the new one is {candidate}: "
                "if that is the one you want, give it the name of the old one",
                err=True,
            )
            return int(before["exit_code"])
        old = _figure(before["answer"], metric)
    better_by = 0.0 if old is None else new - old if LARGER_IS_BETTER[metric] else old - new
    better = "new" if better_by >= -comparison.worse_by else "old"
    echo(json.dumps({"comparison": metric, "new": new, "old": old, "kept": better}))
    if better == "old":
        echo(
            f"llsvm: the new model evaluates worse: {metric} {new:.6g}, where the old one has {old:.6g}, and "
            f"{comparison.worse_by:g} is allowed; the old one stays, and the new one is {candidate}",
            err=True,
        )
        return EXIT_WORSE
    if log_path(candidate).exists():
        log_path(candidate).replace(log_path(model))
    candidate.replace(model)
    return EXIT_CONVERGED


def _figure(answer: Mapping[str, Any], metric: str) -> float:
    if answer.get(metric) is None:
        there = ", ".join(name for name in LARGER_IS_BETTER if name in answer)
        raise UsageError(f"metric {metric}: evaluate gives no such figure of this model; there are {there}")
    return float(answer[metric])
