"""``verify``: whatever has a certificate is accepted, and whatever was changed in it, or in its data, refused."""

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cells import in_turn
from oracle import rows, small_pages, write_svmlight
from typer.testing import CliRunner

import llsvm
from llsvm import Model, ModelError
from llsvm.cli import app
from llsvm.memory.budget import MemoryBudget
from llsvm.state.folder import StateFolder
from llsvm.training import memory_limit, texts
from llsvm.verification import products
from llsvm.verification import rows as rows_module

X, Y = rows(n=120, d=6, noise=0.6)
X3, Y3 = rows(n=120, d=6, classes=3, noise=0.6)
SPARSE, SPARSE_Y = rows(n=120, d=6, density=0.5, noise=0.6)
RNG = np.random.default_rng(7)
UNEVEN = X * RNG.uniform(0.1, 30.0, 6) + RNG.normal(size=6)  # no 32-bit floats, of columns unlike each other
NUMBERS = X @ RNG.normal(size=6) * 40.0 + RNG.normal(size=120) + 900.0
WEIGHTS = RNG.uniform(0.2, 3.0, 120).astype(np.float32)
GRAM = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))

CASES = {
    "standard": (UNEVEN, Y, {"scale": "standard", "bias": 1.0}),
    "standard, no constant": (UNEVEN, Y, {"scale": "standard"}),
    "standard, intercept": (UNEVEN, Y, {"scale": "standard", "intercept": True, "loss": "logistic"}),
    "standard, sparse": (sp.csr_matrix(SPARSE), SPARSE_Y, {"scale": "standard", "bias": 0.7}),
    "minmax": (UNEVEN, Y, {"scale": "minmax", "bias": 2.0}),
    "maxabs, sparse": (sp.csr_matrix(SPARSE), SPARSE_Y, {"scale": "maxabs"}),
    "unit rows": (UNEVEN, Y, {"scale": "unit-row", "bias": 1.0}),
    "unit rows, sparse": (sp.csr_matrix(SPARSE), SPARSE_Y, {"scale": "unit-row"}),
    "64-bit values": (UNEVEN, Y, {"tol": 1e-8, "C": 0.1, "loss": "squared_hinge", "scale": "maxabs"}),
    "class weights": (X, Y, {"class_weight": {0: 3.0, "1": 0.5}}),
    "weight of one class": (X3, Y3, {"class_weight": {1: 3.0}}),
    "weights of words": (X, np.array(["no", "yes"])[Y], {"class_weight": {"no": 3.0, "yes": 0.5}}),
    "balanced": (X3, Y3, {"class_weight": "balanced"}),
    "balanced pairs": (X3, Y3, {"class_weight": "balanced", "multiclass": "ovo"}),
    "balanced, joint": (X3, Y3, {"class_weight": "balanced", "multiclass": "weston-watkins"}),
    "one pair": (X, Y, {"multiclass": "ovo", "bias": 1.0}),
    "lambdas": (X, Y, {"penalty": "elasticnet", "lambda1": 0.01, "lambda2": 0.02, "solver": "smsvm"}),
    "lambda of l1": (X, Y, {"penalty": "l1", "lambda1": 0.01, "bias": 0.7, "solver": "smsvm"}),
    "lambda": (X, Y, {"lambda2": 0.02}),
    "crammer-singer, two classes": (X, Y, {"multiclass": "crammer-singer", "bias": 1.0}),
    "weston-watkins, two classes": (X, Y, {"multiclass": "weston-watkins"}),
    "softmax, two classes": (X, Y, {"multiclass": "softmax", "loss": "logistic", "intercept": True}),
    "pruned": (UNEVEN, Y, {"prune": 0.1, "scale": "standard", "bias": 1.0}),
    "pruned, joint": (X3, Y3, {"prune": 0.1, "multiclass": "crammer-singer"}),
    "pruned, joint, two classes": (X, Y, {"prune": 0.1, "multiclass": "crammer-singer", "bias": 1.0}),
    "paper": (X, Y, {"paper": True, "solver": "llsvm"}),
    "scaled targets": (UNEVEN, NUMBERS, {"loss": "huber", "target_scale": "standard", "scale": "standard"}),
    "targets": (X, NUMBERS, {"loss": "epsilon_insensitive", "intercept": True, "C": 0.1}),
    "outliers": (X + 3.0, None, {"loss": "one_class", "nu": 0.2}),
    "polynomials": (X, Y, {"kernel": "poly", "gamma": 0.1, "coef0": 1.0, "bias": 0.7}),
    "linear kernel": (sp.csr_matrix(SPARSE), SPARSE_Y, {"kernel": "linear", "intercept": True}),
    "kernel of unit rows": (X, Y, {"kernel": "rbf", "scale": "unit-row", "loss": "squared_hinge"}),
    "kernel, pairs": (X3, Y3, {"kernel": "rbf", "multiclass": "ovo", "solver": "smo"}),
    "matrix": (GRAM, Y, {"kernel": "precomputed", "bias": 0.7}),
    "matrix, sparse": (sp.csr_matrix(GRAM), Y, {"kernel": "precomputed", "intercept": True}),
    "nystroem": (X, Y, {"feature_map": "nystroem", "kernel": "rbf", "components": 20, "bias": 1.0}),
    "nystroem, sparse": (sp.csr_matrix(SPARSE), SPARSE_Y, {"feature_map": "nystroem", "components": 20}),
    "rff": (UNEVEN, Y, {"feature_map": "rff", "gamma": 1e-3, "components": 30, "intercept": True}),
    "rff, sparse": (sp.csr_matrix(SPARSE), SPARSE_Y, {"feature_map": "rff", "components": 30, "tol": 1e-7}),
}


