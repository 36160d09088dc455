"""Run files: steps of the program in TOML, each a command with its options, and what they share.

Sections [data], [model] and [limits] hold options of every step that takes them; a step's own come before them.
The declarations of the command's parameters check all values before the first step runs; an error names the file,
the line and the key. ``save_run`` writes the run file of a command line.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from llsvm.cli.options import (
    check_tuning,
    holds_names,
    objectives_of_lists,
    quoted_name,
    settings_of,
    was_typed,
)
from llsvm.cli.parsing import ParseError, nearest
from llsvm.errors import UsageError
from llsvm.files.remote import is_remote
from llsvm.files.writing import replacing
from llsvm.scoring import LARGER_IS_BETTER
from llsvm.settings.option import DATA, RESOURCES, TEXT
from llsvm.settings.settings import OPTIONS

DATA_SECTION, MODEL_SECTION, LIMITS_SECTION, STEPS = "data", "model", "limits", "step"
FILES, PATH, COMMAND, ACCEPT, WORSE_BY, METRIC = (
    "files",
    "path",
    "command",
    "accept",
    "keep_if_worse_by",
    "metric",
)
NOT_IN_A_RUN = ("run", "guide", "demo")
_MAX_CHARACTERS = 1 << 20  # of a run file
_LIMITS = ("max_passes", "max_seconds")  # with those of RESOURCES
_GROUPS = {DATA_SECTION: (DATA, TEXT), LIMITS_SECTION: (RESOURCES,)}
_OWN = {DATA_SECTION: (FILES,), MODEL_SECTION: (PATH, WORSE_BY, METRIC), LIMITS_SECTION: ()}
_OF_STEP = (COMMAND, FILES, ACCEPT)
_DATA = ("data", "file")  # what commands call the files they read; export and import have none
_CONVERTED = 'the output is the last of files, such as files = ["rows.csv", "rows.parquet"]'
_NEEDED = {
    **dict.fromkeys(_DATA, "files, in the step or in [data]"),
    "model": "a model: path in [model], or model in the step",
}
_NUMBERS = {"int": "a whole number", "integer": "a whole number", "float": "a number"}  # by click's types
PLACES = ("PATH", "DIR", "FILE")  # what help calls values that are paths
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_TABLE = re.compile(r"\s*\[\[?\s*([\w-]+)\s*\]\]?")
_LINE = re.compile(r"""\s*["']?([\w-]+)["']?\s*=""")


@dataclass(frozen=True)
class RunFileStep:
    """Step of a run file: a command of the program, and values of its parameters.

    command: click's. values: of its parameters by name, in the order of the command line: text, a tuple of texts
    for a parameter that takes several, True or False for a switch. accept: the exit codes after which the run goes
    on."""

    command: Any
    values: Mapping[str, Any]
    accept: tuple[int, ...]

    @property
    def name(self) -> str:
        return str(self.command.name)

    @property
    def answers_json(self) -> bool:
        """Return whether it answers with a JSON object; that of ``predict`` goes with --explain."""
        return "json" in self.values and self.name != "predict"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the command line after the command's name."""
        params = {each.name: each for each in self.command.params}
        flags, arguments = list[str](), list[str]()
        for name, value in self.values.items():
            param, texts = params[name], value if isinstance(value, tuple) else (value,)
            if param.param_type_name == "argument":
                arguments += texts
                continue
            flag = max(param.opts, key=len)
            if not param.is_flag:  # joined: a value may begin with a dash
                for text in texts:
                    flags += [f"{flag}={text}"] if flag.startswith("--") else [flag, text]
            elif value or param.secondary_opts:
                flags.append(flag if value else param.secondary_opts[0])
        return (*flags, "--", *arguments) if arguments else tuple(flags)

    @property
    def reads_stdin(self) -> bool:
        """Return whether the step's data, or its model, is standard input."""
        return "-" in self.words

    def quieted(self) -> RunFileStep:
        """Return the step with --quiet, where the command has that and the file does not say."""
        if "quiet" in self.values or all(each.name != "quiet" for each in self.command.params):
            return self
        return replace(self, values={"quiet": True, **self.values})


@dataclass(frozen=True)
class Comparison:
    """Comparison of a new model with the old one, by a figure of ``evaluate``.

    model: the old one's path. candidate: the new one's, until it takes that place. worse_by: how much worse it may
    be. metric: the figure, None for the first that there is of ``llsvm.scoring.FIGURES``. step: the number
    of the step that evaluates, from 0; the steps after it use the model that stays."""

    model: str
    candidate: str
    worse_by: float
    metric: str | None
    step: int


@dataclass(frozen=True)
class RunFile:
    """Run file, checked. folder: where paths begin. comparison: None to take every new model."""

    folder: Path
    steps: tuple[RunFileStep, ...]
    comparison: Comparison | None


class _Text:
    """The file's text, for the lines of its keys; the parser of TOML tells of none."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._lines: dict[tuple[str, int, str], int] = {}
        table, count = "", {STEPS: -1}
        for number, line in enumerate(text.splitlines(), 1):
            if opened := _TABLE.match(line):
                table = opened[1]
                count[table] = count.get(table, -1) + 1
                self._lines[table, count[table], ""] = number
            elif given := _LINE.match(line):
                self._lines.setdefault((table, count.get(table, 0), _plain(given[1])), number)

    def line(self, table: str, index: int = 0, key: str = "") -> int:
        number = self._lines.get((table, index, key)) or self._lines.get((table, index, ""))
        return number or 1

    def error(self, message: str, table: str, index: int = 0, key: str = "") -> UsageError:
        return UsageError(f"{self._path}, line {self.line(table, index, key)}: {message}")


def read_run(path: str, commands: Mapping[str, Any]) -> RunFile:
    """Return the run file ``path``, checked whole. commands: click's commands of the program, by name.

    Raises UsageError for what the file cannot mean."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = file.read(_MAX_CHARACTERS)
        if len(content) == _MAX_CHARACTERS:
            raise UsageError(f"{path}: has {_MAX_CHARACTERS:,} characters or more, so it is no run file")
        parsed = tomllib.loads(content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is no text in UTF-8, so no run file") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: no TOML: {error}") from None
    text = _Text(path, content)
    known = (DATA_SECTION, MODEL_SECTION, LIMITS_SECTION, STEPS)
    for name in parsed:
        if name not in known:
            meant = nearest(name, known) or f"; there are {', '.join(known)}"
            raise text.error(f"a run file has no section {name}{meant}", name, 0, "")
    steps = parsed.get(STEPS, [])
    if not isinstance(steps, list) or not steps or not all(isinstance(each, dict) for each in steps):
        raise UsageError(f'{path}: has no steps: write each as [[step]] with command = "train" or another')
    sections = {name: _section(parsed.get(name, {}), name, text) for name in (*_GROUPS, MODEL_SECTION)}
    return _Reading(path, text, sections, commands).run([_keys(each) for each in steps])


class _Reading:
    """Values of commands' parameters, taken from the sections and steps of a run file."""

    def __init__(
        self, path: str, text: _Text, sections: Mapping[str, dict[str, Any]], commands: Mapping[str, Any]
    ) -> None:
        self._folder = Path(path).resolve().parent
        self._text = text
        self._sections = sections
        self._commands = {name: each for name, each in commands.items() if name not in NOT_IN_A_RUN}
        self._used: set[tuple[str, str]] = set()

    def run(self, steps: Sequence[dict[str, Any]]) -> RunFile:
        names = [self._command(step, index) for index, step in enumerate(steps)]
        path = self._sections[MODEL_SECTION].get(PATH)
        if path is not None:
            path = self._place(path, (MODEL_SECTION, 0, PATH))
        comparison = self._comparison(path, names, ["model" in step for step in steps])
        made = []
        for index, (name, step) in enumerate(zip(names, steps, strict=True)):
            model = comparison.candidate if comparison and index <= comparison.step else path
            made.append(self._step(name, step, index, model))
        for section, values in self._sections.items():
            for key in values:
                if (section, key) not in self._used and key not in _OWN[section]:
                    raise self._text.error(
                        f"{key} is an option of no step here: leave it out", section, 0, key
                    )
        piped = [index for index, step in enumerate(made) if step.reads_stdin]
        again = [*piped[1:], *(index for index in piped if comparison and index == comparison.step)]
        if again:
            raise self._text.error(
                "standard input can be read once only: write the data to a file", STEPS, min(again), "files"
            )
        return RunFile(self._folder, tuple(made), comparison)

    def _comparison(
        self, path: str | None, names: Sequence[str], own_model: Sequence[bool]
    ) -> Comparison | None:
        """Return whether, and when, a new model is compared with the old one. own_model: which steps name
        another model than [model] does. Raises UsageError."""
        worse_by, metric = (self._sections[MODEL_SECTION].get(key) for key in (WORSE_BY, METRIC))
        if worse_by is None:
            if metric is not None:
                raise self._wrong(f"{METRIC} is what keep-if-worse-by compares: give that too", METRIC)
            return None
        if isinstance(worse_by, bool) or not isinstance(worse_by, int | float) or not worse_by >= 0:
            raise self._wrong(f"keep-if-worse-by must be a number of 0 or more, not {worse_by!r}", WORSE_BY)
        if metric is not None and metric not in LARGER_IS_BETTER:
            meant = nearest(str(metric), LARGER_IS_BETTER) or f"; there are {', '.join(LARGER_IS_BETTER)}"
            raise self._wrong(f"no model is judged by {metric!r}{meant}", METRIC)
        shared = [(index, name) for index, name in enumerate(names) if not own_model[index]]
        first = min((index for index, name in shared if _trains(self._commands[name])), default=len(names))
        after = [index for index, name in shared if name == "evaluate" and index > first]
        if path is None or not after:
            raise self._wrong(
                "keep-if-worse-by needs the path of [model], a step that trains it, and after that a step evaluate",
                WORSE_BY,
            )
        return Comparison(path, f"{path}.new", worse_by, metric, after[0])

    def _wrong(self, message: str, key: str) -> UsageError:
        return self._text.error(message, MODEL_SECTION, 0, key)

    def _command(self, step: Mapping[str, Any], index: int) -> str:
        name = step.get(COMMAND)
        if name not in self._commands:
            meant = nearest(str(name), self._commands) or f"; there are {', '.join(self._commands)}"
            said = "a step needs a command" if name is None else f"no step can be {name!r}"
            raise self._text.error(said + meant, STEPS, index, COMMAND)
        return str(name)

    def _step(self, name: str, step: Mapping[str, Any], index: int, model: str | None) -> RunFileStep:
        command = self._commands[name]
        given = self._given(name, step, index, model)
        if name == "predict" and "output" not in given:
            raise self._text.error("predict needs an output here: the name of a file", STEPS, index)
        for param in command.params:
            if param.required and (param.name not in given or given[param.name][0] == []):
                needed = _NEEDED.get(param.name, param.name)
                raise self._text.error(f"{name} needs {needed}", STEPS, index)
        json = name != "predict" and any(each.name == "json" for each in command.params)
        if json and "csv" in given and given["csv"][0]:
            said = "csv is another form of the answer, which is JSON here: leave it out, and take what answer has"
            raise self._text.error(f"{name}: {said}", *given["csv"][1])
        params = [each for each in command.params if each.name in given]
        values = {each.name: self._value(each, *given[each.name]) for each in params}
        if json:
            values.pop("json", None)
            values["json"] = True  # last, and whatever the file says
        self._check(command, values, index, given)
        return RunFileStep(command, values, self._accepted(step, index))

    def _given(
        self, name: str, step: Mapping[str, Any], index: int, model: str | None
    ) -> dict[str, tuple[Any, tuple[str, int, str]]]:
        """Return what a step and the sections say of the command's parameters, by name, with where it stands."""
        called: dict[str, str] = {}
        for param in self._commands[name].params:
            called |= {_plain(word.lstrip("-")): param.name for word in (param.name, *param.opts)}
        data = next((each for each in _DATA if each in called), None)
        for key in step:
            if name == "convert" and key == "output":
                raise self._text.error(f"convert has no option output: {_CONVERTED}", STEPS, index, key)
            if (key not in called and key not in _OF_STEP) or (key == FILES and data is None):
                meant = nearest(key, [*called, *_OF_STEP]) or f" (llsvm {name} --help lists all options)"
                if key in _OWN[MODEL_SECTION]:
                    meant = ": it stands in [model]" + (", and a step's own is model" if key == PATH else "")
                raise self._text.error(f"{name} has no option {key}{meant}", STEPS, index, key)
        given = {called[key]: (step[key], (STEPS, index, key)) for key in step if key not in _OF_STEP}
        for section, values in self._sections.items():
            for key, value in values.items():
                of_data = name == "inspect" and self._is_model(step, key)
                if key in called and key not in _OWN[section] and not of_data:
                    self._used.add((section, key))
                    given.setdefault(called[key], (value, (section, 0, key)))
        shared = self._sections[DATA_SECTION].get(FILES)
        if data is not None and FILES in step:
            if data in given:
                raise self._text.error("files are the data: leave one of the two out", STEPS, index, FILES)
            given[data] = step[FILES], (STEPS, index, FILES)
        elif (
            data is not None and shared is not None and name != "convert"
        ):  # which would write the last of them
            given.setdefault(data, (shared, (DATA_SECTION, 0, FILES)))
        if name == "convert" and (data not in given or len(_many(given[data][0])) < 2):
            raise self._text.error(
                f"convert needs files of its own, what it reads and what it writes: {_CONVERTED}",
                STEPS,
                index,
            )
        if "model" in called and model is not None:
            given.setdefault("model", (model, (MODEL_SECTION, 0, PATH)))
        return given

    def _is_model(self, step: Mapping[str, Any], key: str) -> bool:
        """Return whether a step inspects the model of [model], so that it takes no option like ``key``."""
        path = self._sections[MODEL_SECTION].get(PATH)
        return (
            key != "memory_limit" and path is not None and _many(step.get(FILES, step.get("file"))) == [path]
        )

    def _accepted(self, step: Mapping[str, Any], index: int) -> tuple[int, ...]:
        codes = step.get(ACCEPT, [])
        if not isinstance(codes, list) or not all(isinstance(code, int) and 0 < code < 126 for code in codes):
            raise self._text.error(
                f"{ACCEPT} must be a list of exit codes, such as [5], not {codes!r}", STEPS, index, ACCEPT
            )
        return (0, *codes)

    def _check(
        self,
        command: Any,
        values: Mapping[str, Any],
        index: int,
        given: Mapping[str, tuple[Any, tuple[str, int, str]]],
    ) -> None:
        """Raise UsageError unless the command takes these values."""
        name, context = command.name, typer.Context(command)
        try:
            for param in command.params:
                value = values.get(param.name)
                is_given = value not in (None, ()) and (value is not False or param.secondary_opts)
                param.handle_parse_result(context, {param.name: value} if is_given else {}, [])
            check = objectives_of_lists if name == "tune" else settings_of
            objectives = check(
                {key: value for key, value in context.params.items() if key in OPTIONS}, context
            )
            _check_of_command(name, context, objectives)
        except UsageError as error:
            raise self._text.error(f"{name}: {error}", STEPS, index) from None
        except ParseError as error:
            param = error.param  # type: ignore[attr-defined]
            value, where = given[param.name]
            kind = _NUMBERS.get(param.type.name)
            why = f"must be {kind}, not {value!r}" if kind else f"makes no sense: {error.message}"  # type: ignore[attr-defined]
            raise self._text.error(f"{name}: {where[2]} {why}", *where) from None

    def _value(self, param: Any, value: Any, where: tuple[str, int, str]) -> Any:
        """Return a parameter's value as a step has it. Raises UsageError for a value of another kind."""
        is_option = param.param_type_name == "option"
        if is_option and param.is_flag:
            if not isinstance(value, bool):
                raise self._text.error(f"{where[2]} must be true or false, not {value!r}", *where)
            return value
        many = _many(value)
        if not is_option and param.nargs == 1 and len(many) != 1:
            raise self._text.error(f"{where[2]} must be one value, not {len(many)}", *where)
        if is_option and isinstance(value, list) and (not param.multiple or holds_names(param.name)):
            many = [",".join(quoted_name(str(each)) for each in many)]
        texts = []
        for each in many:
            if isinstance(each, bool | dict | list):
                form = f" ({param.metavar})" if param.metavar else ""
                raise self._text.error(f"{where[2]} must be a text or a number{form}, not {each!r}", *where)
            text = str(each)  # dates and times as in ISO 8601
            is_place = not is_option or param.metavar in PLACES
            texts.append(self._place(text, where) if is_place else text)
        takes_several = param.nargs == -1 or (is_option and param.multiple)
        return tuple(texts) if takes_several else texts[0]

    def _place(self, word: Any, where: tuple[str, int, str]) -> str:
        """Return a path with ${NAME} replaced by what the environment has."""
        if not isinstance(word, str) or not word:
            raise self._text.error(f"{where[2]} must be a path, not {word!r}", *where)
        for name in _VARIABLE.findall(word):
            if name not in os.environ:
                raise self._text.error(f"{where[2]}: the environment has no variable {name}", *where)
        return os.path.expanduser(_VARIABLE.sub(lambda match: os.environ[match[1]], word))


def _check_of_command(name: str, context: typer.Context, objectives: Any) -> None:
    """Raise UsageError for options of that command alone which it refuses whatever the data are. objectives: the
    settings of a tuning run's candidates."""
    if name == "tune":
        check_tuning(context.params, objectives)
    elif name == "predict":
        from llsvm.cli.predict import checked_answer

        checked_answer(context.params)
    elif name == "evaluate":
        from llsvm.cli.evaluate import check_thresholds

        check_thresholds(context.params["thresholds"], context)


def _section(values: Any, name: str, text: _Text) -> dict[str, Any]:
    """Return a section's options by name. Raises UsageError for what does not belong there."""
    if not isinstance(values, dict):
        raise text.error(f"{name} must be a section: write [{name}]", name)
    keys = _keys(values)
    for key in keys:
        if key in _OWN[name]:
            continue
        there = section_of(key)
        if there is None:
            known = [each for each in (*OPTIONS, *_OWN[name]) if section_of(each) in (name, None)]
            raise text.error(f"[{name}] has no key {key}{nearest(key, known)}", name, 0, key)
        if there != name:
            raise text.error(f"{key} belongs into [{there}], not [{name}]", name, 0, key)
    return keys


def section_of(key: str) -> str | None:
    """Return the section that an option stands in; None for what is no option."""
    if key not in OPTIONS:
        return None
    if key in _LIMITS:
        return LIMITS_SECTION
    return next((name for name, groups in _GROUPS.items() if OPTIONS[key].group in groups), MODEL_SECTION)


def _trains(command: Any) -> bool:
    """Return whether a command writes the model: it is an option then, and an argument where it is read."""
    return any(each.name == "model" and each.param_type_name == "option" for each in command.params)


def _keys(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_plain(key): value for key, value in values.items()}


def _plain(key: str) -> str:
    """Return the name of the option in Settings: keys may have dashes, as on the command line."""
    return key.replace("-", "_")


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


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
