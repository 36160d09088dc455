"""Options of commands: made from their declarations (llsvm.settings), or shared by several, and their values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llsvm.errors import UsageError
from llsvm.files.writing import STDOUT, refuse_overwriting, require_writable
from llsvm.settings.data import AUTO
from llsvm.settings.option import COMMON, DATA, MOST_USED, OUTPUT, TEXT, Option
from llsvm.settings.settings import OPTIONS, Settings

if TYPE_CHECKING:
    from llsvm.data.source import BlockSource

Json = Annotated[bool, typer.Option("--json", help="Answer with a JSON object.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print nothing but errors, and what was asked for (--json, a table of results).",
        rich_help_panel=OUTPUT,
    ),
]
Trace = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write what is decided on the way, and why, as lines of JSON: see llsvm guide trace.",
        show_default="none",
        rich_help_panel=OUTPUT,
    ),
]
READING = tuple(name for name, each in OPTIONS.items() if each.group in (DATA, TEXT))  # how data is read
_NAME = re.compile(
    r'(?:\s*"((?:[^"]|"")*)"\s*(?=[:,]|\Z)|([^,:]*))([:,]|\Z)'
)  # or a part of it, up to a colon
KEEP = "keep"  # of predict: names, as those of holds_names
_TYPES = {"INT": int, "FLOAT": float}  # of what help shows for a value; others are text


def takes(*names: str, **changed: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: the command's ``**options`` are these options of Settings, as they were typed.

    names: () for all. changed: of an option, what is declared otherwise for this command (see Option)."""

    named = [name for name in dict.fromkeys((*COMMON, *OPTIONS)) if name in (names or OPTIONS)]
    made = [_parameter(replace(OPTIONS[name], **changed.get(name, {}))) for name in named]
    return partial(_declare, made)


def _declare(made: list[inspect.Parameter], command: Callable[..., Any]) -> Callable[..., Any]:
    """Let the command's signature have these parameters in the place of its ``**options``."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    plain = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    command.__signature__ = inspect.Signature([*plain, *made])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in (*plain, *made)}
    return command


def _parameter(option: Option) -> inspect.Parameter:
    default = None if option.default in ((), None) else option.default
    kind: Any = bool if isinstance(default, bool) else _TYPES.get(option.metavar, str)
    if option.repeatable or option.holds_names:
        kind = list[kind]
    declaration = typer.Option(
        *(option.flags or (option.flag,)),
        autocompletion=_completion(option.choices),
        metavar=option.stands_for or None,
        help=option.help,
        show_default=option.shown_default or default is not None,
        rich_help_panel=MOST_USED if option.name in COMMON else option.group,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind | None if default is None else kind, declaration],
    )


def _completion(choices: Sequence[str]) -> Callable[[str], list[str]] | None:
    """Return what shells offer for the value, if anything but files."""

    def offered(incomplete: str) -> list[str]:  # typer knows the parameter by its name
        return [each for each in choices if each.startswith(incomplete)]

    return offered if choices else None


def values(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed, as Settings has it. Raises UsageError."""
    parsed = dict(typed)
    for name, value in typed.items():
        if OPTIONS[name].default == ():
            parsed[name] = names_in(",".join(value or ()))
    for name, parse in (
        ("bias", bias_value),
        ("class_weight", parse_class_weight),
        ("min_df", partial(count_or_share, "--min-df")),
        ("max_df", partial(count_or_share, "--max-df")),
    ):
        if name in parsed:
            parsed[name] = parse(parsed[name])
    return parsed


def names_in(typed: str) -> tuple[str, ...]:
    """Return names between commas; one that has commas in it stands in double quotes, as in CSV, and so may the
    two of a cross, "A":B."""
    names, name = list[str](), ""
    for quoted, plain, end in _NAME.findall(typed):
        plain = plain if name else plain.lstrip()
        name += quoted.replace('""', '"') or (plain if end == ":" else plain.rstrip())
        if end == ":":
            name += end
            continue
        names, name = [*names, name], ""
    return tuple(name for name in names if name)


def holds_names(name: str) -> bool:
    """Return whether the option's value is names of columns, between commas."""
    return name == KEEP or (name in OPTIONS and OPTIONS[name].holds_names)


def quoted_name(name: str) -> str:
    """Return a name as ``names_in`` reads it."""
    return '"' + name.replace('"', '""') + '"' if "," in name else name


