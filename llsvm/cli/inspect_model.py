"""Part of ``llsvm inspect`` for a model: what it is, what is proven of it, its settings and strongest weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from llsvm.cli.output import cell_text, echo, print_table

if TYPE_CHECKING:
    from llsvm.models.model import Model

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