@pytest.mark.parametrize(("name", "weighted"), in_turn(CASES, [False, True], 1))
@pytest.mark.filterwarnings("ignore:not converged")
def test_what_was_trained_holds(name, weighted):
    features, labels, options = CASES[name]
    weight = WEIGHTS if weighted else None
    model = llsvm.train(features, labels, sample_weight=weight, threads=1, **options)
    found = llsvm.verify(model, features, labels, weight)
    assert found["differences"] == []
    assert found["holds"]
    assert found["rows"] == 120
    assert found["primal"] == pytest.approx(sum(model.certificate.primal), rel=1e-9)
    assert [each["name"] for each in found["problems"]] == (
        model.problem_names if len(model.certificate.primal) > 1 else [found["problems"][0]["name"]]
    )
    assert found["relative_gap"] == pytest.approx(found["claimed_gap"], abs=1e-8)


def written(path, name):
    """A file that readers have something to learn of; and how it is trained."""
    if name == "svmlight":
        return write_svmlight(path / "a.svm", X3, Y3), {}
    if name == "svmlight kernel":
        return write_svmlight(path / "a.svm", X3, Y3), {"kernel": "rbf", "intercept": True}
    if name == "svmlight matrix":
        return write_svmlight(path / "a.svm", GRAM, Y), {"kernel": "precomputed"}
    if name == "svmlight map":
        return write_svmlight(path / "a.svm", X, Y), {"feature_map": "rff", "components": 10}
    if name == "one label":
        return write_svmlight(path / "a.svm", X3, Y3), {"positive": "2"}
    if name == "text":
        words = ["good", "bad", "a", "train", "late", "soup"]
        said = [" ".join(words[int(abs(v) * 10) % 6] for v in x) for x in X]
        (path / "r.csv").write_text(
            "\n".join(["said,stars", *(f"{a},{b}" for a, b in zip(said, Y, strict=True))])
        )
        return path / "r.csv", {"text": ("said",), "ngrams": "1-2", "label": "stars"}
    file, towns = path / "a.csv", np.array(["here", "there", "else"])[Y3]
    lines = [
        ",".join([*map(repr, x), town, repr(y)])
        for x, town, y in zip(UNEVEN.tolist(), towns, NUMBERS.tolist(), strict=True)
    ]
    file.write_text("\n".join(["a,b,c,d,e,f,town,price", *lines]) + "\n")
    if name == "table of numbers":
        return file, {"label": "price", "loss": "epsilon_insensitive"}
    if name == "crossed":
        return file, {"label": "town", "exclude": ("price",), "cross": ("a:b",), "bias": 0.0}
    if name.startswith("gaps"):
        file.write_text(re.sub(r",-?[0-4]\.[0-9]+", ",", file.read_text()))
        options = {} if name == "gaps" else {"scale": "none", "C": 1e-3}
        return file, {"label": "town", "missing": "mean", "exclude": ("price",), **options}
    return file, {"label": "town", "weight": "price"}


FILES = (
    "gaps",
    "gaps, unscaled",
    "svmlight matrix",
    "svmlight",
    "svmlight kernel",
    "svmlight map",
    "one label",
    "table",
    "table of numbers",
    "crossed",
    "text",
)


