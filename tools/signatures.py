"""Write the parameters of Python's functions and estimators that are options as llsvm/settings declares them:
``python tools/signatures.py``; with ``--check`` say what is written otherwise, and exit with 1 if anything is.

Functions under ``takes_options``, and estimators, name the options that they take. This writes their annotations
and defaults, gives ``train``, which takes all options, those that it lacks, and has estimators keep what they are
given. A parameter with a comment on its line is another thing than the option, and stays as it is.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from llsvm.settings.option import ESTIMATOR_NAMES  # noqa: E402
from llsvm.settings.settings import OPTIONS, Settings  # noqa: E402

OPTION_NAMES = {there: name for name, there in ESTIMATOR_NAMES.items()}
KEPT = {
    each.name: str(each.type) for each in fields(Settings)
}  # annotations of what Settings makes of options


def declared(name: str, in_estimator: bool) -> str | None:
    """Return a parameter as its option is declared; None if it is no option. Estimators take any text for words, as
    scikit-learn's do."""
    option = OPTIONS.get(OPTION_NAMES.get(name, name) if in_estimator else name)
    if option is None:
        return None
    annotation = option.accepts or KEPT[option.name].replace("tuple[str, ...]", "Sequence[str]")
    if in_estimator:
        annotation = re.sub(r"Literal\[.*?\]", "str", annotation)
    elif option.choices:
        annotation = annotation.replace("str", f"Literal{list(option.choices)}")
    return f"{name}: {annotation} = {option.default!r}"


def as_declared(path: Path) -> tuple[str, list[str]]:
    """Return the text of a file with its parameters as they are declared, and a sentence for each that is not."""
    text, in_estimator, wrong = path.read_text(), path.parent.name == "estimators", list[str]()
    lines = text.splitlines(keepends=True)

    def replace(first: int, last: int, new: str, sentence: str) -> None:
        """Write ``new`` to the lines from first to last, from 1, unless it stands there but for its layout."""
        if as_parsed("".join(lines[first - 1 : last])) != as_parsed(new):
            wrong.append(f"{path.relative_to(ROOT)}:{first}: {sentence}")
            lines[first - 1 : last] = [new, *[""] * (last - first)]

    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        keeps = in_estimator and function.name == "__init__" and function.args.kwonlyargs
        if not keeps and "takes_options" not in map(ast.unparse, function.decorator_list):
            continue
        given = [*function.args.args, *function.args.kwonlyargs]
        defaults = [*function.args.defaults, *function.args.kw_defaults]
        ends = {}
        for each, default in zip(given, [None] * (len(given) - len(defaults)) + defaults, strict=True):
            ends[each.arg] = last = (default or each).end_lineno or each.lineno
            new = declared(each.arg, in_estimator)
            if new is not None and (last == function.lineno or each.lineno == function.lineno):
                raise SystemExit(
                    f"{path}:{each.lineno}: write each parameter of {function.name} in a line of its own"
                )
            if new is not None and "#" not in lines[last - 1]:
                sentence = f"{function.name} has {each.arg} otherwise than as {new}"
                replace(each.lineno, last, f"{' ' * each.col_offset}{new},\n", sentence)
        for before, name in zip(OPTIONS, list(OPTIONS)[1:], strict=False):
            if function.name == "train" and name not in ends:
                wrong.append(f"{path.relative_to(ROOT)}: train has no {name}")
                ends[name] = ends[before]
                lines[ends[name] - 1] += f"    {declared(name, in_estimator)},\n"
        if keeps:
            body = "".join(f"        self.{each.arg} = {each.arg}\n" for each in given[1:])
            last = function.body[-1].end_lineno or 0
            replace(function.body[0].lineno, last, body, "__init__ does not keep all that it is given")
    return "".join(lines), wrong


def as_parsed(code: str) -> str:
    """Return parameters, or statements, without their layout."""
    code = code.strip()
    return ast.unparse(
        ast.parse(f"def f({code}): ..." if code.endswith(",") else re.sub(r"(?m)^ +", "", code))
    )


def main() -> int:
    wrong = list[str]()
    for path in [*ROOT.glob("llsvm/*.py"), *ROOT.glob("llsvm/estimators/*.py")]:
        text, sentences = as_declared(path)
        wrong += sentences
        if sentences and "--check" not in sys.argv:
            path.write_text(text)
            subprocess.run(["ruff", "format", "--quiet", path], check=True)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
