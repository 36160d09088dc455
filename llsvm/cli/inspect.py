"""``llsvm inspect``: what is in a model or in a data file, and what training on it would do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llsvm.cli.options import Json, settings_of, takes, was_typed
from llsvm.cli.output import cell_text, echo, echo_json, print_table
from llsvm.errors import DataError, UsageError
from llsvm.settings.objective import KINDS, UNLABELLED
from llsvm.settings.option import MOST_USED, OUTPUT
from llsvm.settings.settings import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llsvm.models.model import Model
    from llsvm.settings.settings import Settings


_TOP = 10
_OF_MODELS = {"top": "--top", "csv": "--csv", "all_settings": "--all-settings"}


@takes(missing={"default": "zero"})
def inspect(
    context: typer.Context,
    file: Annotated[
        list[str], typer.Argument(metavar="FILE", help="A model (LIBLINEAR's too), or data as for train.")
    ],
    json: Json = False,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="INT",
            help="Of a model: so many features of each class, the strongest by weight times spread.",
            show_default=f"{_TOP} in all",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    csv: Annotated[
        bool,
        typer.Option("--csv", help="Of a model: these features alone, as CSV.", rich_help_panel=OUTPUT),
    ] = False,
    all_settings: Annotated[
        bool,
        typer.Option(
            "--all-settings",
            help="Of a model: all settings, not those alone that differ from the defaults.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    **options: Any,
) -> None:
    """Show what is in a model or in data, and what training with these options would do with the memory."""
    settings = settings_of(options, context)
    if top is not None and top < 1:
        raise UsageError(f"--top must be 1 or more, not {top}")
    if csv and json:
        raise UsageError("--csv and --json are two forms of one answer: leave one of them out")
    start = _first_bytes(file[0]) if len(file) == 1 and settings.format is None else b""
    answer: dict[str, Any]
    if start.startswith(b"solver_type") or (start.startswith(b"PK") and not file[0].endswith(".npz")):
        _refuse(context, [name for name in options if name != "memory_limit"], f"{file[0]} is a model")
        model = _loaded(file[0], start, settings.memory_limit)
        if csv:
            write_weights(model, top or _TOP)
            return
        answer = describe_model(model, top or _TOP)
        if not json:
            print_model(answer, of_each_class=top is not None, all_settings=all_settings)
    else:
        _refuse(context, list(_OF_MODELS), f"{file[0]} is no model")
        answer = _surveyed(file, settings)
        if not json:
            print_data(answer)
    if json:
        echo_json(answer)


def _refuse(context: typer.Context, names: list[str], why: str) -> None:
    """Raise UsageError where one of these parameters was typed."""
    for name in names:
        if was_typed(context, name):
            raise UsageError(f"{why}: leave {_OF_MODELS.get(name) or OPTIONS[name].flag} out")


def _surveyed(file: list[str], settings: Settings) -> dict[str, Any]:
    from llsvm.data import open_source, table_options
    from llsvm.data.table_columns import refusals
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
    try:
        return {"kind": "data", "refused": [], **survey(source, settings)}
    except DataError as error:
        if (answer := refusals(source, settings.missing)) is None:
            raise
        return {"kind": "data", **answer, "untrainable": str(error)}


def _first_bytes(file: str) -> bytes:
    """Return the file's first bytes; none where it cannot be read, which its reader then explains."""
    import os

    from llsvm.files.inputs import open_binary
    from llsvm.files.remote import is_remote

    if not is_remote(file) and not os.path.isfile(
        file
    ):  # reading from a pipe would take its first bytes away
        return b""
    with open_binary(file) as stream:
        return stream.read(16)


def _loaded(file: str, start: bytes, memory_limit: str | int | None) -> Model:
    from llsvm.scoring.room import require_room, require_room_for

    if start.startswith(b"PK"):
        from llsvm.models.model import Model

        require_room(file, memory_limit)
        return Model.load(file)
    from llsvm.models.liblinear import read_liblinear

    return read_liblinear(file, partial(require_room_for, memory_limit=memory_limit))


# -- models --------------------------------------------------------------------------------------------------------

_CLASSES_SHOWN = 20
_COLUMNS = ("feature", "weight", "spread", "contribution")
_HISTORY = ("passes", "primal", "dual", "relative_gap", "survivors", "seconds", "bytes_read")  # come first


def describe_model(model: Model, top: int = 10) -> dict[str, Any]:
    """Return the answer of ``inspect`` for a model, as plain values. top: features of each class."""
    import numpy as np

    from llsvm.models.sparse import n_nonzero
    from llsvm.models.words import (
        changed_settings,
        described,
        machine,
        of_all,
        of_each_class,
        proven,
        ranked_by,
    )

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
        "changed_settings": sorted(changed_settings(model)),
        "ranked_by": ranked_by(model),
        "largest_weights": of_all(model, top),
        "strongest": of_each_class(model, top),
        "history": model.history,
        "log": model.log,
        "extra": {name: value for name, value in model.extra.items() if not isinstance(value, np.ndarray)},
    }


