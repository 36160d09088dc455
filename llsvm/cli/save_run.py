"""``--save-run``: the run file that says what a command line of ``llsvm train`` says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llsvm.cli.options import holds_names, was_typed
from llsvm.cli.run_file import (
    COMMAND,
    DATA_SECTION,
    FILES,
    LIMITS_SECTION,
    MODEL_SECTION,
    PATH,
    PLACES,
    STEPS,
    section_of,
)
from llsvm.errors import UsageError
from llsvm.files.remote import is_remote
from llsvm.files.writing import replacing


def save_run(context: Any, file: str) -> None:
    """Write to ``file`` the run file of the command line that ``context``, click's, was made of."""
    folder = Path(file).resolve().parent
    sections: dict[str, dict[str, Any]] = {DATA_SECTION: {}, MODEL_SECTION: {}, LIMITS_SECTION: {}}
    step: dict[str, Any] = {COMMAND: context.info_name}
    for param in context.command.params:
        name, value = param.name, context.params[param.name]
        if name == "save_run" or not was_typed(context, name):
            continue
        if name == "data":
            sections[DATA_SECTION][FILES] = [_from(folder, each) for each in value]
        elif name == "model":
            sections[MODEL_SECTION][PATH] = _from(folder, value)
        else:
            if holds_names(name):
                value = ",".join(value)
            if param.metavar in PLACES:
                value = _from(folder, value)
            home = section_of(name)
            (step if home is None else sections[home])[name.replace("_", "-")] = value
    try:
        written = _toml(sections, step).encode()
    except UnicodeEncodeError:
        raise UsageError(f"--save-run {file}: a run file is UTF-8, and what was typed is not") from None
    with replacing(file) as stream:
        stream.write(written)


def _from(folder: Path, place: str) -> str:
    """Return a path as it is called from the folder of the run file."""
    if is_remote(place) or os.path.isabs(place) or place == "-":
        return place
    return os.path.relpath(place, folder)


def _toml(sections: Mapping[str, Mapping[str, Any]], step: Mapping[str, Any]) -> str:
    parts = [f"[{name}]\n{_pairs(values)}" for name, values in sections.items() if values]
    return "\n".join([*parts, f"[[{STEPS}]]\n{_pairs(step)}"])


def _pairs(values: Mapping[str, Any]) -> str:
    # what JSON writes is TOML too, of texts, numbers, truth values and lists of these; but not DEL, nor characters
    # in two halves
    written = ((name, json.dumps(value, ensure_ascii=False)) for name, value in values.items())
    return "".join(f"{name} = {value}\n" for name, value in written).replace("\x7f", "\\u007f")
