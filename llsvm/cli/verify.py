"""``llsvm verify``: what a model's certificate says is worked out again, without any solver."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from llsvm.cli.options import Json, settings_of, takes
from llsvm.cli.output import echo, print_table
from llsvm.cli.predict import ModelFile
from llsvm.errors import EXIT_CONVERGED, EXIT_REFUTED

Data = Annotated[list[str], typer.Argument(metavar="DATA", help="What it was trained on, as for train.")]

State = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="The state that it was trained with (train --state): the dual is worked out again too.",
        show_default="none",
    ),
]

_SHOWN = 10  # problems


@takes("memory_limit", "threads", "label", "format", "spill_dir")
def verify(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    state: State = None,
    json: Json = False,
    **options: Any,
) -> int:
    """Work out again what a model's certificate says, over the DATA it was trained on: exit code 7 if it does not
    hold."""
    from llsvm.kernels.start import start_quickly
    from llsvm.models.model_file import json_bytes
    from llsvm.verify import verified

    given = settings_of(options, context)
    start_quickly()
    answer = verified(model, data, None, None, given, state)
    if json:
        typer.echo(json_bytes(answer).decode(), nl=False)
    else:
        print_verified(answer)
    return EXIT_CONVERGED if answer["holds"] else EXIT_REFUTED


def print_verified(answer: dict[str, Any]) -> None:
    """Print each figure beside what the model says, as a table; then what differs."""
    rows: list[list[Any]] = []
    if answer["primal"] is not None:
        rows.append(["primal", _exact(answer["primal"]), _exact(answer["claimed_primal"])])
        for each in answer["problems"][:_SHOWN] if len(answer["problems"]) > 1 else []:
            rows.append([f"  {each['name']}", _exact(each["primal"]), _exact(each["claimed_primal"])])
        dual = None if answer["dual"] is None else _exact(answer["dual"])
        rows.append(["dual", dual, _exact(answer["claimed_dual"])])
        rows.append(["relative gap", answer["relative_gap"], answer["claimed_gap"]])
        print_table((f"over {answer['rows']:,} rows", "found", "the model says"), rows)
    for each in answer["differences"]:
        echo(f"differs: {each}")
    outcome = "holds" if answer["holds"] else "does not hold"
    echo(": ".join(filter(None, [outcome, answer["not_checked"]])))


def _exact(value: float) -> str:
    return f"{value:.12g}"
