"""Write the parameters of Python's functions and estimators that are options as llsvm/settings declares them:
``python tools/signatures.py``; with ``--check`` say which are not, and exit with 1 if there are any.

Functions under ``takes_options``, and classes under ``takes_parameters``, name the options that they take. This
writes their annotations and defaults, and gives ``train``, which takes all options, those that it lacks. A
parameter with a comment on its line is another thing than the option, and stays as it is.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
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


def parameter(name: str, option_name: str, in_estimator: bool) -> str:
    """Return a parameter as its option is declared. Estimators take any text for words, as scikit-learn's do."""
    option = OPTIONS[option_name]
    annotation = option.accepts or KEPT[option_name].replace("tuple[str, ...]", "Sequence[str]")
    if in_estimator:
        annotation = re.sub(r"Literal\[.*?\]", "str", annotation)
    elif option.choices:
        annotation = annotation.replace("str", f"Literal{list(option.choices)}")
    return f"{name}: {annotation} = {option.default!r}"


def parameters(tree: ast.Module) -> Iterator[tuple[ast.arg | ast.AnnAssign, ast.expr | None, str, str]]:
    """Yield each parameter of functions and classes that take options: its place, its default, its name and that
    of the function or class."""
    for node in ast.walk(tree):
        decorators = [ast.unparse(each) for each in getattr(node, "decorator_list", ())]
        if isinstance(node, ast.FunctionDef) and "takes_options" in decorators:
            for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                yield each, default, each.arg, node.name
        elif isinstance(node, ast.ClassDef) and "takes_parameters" in decorators:
            for line in node.body:
                if isinstance(line, ast.AnnAssign):
                    yield line, line.value, ast.unparse(line.target), node.name


def as_declared(path: Path) -> tuple[str, list[str]]:
    """Return the text of a file with its parameters as they are declared, and a sentence for each that is not."""
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    in_estimator = path.parent.name == "estimators"
    wrong, places = list[str](), dict[str, int]()
    for place, default, name, owner in reversed(list(parameters(ast.parse(text)))):
        first, last = place.lineno - 1, (default or place).end_lineno or place.lineno
        if owner == "train":
            places[name] = last
        option_name = OPTION_NAMES.get(name, name) if in_estimator else name
        if option_name not in OPTIONS or "#" in lines[last - 1]:
            continue
        declared = parameter(name, option_name, in_estimator)
        given = "".join(lines[first:last]).strip().rstrip(",")
        if as_parsed(given) != as_parsed(declared):
            wrong.append(f"{path.relative_to(ROOT)}:{place.lineno}: {owner} has {given}, not {declared}")
            end = "" if isinstance(place, ast.AnnAssign) else ","
            lines[first:last] = [f"    {declared}{end}\n", *[""] * (last - first - 1)]
    if places:
        for before, name in zip(OPTIONS, list(OPTIONS)[1:], strict=False):
            if name not in places:
                wrong.append(f"{path.relative_to(ROOT)}: train has no {name}")
                places[name] = places[before]
                lines[places[name] - 1] += f"    {parameter(name, name, in_estimator)},\n"
    return "".join(lines), wrong


def as_parsed(parameter: str) -> str:
    return ast.unparse(ast.parse(f"def f({parameter}): ..."))


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
