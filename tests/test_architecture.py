"""The rules of the package's layers, and what may be loaded when."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import check_layers
import signatures

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools.planted import MISTAKES  # noqa: E402


def test_every_module_imports_from_the_layers_below():
    assert check_layers.violations() == []


def test_parameters_are_written_as_their_options_are_declared(tmp_path, monkeypatch):
    paths = [*check_layers.PACKAGE.glob("*.py"), *check_layers.PACKAGE.glob("estimators/*.py")]
    assert [sentence for path in paths for sentence in signatures.as_declared(path)[1]] == []
    path, text = tmp_path / "train.py", (check_layers.PACKAGE / "train.py").read_text()
    path.write_text(text.replace("    tol: float = 0.001,\n", "").replace("seed: int = 0", "seed: str = 1"))
    monkeypatch.setattr(signatures, "ROOT", tmp_path)
    mended, (seed, tol) = signatures.as_declared(path)
    assert "train has seed otherwise than as seed: int = 0" in seed
    assert tol == "train.py: train has no tol"
    path.write_text(mended)
    assert signatures.as_declared(path) == (mended, [])
    path = tmp_path / "estimators" / "regressor.py"
    path.parent.mkdir()
    text = (check_layers.PACKAGE / "estimators" / "regressor.py").read_text()
    path.write_text(
        text.replace("        self.n_jobs = n_jobs\n", "").replace("n_jobs: int | None = None", "n_jobs: Any")
    )
    assert signatures.as_declared(path)[0] == text


def test_mistakes_can_be_planted_where_they_are_described():
    """Whoever renames or moves the code that ``tools.planted`` changes sees it here, and not months later."""
    for mistake in MISTAKES:
        assert mistake.text in (ROOT / mistake.path).read_text(), mistake.name
        assert all((ROOT / "tests" / f"{name}.py").exists() for name in mistake.tests.split()), mistake.name


def package(tmp_path, files):
    root = tmp_path / "llsvm"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "memory.py",
            "from llsvm.stream.stream import Stream",
            "llsvm.stream.stream, which is a layer above",
        ),
        ("block.py", "def f():\n    import llsvm.train", "block.py:2: llsvm.block imports llsvm.train"),
        ("data/csv.py", "from llsvm.data.svmlight import parse", "data stand alone"),
        ("data/csv.py", "from llsvm.data import svmlight", "data stand alone"),
        ("solvers/a.py", "from llsvm.solvers.llsvm import solver as llsvm", "solvers stand alone"),
        ("spill/a.py", "from llsvm.train import train", "a layer above"),
    ],
)
def test_the_check_finds_what_breaks_the_rule(tmp_path, monkeypatch, name, text, said):
    root = package(tmp_path, {name: text, "data/svmlight.py": "", "solvers/llsvm.py": ""})
    monkeypatch.setattr(check_layers, "PACKAGE", root)
    (found,) = check_layers.violations(root)
    assert said in found


def test_the_check_lets_good_imports_pass(tmp_path, monkeypatch):
    files = {
        "stream.py": "from llsvm.block import Block\nfrom llsvm.data.source import BlockSource",
        "data/csv.py": "from llsvm.data.source import SourceInfo",
        "block.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from llsvm.train import train",
    }
    root = package(tmp_path, files)
    monkeypatch.setattr(check_layers, "PACKAGE", root)
    assert check_layers.violations(root) == []


def test_the_checker_of_certificates_shares_nothing_with_the_trainer():
    assert check_layers.shared() == []


@pytest.mark.parametrize("name", ["verify.py", "verification/rows.py", "verification/__init__.py"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from llsvm.stream.stream import Stream", ":1: {} imports llsvm.stream.stream"),
        ("def f():\n    from llsvm.memory import plan", ":2: {} imports llsvm.memory.plan"),
        ("def f():\n    import llsvm.solvers", ":2: {} imports llsvm.solvers"),
        (
            "if TYPE_CHECKING:\n    from llsvm.objective.certificate import C",
            ":2: {} imports llsvm.objective",
        ),
        ("from llsvm.train import train", ":1: {} imports llsvm.train"),
    ],
)
def test_what_the_checker_must_not_import_is_found(tmp_path, monkeypatch, name, text, said):
    """Inside functions and for types alone, too; others may."""
    files = {name: text, "convert.py": text, "memory/plan.py": "", "memory/budget.py": ""}
    root = package(tmp_path, files)
    monkeypatch.setattr(check_layers, "PACKAGE", root)
    (found,) = check_layers.shared(root)
    importer = "llsvm." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert said.format(importer) in found


def test_the_checker_may_read_data_and_models(tmp_path, monkeypatch):
    text = "from llsvm.memory.budget import B\nfrom llsvm.models.model import Model\nimport llsvm.trained"
    root = package(tmp_path, {"verification/rows.py": text})
    monkeypatch.setattr(check_layers, "PACKAGE", root)
    assert check_layers.shared(root) == []


def test_a_module_of_no_layer_is_named(tmp_path, monkeypatch):
    root = package(tmp_path, {"nowhere.py": "import llsvm.block"})
    monkeypatch.setattr(check_layers, "PACKAGE", root)
    with pytest.raises(SystemExit, match=r"llsvm\.nowhere: in no layer"):
        check_layers.violations(root)


@pytest.mark.parametrize("module", ["llsvm", "llsvm.cli", "llsvm.data", "llsvm.spill"])
def test_importing_loads_nothing_heavy(module):
    heavy = "{'numba', 'pyarrow', 'h5py', 'sklearn', 'scipy', 'matplotlib'}"
    code = f"import sys, {module}; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_pytest_program_finds_the_tools():
    """``pytest`` as the README calls it does not put its folder on the path, as ``python -m pytest`` does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "tests/test_reproduce.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
