"""Check that every module of the package imports only from the layers below it: ``python tools/check_layers.py``.

Readers never import readers, solvers never import solvers (a lower module holds what they share).
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "llsvm"

# From the bottom up; a module may import from its own layer, except where ALONE says that it stands alone.
LAYERS = [
    [
        "errors",
        "block",
        "progress",
        "report",
        "rounding",
        "kinds",
        "credentials",
        "settings",
        "version",
        "leftovers",
        "text",
        "signals",
    ],
    [
        "memory",
        "files",
        "hdf5_file",
        "inputs",
        "windows",
        "xz",
        "remote",
        "kernels",
        "arena",
        "labels",
        "optim",
        "problems",
        "sweeps",
    ],
    [
        "data",
        "spill",
        "model",
        "model_file",
        "model_check",
        "liblinear",
        "ingest",
        "assembly",
        "survivors",
        "sparsestate",
        "scaling",
        "feature_map",
        "frames",
        "tables",
        "matrix",
    ],
    ["stream", "kernel_matrix"],
    ["solvers"],
    ["auto", "advice"],
    ["train", "predict", "survey", "convert", "path"],
    ["estimators", "cli", "__main__"],
]
ALONE = ["data", "solvers"]
# Of these folders, modules that hold what the others share: the protocol, and helpers of one reader each.
SHARED = {
    "data": ("source", "svmlight_errors", "rules", "columns", "table"),
    "solvers": ("base", "choose", "room"),
}
# Progress asks for the resident set, which is a fact about the process and not about the budget.
ALLOWED = {("llsvm.progress", "llsvm.memory")}


def layer(module: str) -> int | None:
    """The layer of ``llsvm.x.y``; None for the package itself, which loads everything late."""
    parts = module.split(".")
    if len(parts) == 1:
        return None
    for number, names in enumerate(LAYERS):
        if parts[1] in names:
            return number
    raise SystemExit(f"{module}: in no layer; add it to LAYERS in tools/check_layers.py")


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import of the package in a file, those inside functions too.

    Not those under ``if TYPE_CHECKING``: they load nothing.
    """
    found = []
    tree = ast.parse(path.read_text(), str(path))
    skipped = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.dump(test.test)
        for child in test.body
        for node in ast.walk(child)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [(node.lineno, module_of(node.module, alias.name)) for alias in node.names]
    return [(line, name) for line, name in found if name.split(".")[0] == "llsvm"]


def module_of(module: str, name: str) -> str:
    """``from llsvm.data import arrays`` imports a module, ``from llsvm.data import open_source`` does not."""
    path = PACKAGE.parent.joinpath(*module.split("."), name)
    return f"{module}.{name}" if path.is_dir() or path.with_suffix(".py").exists() else module


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def stands_alone(importer: str, imported: str) -> bool:
    """Are both of them readers, or both of them solvers?"""
    ours, theirs = importer.split("."), imported.split(".")
    if len(ours) < 3 or len(theirs) < 3 or ours[1] != theirs[1] or ours[1] not in ALONE:
        return False
    return importer != imported and theirs[2] not in SHARED[ours[1]]


def violations(package: Path = PACKAGE) -> list[str]:
    """A sentence for each import that breaks the rule."""
    found = []
    for path in sorted(package.rglob("*.py")):
        importer = name_of(path)
        for line, imported in imports(path):
            place = f"{path.relative_to(package.parent)}:{line}: {importer} imports {imported}"
            ours, theirs = layer(importer), layer(imported)
            if (importer, imported) in ALLOWED or ours is None or theirs is None:
                continue
            if theirs > ours:
                found.append(f"{place}, which is a layer above")
            elif stands_alone(importer, imported):
                found.append(f"{place}; {importer.split('.')[1]} stand alone")
    return found


def main() -> int:
    found = violations()
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