@pytest.mark.parametrize("name", FILES)
def test_what_was_trained_on_files_holds(name, tmp_path):
    data, options = written(tmp_path, name)
    state = tmp_path / "S"
    llsvm.train(str(data), output=tmp_path / "m", threads=1, state=state, **options)
    for kept in (None, state):
        found = llsvm.verify(tmp_path / "m", str(data), state=kept)
        assert found["differences"] == []
        assert found["primal"] is not None


def test_a_state_that_had_no_room_for_dual_variables_is_no_fault_of_the_solver(tmp_path, monkeypatch):
    data = tmp_path / "d.svm"
    data.write_text("1 1:1 2:0.5\n-1 1:-1 2:0.1\n1 1:0.2\n-1 2:-0.3\n" * 20)
    monkeypatch.setattr(StateFolder, "free_bytes", lambda self: 1000)
    with pytest.warns(llsvm.LLSVMWarning, match="no state is written"):
        llsvm.train(str(data), output=tmp_path / "m", solver="llsvm", state=tmp_path / "S")
    found = llsvm.verify(tmp_path / "m", str(data), state=tmp_path / "S")
    assert found["holds"]
    assert "no dual variables by row" in found["not_checked"]
    assert "--solver" not in found["not_checked"]


@pytest.mark.parametrize("weight", ["auto", "tfidf"])
def test_n_grams_that_memory_has_hashed_are_hashed_again(tmp_path, monkeypatch, weight):
    data, options = written(tmp_path, "text")
    options |= {"term_weight": weight, "output": tmp_path / "m"}
    monkeypatch.setattr(texts, "HASHED_BITS", (5, 5))
    with monkeypatch.context() as here:
        here.setattr(texts, "most_columns", lambda nbytes, column_bytes: 0)
        with pytest.warns(UserWarning, match="hashed into"):
            model = llsvm.train(str(data), **options)
    assert model.settings["vocabulary"] == "auto"
    assert llsvm.verify(tmp_path / "m", str(data))["differences"] == []
    told = CliRunner().invoke(app, ["inspect", str(tmp_path / "m")]).stdout
    assert "n-grams are hashed into 2^5 columns" in " ".join(told.split())


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"format": "fasttext", "vocabulary": "hashed"}])
def test_lines_of_fasttext_are_told_by_their_first_bytes(tmp_path, options):
    lines = [
        "__label__a good fine day",
        "__label__b bad grey day",
        "__label__a fine sun",
        "__label__b bad rain",
    ]
    (tmp_path / "rows.txt").write_text("\n".join(lines) + "\n")
    model = llsvm.train(tmp_path / "rows.txt", **options)
    assert llsvm.verify(model, tmp_path / "rows.txt")["differences"] == []


