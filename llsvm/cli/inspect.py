"""``llsvm inspect``: what is in a model or in a data file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llsvm.cli.declared import settings_of, takes
from llsvm.cli.echo import echo
from llsvm.cli.options import Json
from llsvm.settings.objective import KINDS, REGRESSION, UNLABELLED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llsvm.models.model import Model

_LARGEST_WEIGHTS = 10
_CLASSES_SHOWN = 20
_COLUMNS_SHOWN = 60


@takes(missing={"default": "zero"})
def inspect(
    context: typer.Context,
    file: Annotated[
        list[str], typer.Argument(metavar="FILE", help="A model (LIBLINEAR's too), or data as for train.")
    ],
    json: Json = False,
    **chosen: Any,
) -> None:
    """Show what is in a model or in data, and what training with these options would do with the memory."""
    settings = settings_of(chosen, context)
    start = _first_bytes(file[0]) if len(file) == 1 and settings.format is None else b""
    if start.startswith(b"solver_type") or (start.startswith(b"PK") and not file[0].endswith(".npz")):
        answer, show = describe_model(_loaded(file[0], start)), _print_model
    else:
        from llsvm.data import open_source, table_options
        from llsvm.memory.process import default_threads
        from llsvm.survey import survey

        options = table_options(settings)
        if settings.missing == "mean":  # means are learned in training
            options["missing"] = "zero"
        source = open_source(
            file,
            format=settings.format,
            zero_based=settings.zero_based,
            threads=settings.threads or default_threads(),
            options=options,
            positive=settings.positive,
            need_label=False,
            label_kind=KINDS[settings.loss],
            target_scale=settings.target_scale,
        )
        answer, show = {"kind": "data", **survey(source, settings)}, _print_data
    if json:
        from llsvm.models.model_file import json_bytes

        typer.echo(json_bytes(answer).decode(), nl=False)
    else:
        show(answer)


def _first_bytes(file: str) -> bytes:
    """The file's first bytes; none where it cannot be read, which its reader then explains."""
    import os

    from llsvm.files.inputs import open_binary
    from llsvm.files.remote import is_remote

    if not is_remote(file) and not os.path.isfile(
        file
    ):  # reading from a pipe would take its first bytes away
        return b""
    with open_binary(file) as stream:
        return stream.read(16)


def _loaded(file: str, start: bytes) -> Model:
    if start.startswith(b"PK"):
        from llsvm.models.model import Model

        return Model.load(file)
    from llsvm.models.liblinear import read_liblinear

    return read_liblinear(file)


def describe_model(model: Model) -> dict[str, Any]:
    """What ``inspect`` says of a model, as plain values."""
    import numpy as np

    from llsvm.models.sparse import n_nonzero
    from llsvm.models.strongest import largest_weights, strongest
    from llsvm.models.words import described, machine, proven

    return {
        "kind": "model",
        "version": model.version,
        "label_kind": model.label_kind,
        "classes": model.labels,
        "features": model.n_features_in_,
        "machine": machine(model),
        "described": described(model),
        "proven": proven(model),
        "nonzero_weights": n_nonzero(model.weights),
        "intercept": model.intercept_.tolist(),
        "index_base": model.index_base,
        "rows": model.n_rows,
        "converged": model.converged,
        "certificate": None if model.certificate is None else model.certificate.as_dict(),
        "settings": model.settings,
        "largest_weights": largest_weights(model, _LARGEST_WEIGHTS),
        "strongest": strongest(model, _LARGEST_WEIGHTS),
        "history": model.history,
        "log": model.log,
        "extra": {name: value for name, value in model.extra.items() if not isinstance(value, np.ndarray)},
    }


def _print_model(answer: dict[str, Any]) -> None:
    from llsvm.cli.tables import cell_text, print_table
    from llsvm.files.fingerprint import TRAINED_ON
    from llsvm.models.header import TEXT, WHY_HASHED
    from llsvm.models.words import setting_text

    echo(answer["described"])
    echo(answer["proven"])
    if files := answer["extra"].get(TRAINED_ON):
        more = f" and {files['n_files'] - 1:,} more" if files["n_files"] > 1 else ""
        echo(
            f"Trained on {files['files'][0]['name']}{more}: {files['n_bytes']:,} bytes, "
            f"fingerprint {files['digest']}."
        )
    if why := answer["extra"].get(TEXT, {}).get(WHY_HASHED):
        echo(f"{why[0].upper()}{why[1:]}.")
    intercept = answer["intercept"] if any(answer["intercept"]) else "none"
    settings = sorted({**answer["settings"], "intercept": intercept}.items())
    print_table(("setting", "value"), [[name, setting_text(value)] for name, value in settings])
    if answer["largest_weights"]:
        names = ("feature", "weight", "class")[: 2 if answer["label_kind"] == REGRESSION else 3]
        rows = [[row[name] for name in names] for row in answer["largest_weights"]]
        print_table(("largest weights: feature", "weight", "for class")[: len(names)], rows)
    if answer["strongest"]:
        rows = [
            [row["class"], ", ".join(each["feature"] for each in row["features"])]
            for row in answer["strongest"]
        ]
        print_table(("class", "strongest features"), rows, all_left=True)
    if answer["history"]:
        columns = list(answer["history"][-1])
        table = [[cell_text(row.get(name)) for name in columns] for row in answer["history"]]
        print_table(columns, table)