def print_model(answer: dict[str, Any], of_each_class: bool, all_settings: bool) -> None:
    """Print the answer as tables.

    of_each_class: the strongest features of each class, not those of all together. all_settings: not only those
    that differ from the defaults."""
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
    echo(f"Intercept: {setting_text(answer['intercept']) if any(answer['intercept']) else 'none'}.")
    _print_settings(answer, all_settings)
    _print_weights(answer, of_each_class)
    if answer["history"]:
        there = answer["history"][-1]
        columns = sorted(there, key=lambda name: _HISTORY.index(name) if name in _HISTORY else len(_HISTORY))
        table = [[cell_text(row.get(name)) for name in columns] for row in answer["history"]]
        print_table([name.replace("_", " ") for name in columns], table)


def _print_settings(answer: dict[str, Any], all_settings: bool) -> None:
    """Print the settings; those that differ from the defaults come first."""
    from llsvm.models.words import setting_text

    settings, changed = answer["settings"], answer["changed_settings"]
    others = sorted(set(settings) - set(changed))
    if not settings:
        return
    if changed:
        rows = [[name, setting_text(settings[name])] for name in changed]
        print_table(("setting that differs from the default", "value"), rows)
    else:
        echo("No setting differs from its default.")
    if all_settings:
        rows = [[name, setting_text(settings[name])] for name in others]
        print_table(("setting as by default", "value"), rows)
    elif others:
        echo(f"{len(others)} settings are as by default: --all-settings shows them.")


def _print_weights(answer: dict[str, Any], of_each_class: bool) -> None:
    from llsvm.models.header import TEXT
    from llsvm.models.words import WEIGHT

    if not answer["largest_weights"]:
        return
    names = [name for name in _COLUMNS if name in answer["largest_weights"][0]]
    shown, text = answer["strongest"][:_CLASSES_SHOWN], TEXT in answer["extra"]
    sign = "strongest for" if text else "strongest, + for"
    if of_each_class:
        for each in shown:
            rows = [[feature[name] for name in names] for feature in each["features"]]
            echo("")
            print_table((f"{sign} {each['class']}", *names[1:]), rows)
    else:
        rows = [[row[name] for name in (*names, "class")] for row in answer["largest_weights"]]
        print_table(("strongest features", *names[1:], "for class"), rows)
        if text:
            rows = [
                [each["class"], ", ".join(feature["feature"] for feature in each["features"])]
                for each in shown
            ]
            print_table(("class", "strongest features"), rows, all_left=True)
    if (more := len(answer["strongest"]) - len(shown)) and (of_each_class or text):
        echo(f"and {more:,} more classes: --csv and --json have all")
    if answer["ranked_by"] == WEIGHT:
        echo("Features are ranked by weight: the model does not know how much their values spread.")


def write_weights(model: Model, top: int) -> None:
    """Write the strongest features of each class as CSV on standard output; spread and contribution are empty
    where they are not known."""
    import csv
    import io

    from llsvm.models.words import of_each_class

    text = io.StringIO()
    writer = csv.DictWriter(text, ("class", *_COLUMNS), lineterminator="\n")
    writer.writeheader()
    for each in of_each_class(model, top):
        writer.writerows({"class": each["class"], **feature} for feature in each["features"])
    typer.echo(text.getvalue(), nl=False)


# -- data ----------------------------------------------------------------------------------------------------------

_COLUMNS_SHOWN = 60


def print_data(answer: dict[str, Any]) -> None:
    if answer["refused"]:
        _print_refused(answer)
    else:
        _print_surveyed(answer)


def _print_refused(answer: dict[str, Any]) -> None:
    """Print the facts of a table whose rows cannot be read as they are."""
    from llsvm.memory.sizes import format_size

    rows = [["format", answer["format"]], ["size", format_size(answer["bytes"])], ["rows", answer["rows"]]]
    print_table((answer["name"], ""), rows)
    _print_columns(answer["columns"])
    echo("It cannot be trained on as it is:")
    for sentence in answer["refused"]:
        echo(f"- {sentence}")


def _print_surveyed(answer: dict[str, Any]) -> None:
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
    """Print how many rows each class has, or what the targets of a regression are like."""
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
    if gaps := [column["name"] for column in columns if column["missing"] and column["use"] != "label"]:
        echo(f"Values are missing in {listed(gaps)}: training refuses them, or takes --missing zero or mean.")


_DATA_ROWS = ("format", "rows", "features", "nonzeros", "empty_rows", "largest_value", "index_base")


def _minutes(minutes: float) -> str:
    return f"{60 * minutes:.0f} seconds" if minutes < 1 else f"{minutes:.1f} minutes"


def _megabytes(nbytes: int) -> str:
    return f"{-(-nbytes // 1_000_000)}MB"
