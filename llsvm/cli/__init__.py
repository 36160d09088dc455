"""The command line. A file per command; ``answers`` turns whatever happens into a message and an exit code.

Nothing slow (numba, pyarrow, rich) is imported before a command needs it, so that ``--help`` answers at once.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from typing import Annotated

import typer

from llsvm.cli import (
    convert,
    demo,
    evaluate,
    guide,
    inspect,
    predict,
    run,
    train,
    tune,
)
from llsvm.cli.answers import answering, explain_error, show_warning
from llsvm.cli.parsing import (
    COMPLETION_VARIABLE,
    Command,
    Group,
    answer_completion,
    install_completion,
    show_completion,
)
from llsvm.files.remote import without_credentials
from llsvm.process import VERSION
from llsvm.process.signals import watch

EXIT_CODES = """\b
Exit codes:
  0    done; for train and tune: converged to the tolerance
  1    a bug in llsvm (set LLSVM_DEBUG=1 for the traceback)
  2    an option that makes no sense, or an output that cannot be written
  3    bad input: data or model missing, malformed, not fitting
  4    the memory or disk limit is too small, the disk is full or fails, or the system refuses
  5    not converged: the model is written nevertheless
  6    a damaged spill file
  7    verify: what the model says does not hold
  8    run: the new model evaluates worse, the old one stays
  130  interrupted (Ctrl-C); 143 terminated; train writes the model so far, if a pass was certified
  141  the reader of the output went away
Results go to standard output, progress and errors to standard error. llsvm guide has more to read.
"""

_CONTEXT = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="llsvm",
    cls=Group,
    context_settings=_CONTEXT,
    help="Linear SVMs on data larger than memory, under a byte limit, with proof of how good the answer is.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,  # what typer adds loads at once; see _options
    rich_markup_mode=None,  # plain help: importing rich would double the time it takes
    pretty_exceptions_enable=False,
)
for command in (
    train.train,
    tune.path,
    tune.tune,
    predict.predict,
    evaluate.evaluate,
    evaluate.verify,
    evaluate.report,
    inspect.inspect,
    convert.convert,
    convert.export_model,
    convert.import_model,
    run.run,
    demo.demo,
    guide.guide,
):
    app.command(
        command.__name__.removesuffix("_model"), cls=Command, epilog=EXIT_CODES, context_settings=_CONTEXT
    )(answering(command, loads_numpy=command is not guide.guide))


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"llsvm {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            callback=install_completion,
            is_eager=True,
            help="Let this shell complete commands and options.",
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion",
            callback=show_completion,
            is_eager=True,
            help="Print what --install-completion installs.",
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command and exit with its code; the program itself is ``llsvm.__main__``."""
    watch()
    warnings.showwarning = show_warning
    gc.disable()  # until a command runs: looking for garbage in modules as they load takes time
    if COMPLETION_VARIABLE in os.environ:  # a shell asks how a word goes on
        answer_completion()
    words = [without_credentials(word) for word in sys.argv[1:]]  # before any message can repeat them
    try:
        app(words, prog_name="llsvm")
    except (ImportError, MemoryError, OSError, SystemError) as error:
        sys.exit(explain_error(error))  # of --help and --version; commands answer for themselves