def test_n_grams_that_had_columns_of_their_own_have_them_again(tmp_path, monkeypatch):
    data, options = written(tmp_path, "text")
    model = llsvm.train(str(data), **options)
    monkeypatch.setattr(texts, "WEIGHT_BYTES", 1 << 40)
    assert llsvm.verify(model, str(data))["differences"] == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A file, and the model of it."""
    folder = tmp_path_factory.mktemp("verify")
    data = write_svmlight(folder / "a.svm", X3, Y3)
    llsvm.train(str(data), output=folder / "m", scale="maxabs", bias=1.0)
    return data, folder / "m"


def changed(trained, **fields):
    """The model with other fields; of settings and certificate those that are named alone."""
    model = Model.load(trained[1])
    settings, claim = model.settings | fields.pop("settings", {}), model.certificate
    claim = replace(claim, **fields.pop("certificate", {}))
    return replace(model, settings=settings, certificate=claim, **fields)


@pytest.mark.parametrize("problem", range(3))
@pytest.mark.parametrize("column", range(6))
def test_a_changed_weight_is_refused(trained, problem, column):
    coef = Model.load(trained[1]).coef_.copy()
    coef[problem, column] *= 1.0 + 1e-4
    found = llsvm.verify(changed(trained, coef_=coef), str(trained[0]))
    assert not found["holds"]
    assert found["differences"][0].startswith(f"the primal of {problem} is ")


def test_a_changed_intercept_is_refused(trained):
    intercept = Model.load(trained[1]).intercept_ * np.array([1.0, 1.0, 1.0 + 1e-4])
    found = llsvm.verify(changed(trained, intercept_=intercept), str(trained[0]))
    assert found["differences"][0].startswith("the primal of 2 is ")


@pytest.mark.parametrize(
    "settings",
    [
        {"C": 1.0001},
        {"loss": "squared_hinge"},
        {"penalty": "l1", "solver": "smsvm"},
        {"class_weight": {"1": 1.001}},
        {"bias": 0.999},
        {"scale": "none"},
        {"scale": "standard"},
        {"multiclass": "ovo"},
        {"multiclass": "crammer-singer"},
        {"intercept": True, "bias": 0.0},
    ],
)
def test_other_settings_are_refused(trained, settings):
    assert not llsvm.verify(changed(trained, settings=settings), str(trained[0]))["holds"]


def test_a_better_claim_is_refused(trained):
    claim = Model.load(trained[1]).certificate
    half = tuple((p + d) / 2 for p, d in zip(claim.primal, claim.dual, strict=True))
    for primal, words in (
        (half, "the primal of 0 is "),
        ((claim.primal[0], *half[1:]), "the primal of 1 is "),
    ):
        found = llsvm.verify(changed(trained, certificate={"primal": primal}), str(trained[0]))
        assert not found["holds"]
        assert found["differences"][0].startswith(words)
        assert found["relative_gap"] > found["claimed_gap"] or primal[0] != half[0]
    worse = tuple(d - 0.1 * abs(d) for d in claim.dual)
    found = llsvm.verify(changed(trained, certificate={"dual": worse}), str(trained[0]))
    assert "that it has converged to 0.001, but its gap is 0.1" in found["differences"][0]
    assert "the dual is not checked" in found["not_checked"]


def test_other_rows_are_refused(trained, tmp_path):
    text = Path(trained[0]).read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(text) if line[0] != text[0][0])
    swapped = [text[first][0] + text[0][1:], *text[1:first], text[0][0] + text[first][1:], *text[first + 1 :]]
    data = tmp_path / "a.svm"
    for lines, words in (
        (swapped, ["a.svm changed since", "the primal of "]),
        (text[:-1], ["a.svm changed since", "the data have 119 rows, and the model was trained on 120"]),
        (
            [line for line in text if line[0] != "2"],
            ["a.svm changed since", "rows", "labels 0, 1, and the model"],
        ),
        ([*text, "1 7:0.5\n"], ["a.svm changed since", "rows", "7 features, and the model 6"]),
    ):
        data.write_text("".join(lines))
        found = llsvm.verify(trained[1], str(data))
        for number, each in enumerate(words):
            assert each in found["differences"][number]
    data.write_text("".join(text[::-1]))  # which changes nothing but the file
    assert len(llsvm.verify(trained[1], str(data))["differences"]) == 1
    other = data.rename(tmp_path / "b.svm")
    found = llsvm.verify(trained[1], str(other))
    assert "b.svm is not among the files of the training; a.svm is missing" in str(found)


def test_in_arrays_a_swapped_row_is_refused():
    model = llsvm.train(X, Y, bias=1.0)
    for array in (X, Y):
        other = array.copy()
        i, j = 0, int(np.flatnonzero(Y[0] != Y)[0])
        other[[i, j]] = other[[j, i]]
        found = llsvm.verify(model, *((other, Y) if array is X else (X, other)))
        assert not found["holds"]
    assert not llsvm.verify(model, X, Y, WEIGHTS)["holds"]


def test_rows_come_in_blocks_under_the_limit(trained, monkeypatch):
    want = llsvm.verify(trained[1], str(trained[0]))
    small_pages(monkeypatch)
    monkeypatch.setattr(products, "PIECE_VALUES", 50)
    monkeypatch.setattr(
        rows_module, "MemoryBudget", lambda limit: MemoryBudget(products.WORK_BYTES + 14_000, 0)
    )
    found = llsvm.verify(trained[1], str(trained[0]))
    assert found["primal"] == pytest.approx(want["primal"], rel=1e-13)
    assert found["holds"]


@pytest.mark.parametrize("scale", ["standard", "minmax"])
@pytest.mark.parametrize("zeros", [0.1, 0.4, 0.6])
@pytest.mark.parametrize("cache", ["never", "auto"])
def test_rows_with_few_zeros_are_scaled_as_they_were(scale, zeros, cache, tmp_path, monkeypatch):
    """Whether they fit in memory or not, in training and here."""
    cells = np.where(RNG.random((1500, 6)) < zeros, 0.0, RNG.normal(size=(1500, 6)).round(3) + 1.0)
    data = write_svmlight(tmp_path / "a.svm", cells, RNG.integers(0, 2, 1500))
    options = {"scale": scale, "cache": cache, "tol": 0.1, "threads": 1}
    models = [llsvm.train(str(data), **options)]
    small_pages(monkeypatch)
    monkeypatch.setattr(memory_limit, "MemoryBudget", lambda nbytes, more: MemoryBudget(50_000, 0))
    models.append(llsvm.train(str(data), **options))
    assert [llsvm.verify(model, str(data))["differences"] for model in models] == [[], []]
    small = products.WORK_BYTES + 10_000
    monkeypatch.setattr(rows_module, "MemoryBudget", lambda limit: MemoryBudget(small, 0))
    assert [llsvm.verify(model, str(data))["differences"] for model in models] == [[], []]


def test_the_command_line(trained, tmp_path):
    data, model = map(str, trained)
    done = CliRunner().invoke(app, ["verify", model, data])
    assert done.exit_code == 0, done.output
    assert "holds: the dual is not checked" in done.output
    assert "primal" in done.output
    changed(trained, settings={"C": 2.0}).save(tmp_path / "m")
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "m"), data])
    assert done.exit_code == 7
    assert "differs: the primal of 0 is " in done.output
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "m"), data, "--json", "--memory-limit", "2GB"])
    assert done.exit_code == 7
    assert json.loads(done.stdout)["holds"] is False
    replace(Model.load(model), certificate=None).save(tmp_path / "m")
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "m"), data])
    assert done.exit_code == 3
    assert "no certificate" in done.stderr


def test_a_model_without_a_certificate_is_refused():
    with pytest.raises(ModelError, match="no certificate"):
        llsvm.verify(Model(np.ones((1, 6)), [0.0], [0, 1]), X, Y)


def test_no_solver_is_imported_and_no_kernel_but_of_readers(trained):
    code = "import sys, llsvm; assert llsvm.verify(*sys.argv[1:])['holds']; print(*sys.modules)"
    arguments = [sys.executable, "-c", code, str(trained[1]), str(trained[0])]
    loaded = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
    assert "llsvm.kernels.parse" in loaded
    rooms = tuple(f"llsvm.{room}" for room in ("solvers", "state", "stream", "spill", "training", "tuning"))
    of_runs = [name for name in loaded if name.startswith(rooms)]
    assert of_runs == ["llsvm.state", "llsvm.state.container"]  # what reads a state
    assert "llsvm.kernels.products" not in loaded


def test_its_mathematics_are_its_own():
    package = Path(llsvm.__file__).parent
    for path in [package / "verify.py", *(package / "verification").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not node.module.startswith(("llsvm.objective", "llsvm.kernels")), path


def test_columns_in_another_order_are_refused_with_the_first(tmp_path):
    X, y = rows(n=60, d=3)
    for name, columns in (("a", [0, 1, 2]), ("b", [0, 2, 1])):
        header = ",".join("uvw"[j] for j in columns) + ",label\n"
        lines = [
            "".join(f"{cell}," for cell in row) + f"{label}\n"
            for row, label in zip(X[:, columns], y, strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text(header + "".join(lines))
    model = llsvm.train(str(tmp_path / "a.csv"), label="label")
    assert llsvm.verify(model, str(tmp_path / "a.csv"))["holds"]
    with pytest.raises(
        llsvm.DataError, match=r"b.csv: the columns are in another order.* column 2 is 'w', and was 'v'"
    ):
        llsvm.verify(model, str(tmp_path / "b.csv"))


@pytest.mark.slow
def test_it_keeps_its_memory_limit(tmp_path):
    """Of a file whose rows take three times what the limit leaves for them."""
    cells = RNG.normal(size=(2000, 60)).round(3)
    columns = np.sort(np.argsort(RNG.random((2000, 400)), axis=1)[:, :60], axis=1) + 1
    lines = [
        f"{i % 2} " + " ".join(f"{j}:{v}" for j, v in zip(js, vs, strict=True)) + "\n"
        for i, (js, vs) in enumerate(zip(columns.tolist(), cells.tolist(), strict=True))
    ]
    data, model, limit = tmp_path / "a.svm", tmp_path / "m", 290_000_000
    data.write_text("".join(lines) * 50)
    llsvm.train(str(data), output=model, scale="maxabs", tol=0.1)
    code = (
        "import sys, llsvm; found = llsvm.verify(*sys.argv[1:3], memory_limit=int(sys.argv[3])); "
        "print(found['holds'], next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"
    )
    arguments = [sys.executable, "-c", code, str(model), str(data), str(limit)]
    holds, peak = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
    assert holds == "True"
    assert 1024 * int(peak) < limit