def _print_data(answer: dict[str, Any]) -> None:
    from llsvm.cli.tables import print_table
    from llsvm.memory.sizes import format_size

    named = [name for name in _DATA_ROWS if name != "index_base" or answer["format"] == "svmlight"]
    rows = [[name.replace("_", " "), answer[name]] for name in named]
    rows.insert(1, ["size", "-" if answer["bytes"] is None else format_size(answer["bytes"])])
    rows.append(["density", f"{answer['density']:.4%}"])
    print_table((answer["name"], ""), rows)
    _print_labels(answer)
    if answer["columns"]:
        _print_columns(answer["columns"])
    for note in answer["notes"]:
        echo(note)
    if answer["unscaled"]:
        echo(
            f"Values reach {answer['largest_value']:.6g}: training on unscaled columns is slow, and may not "
            "converge; pass --scale minmax, maxabs or standard."
        )
    if answer["defaults"]:
        echo(answer["defaults"])
    for sentence in _plan_in_words(answer):
        echo(sentence)


_OF_TARGETS = ("mean", "std", "smallest", "largest")


def _print_labels(answer: dict[str, Any]) -> None:
    """How many rows each class has, or what the targets of a regression are like."""
    from llsvm.cli.tables import print_table

    target = answer["target"]
    if answer["label_kind"] == UNLABELLED:
        return
    if not answer["labelled"]:
        echo(_no_label(answer["columns"] or []))
    elif target is not None:
        print_table(("target", ""), [[name, f"{target[name]:.8g}"] for name in _OF_TARGETS])
    else:
        classes = sorted(answer["classes"].items(), key=lambda item: -item[1])
        shown = [[label, count, f"{count / answer['rows']:.2%}"] for label, count in classes[:_CLASSES_SHOWN]]
        if len(classes) > _CLASSES_SHOWN or answer["other_rows"]:
            count = sum(count for _, count in classes[_CLASSES_SHOWN:]) + answer["other_rows"]
            shown.append(["others", count, f"{count / answer['rows']:.2%}"])
        print_table(("class", "rows", "share"), shown)


def _plan_in_words(answer: dict[str, Any]) -> Iterator[str]:
    from llsvm.memory.sizes import format_size

    if answer["untrainable"]:
        yield f"It cannot be trained on: {answer['untrainable']}"
        return
    plan = answer["plan"]
    limit = f"--memory-limit {_megabytes(plan['memory_limit_bytes'])}"
    if plan["enough"]:
        disk = format_size(plan["cache_bytes"])
        place = {
            "memory": "all rows in memory" if plan["in_memory"] else "rows where they are",
            "cache": f"about {disk} of cache on disk",
            "source": "every pass reads the data again",
        }[plan["place"]]
        blocks = "as one block" if plan["in_memory"] else f"blocks of up to {plan['block_rows']:,} rows"
        spill = f"up to {format_size(plan['spill_bytes'])} of spill, " if plan["spill_bytes"] else ""
        yield (
            f"With {limit}: solver {plan['solver']}, {place}, {blocks}, about {plan['passes']} passes, {spill}"
            f"about {_minutes(plan['minutes'])} (disk, passes and time are estimates)."
        )
    else:
        yield f"{limit} is not enough."
    smallest = _megabytes(answer["smallest_memory_bytes"])
    if answer["at_least"]:
        yield f"Training needs --memory-limit {smallest} at least; more is known once that allows to read the data."
        return
    if answer["in_memory_bytes"] is None:
        yield f"Training needs --memory-limit {smallest}; it does not keep these rows in memory."
        return
    yield (
        f"Training needs --memory-limit {smallest}; from "
        f"{_megabytes(answer['in_memory_bytes'])} on it keeps all rows in memory and reads the file once."
    )


def _no_label(columns: list[dict[str, Any]]) -> str:
    from llsvm.models.words import listed

    could_be = [column["name"] for column in columns if column.get("label_candidate")]
    candidates = f" (it could be {listed(could_be)})" if could_be else ""
    where = (
        "No column is known to hold the labels"
        if columns
        else "There are no labels in it that are known as such"
    )
    return f"{where}: pass --label with its name{candidates}."


def _print_columns(columns: list[dict[str, Any]]) -> None:
    from llsvm.cli.tables import print_table
    from llsvm.models.words import listed

    rows = [
        [
            column["name"],
            column["type"],
            column["use"],
            column["missing"],
            column.get("distinct"),
            "yes" if column.get("label_candidate") else "",
            column.get("examples", ""),
        ]
        for column in columns[:_COLUMNS_SHOWN]
    ]
    print_table(("column", "type", "use", "missing", "distinct at first", "a label?", "examples"), rows)
    if len(columns) > _COLUMNS_SHOWN:
        echo(f"and {len(columns) - _COLUMNS_SHOWN} more columns")
    if gaps := [column["name"] for column in columns if column["missing"]]:
        echo(f"Values are missing in {listed(gaps)}: training refuses them, or takes --missing zero or mean.")


_DATA_ROWS = ("format", "rows", "features", "nonzeros", "empty_rows", "largest_value", "index_base")


def _minutes(minutes: float) -> str:
    return f"{60 * minutes:.0f} seconds" if minutes < 1 else f"{minutes:.1f} minutes"


def _megabytes(nbytes: int) -> str:
    return f"{-(-nbytes // 1_000_000)}MB"