def settings_of(typed: Mapping[str, Any], context: typer.Context, **more: Any) -> Settings:
    """Return the settings of what was typed. context: of the command. more: fields that are no options of it.
    Raises UsageError, also for an option that was typed although nothing looks at it."""
    settings = Settings(**values(typed), **more)
    settings.refuse_typed(name for name in typed if was_typed(context, name))
    return settings


def objectives_of_lists(typed: Mapping[str, Any], context: typer.Context) -> tuple[Settings, ...]:
    """Return the settings of each combination that was typed; context: of the command. Raises UsageError, also for
    an option that was typed although nothing looks at it."""
    from llsvm.tuning.grid import objectives_of, refuse_unused

    objectives = objectives_of(_lists(typed))
    refuse_unused(objectives, [name for name in typed if was_typed(context, name)])
    return objectives


def _lists(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed, with lists of what may be tried with each C. Raises UsageError."""
    words, ratios = typed["class_weight"] or [], str(typed["l1_ratio"]).split(",")
    parsed = values({**typed, "class_weight": None})
    each = words[0].split(",") if len(words) == 1 else []
    if "none" in each or "balanced" in each:
        parsed["class_weight"] = [None if one == "none" else parse_class_weight([one]) for one in each]
    else:
        parsed["class_weight"] = parse_class_weight(words)
    for name in ("loss", "penalty"):
        parsed[name] = [one.strip() for one in typed[name].split(",")]
    try:
        parsed["l1_ratio"] = [float(ratio) for ratio in ratios]
    except ValueError:
        raise UsageError(
            f"--l1-ratio {','.join(ratios)}: write shares between 0 and 1, such as 0.1,0.5"
        ) from None
    return parsed


def check_tuning(given: Mapping[str, Any], objectives: Sequence[Settings]) -> None:
    """Raise UsageError for options of ``tune`` that are refused whatever the data are."""
    from llsvm.calibration.learning import learning_request
    from llsvm.tune import check_choices, tuning_settings

    objectives = tuning_settings(objectives, given["group"], given["time"])
    asks = [given[name] for name in ("folds", "validation", "holdout", "score", "rule", "race")]
    check_choices(objectives, given["costs"], *asks)
    learning_request(given["probabilities"], given["threshold"], objectives[0])


def was_typed(context: Any, name: str) -> bool:
    """Return whether a parameter's value was typed, and is not the default. context: click's."""
    return str(context.get_parameter_source(name).name) == "COMMANDLINE"


def bias_value(text: str) -> float | str:
    """Return the value of ``--bias`` as Settings has it. Raises UsageError."""
    if text == AUTO:
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--bias must be auto or a number, not {text!r}") from None


def count_or_share(flag: str, text: str | None) -> float | None:
    """Return the value of ``--min-df`` and the like as Settings has it: whole numbers are counts. Raises
    UsageError."""
    if text is None:
        return None
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        raise UsageError(f"{flag} must be a number of documents, or a share of them, not {text!r}") from None


def parse_class_weight(words: Sequence[str] | None) -> str | dict[str, float] | None:
    """Return the value of ``--class-weight``: None, "balanced", or the factor of each label (as text)."""
    if not words:
        return None
    if list(words) == ["balanced"]:  # a tuple, where click has it
        return "balanced"
    factors: dict[str, float] = {}
    for word in words:
        label, equals, factor = word.rpartition("=")
        try:
            factors[label] = float(factor)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--class-weight {word}: write balanced (alone), or LABEL=FACTOR such as 1=2.5")
    return factors


def check_output(path: str, inputs: Sequence[str], text: bool = False) -> None:
    """Raise UsageError unless ``path`` can be written and is none of the files that are read.

    text: what is written is text, which may go to standard output ("-")."""
    if text and path == STDOUT:
        return
    require_writable(path)
    refuse_overwriting(path, inputs)


def check_model_output(path: str, inputs: Sequence[str]) -> None:
    """Check by ``check_output`` the output of a model and of the log beside it."""
    from llsvm.models.model_file import require_writable

    check_output(path, inputs)
    require_writable(path)


def open_data(data: Sequence[str], settings: Settings) -> BlockSource:
    """Return the source that the arguments DATA... name, read as the settings say. Raises UsageError, DataError."""
    from llsvm.data import open_with_settings
    from llsvm.memory.process import default_threads

    return open_with_settings(settings, list(data), threads=settings.threads or default_threads())
