"""Check that every module of the package imports only from the layers below it: ``python tools/check_layers.py``.

Readers never import readers, solvers never import solvers (a lower module holds what they share); the checker of a
certificate imports nothing of the trainer.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "llsvm"

MAX_LINES = 600
MAX_TOP_MODULES = 15

# From the bottom up; a module may import from its own layer, except where ALONE says that it stands alone.
LAYERS = [
    ["errors", "process"],
    ["kernels", "block"],
    ["files", "settings"],
    ["memory", "dataset"],
    ["row_buffer", "objective"],
    ["features"],
    ["data", "models", "spill"],
    ["stream"],
    ["solvers"],
    ["state"],
    ["training", "scoring", "calibration"],
    ["tuning", "verification", "reporting"],
    ["train", "predict", "survey", "convert", "path", "tune", "verify", "export", "report"],
    ["estimators", "cli", "__main__"],
]
# Rooms whose modules do not import each other, but for what these share.
ALONE = {
    "data": (
        *("source", "batches", "derived"),
        *(
            "table",
            "table_columns",
            "table_files",
            "table_rows",
            "arrow_memory",
            "parquet_pages",
        ),
        *("matrix", "text_chunks"),
        *("svmlight_labels", "jsonl_parse"),
        *("whole_numbers", "csv_head", "csv_streams"),
    ),
    "solvers": ("base", "state", "stopping", "optim", "advice", "kernel_machine", "column_scales"),
}
# Modules of such a room that choose between the others, and so know them.
CHOOSERS = ("solvers.auto",)
# The checker of certificates shares nothing with those who make them: it imports nothing from these, inside
# functions and for types neither.
CHECKER = ("verification", "verify")
TRAINERS = (
    *("memory.plan", "objective", "row_buffer", "solvers", "spill", "stream", "calibration"),
    *("train", "training", "tune", "tuning", "path", "estimators"),
)


def layer(module: str) -> int | None:
    """The layer of ``llsvm.x.y``; None for the package itself, which loads everything late."""
    parts = module.split(".")
    if len(parts) == 1:
        return None
    for number, names in enumerate(LAYERS):
        if parts[1] in names:
            return number
    raise SystemExit(f"{module}: in no layer; add it to LAYERS in tools/check_layers.py")


def imports(path: Path, types: bool = False) -> list[tuple[int, str]]:
    """(line, module) of every import of the package in a file, those inside functions too.

    Not those under ``if TYPE_CHECKING``, which load nothing, unless ``types``.
    """
    found = []
    tree = ast.parse(path.read_text(), str(path))
    skipped = {
        id(node)
        for test in ast.walk(tree)
        if not types and isinstance(test, ast.If) and "TYPE_CHECKING" in ast.dump(test.test)
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
    if f"{ours[1]}.{ours[2]}" in CHOOSERS:
        return False
    return ours[2] != theirs[2] and theirs[2] not in ALONE[ours[1]]


def violations(package: Path = PACKAGE) -> list[str]:
    """A sentence for each import that breaks the rule."""
    found = []
    for path in sorted(package.rglob("*.py")):
        importer = name_of(path)
        for line, imported in imports(path):
            place = f"{path.relative_to(package.parent)}:{line}: {importer} imports {imported}"
            ours, theirs = layer(importer), layer(imported)
            if ours is None or theirs is None:
                continue
            if theirs > ours:
                found.append(f"{place}, which is a layer above")
            elif stands_alone(importer, imported):
                found.append(f"{place}; {importer.split('.')[1]} stand alone")
    return found


def shared(package: Path = PACKAGE) -> list[str]:
    """A sentence for each import of the checker from the trainers."""
    found = []
    for path in sorted(package.rglob("*.py")):
        importer = name_of(path)
        if importer.partition(".")[2].split(".")[0] in CHECKER:
            for line, imported in imports(path, types=True):
                if any(f"{imported}.".startswith(f"llsvm.{room}.") for room in TRAINERS):
                    place = f"{path.relative_to(package.parent)}:{line}: {importer} imports {imported}"
                    found.append(f"{place}, which it checks")
    return found


def circles(package: Path = PACKAGE) -> list[str]:
    """A sentence for each circle of modules that import each other, late or early."""
    graph = {name_of(path): {name for _, name in imports(path)} for path in sorted(package.rglob("*.py"))}
    graph.pop("llsvm", None)  # loads everything late, by name
    done: set[str] = set()
    found: list[str] = []

    def visit(module: str, way: list[str]) -> None:
        if module in way:
            found.append("a circle of imports: " + " > ".join([*way[way.index(module) :], module]))
        elif module not in done:
            for imported in sorted(graph.get(module, ())):
                visit(imported, [*way, module])
            done.add(module)

    for module in graph:
        visit(module, [])
    return found


def large(package: Path = PACKAGE) -> list[str]:
    """A sentence for each file that is too long, and one where too many modules lie at the top."""
    found = []
    for path in sorted(package.rglob("*.py")):
        n_lines = len(path.read_text().splitlines())
        if n_lines > MAX_LINES:
            found.append(
                f"{path.relative_to(package.parent)}: {n_lines} lines, more than {MAX_LINES}: split it"
            )
    n_modules = len(list(package.glob("*.py")))
    if n_modules > MAX_TOP_MODULES:
        found.append(
            f"{package.name}/: {n_modules} modules, more than {MAX_TOP_MODULES}: move some to a room"
        )
    return found


def main() -> int:
    found = violations() + shared() + circles() + large()
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
