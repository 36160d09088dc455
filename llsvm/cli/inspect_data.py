"""Part of ``llsvm inspect`` for data: its columns and classes, and what training on it would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llsvm.cli.output import echo, print_table
from llsvm.settings.objective import UNLABELLED

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLASSES_SHOWN = 20
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
