"""``verify`` with a state: the dual variables that were kept prove what a model says, and nothing else passes."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from kept_duals import with_shares
from oracle import rows, small_pages, write_svmlight
from resume import Case, go
from typer.testing import CliRunner

import llsvm
from llsvm import DataError, Model, UsageError
from llsvm.cli import app
from llsvm.state.container import AT_WEIGHTS, LARGEST_COST, RESULT, SHARES, Container, ContainerWriter
from llsvm.verification.dual import KeptDual

X, Y = rows(n=90, d=5, noise=0.6)
X3, Y3 = rows(n=90, d=5, classes=3, noise=0.6)
SPARSE, SPARSE_Y = rows(n=90, d=6, density=0.5, noise=0.6)
NUMBERS = X @ np.arange(5.0) * 20.0 + np.random.default_rng(0).normal(size=90) + 300.0
WEIGHTS = np.random.default_rng(7).uniform(0.0, 3.0, 90).astype(np.float32)
WEIGHTS[::10] = 0.0
GRAM = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))

CASES = {
    "hinge": (X, Y, {"bias": 1.0, "scale": "standard"}),
    "squared hinge, sparse": (sp.csr_matrix(SPARSE), SPARSE_Y, {"loss": "squared_hinge", "bias": 0.7}),
    "logistic, class weights": (X, Y, {"loss": "logistic", "class_weight": "balanced"}),
    "least squares": (X, Y, {"loss": "least-squares"}),
    "against the rest": (X3, Y3, {"class_weight": {1: 3.0}, "bias": 1.0}),
    "pairs": (X3, Y3, {"multiclass": "ovo", "C": 10.0}),
    "pairs, logistic": (X3, Y3, {"multiclass": "ovo", "loss": "logistic"}),
    "crammer-singer": (X3, Y3, {"multiclass": "crammer-singer", "bias": 1.0}),
    "crammer-singer, large C": (X3, Y3, {"multiclass": "crammer-singer", "C": 1e4, "tol": 1e-2}),
    "weston-watkins": (X3, Y3, {"multiclass": "weston-watkins", "bias": 1.0}),
    "weston-watkins, two classes": (X, Y, {"multiclass": "weston-watkins"}),
    "epsilon": (X, NUMBERS, {"loss": "epsilon_insensitive", "target_scale": "standard"}),
    "squared epsilon": (X, NUMBERS, {"loss": "squared_epsilon_insensitive", "target_scale": "standard"}),
    "quantile": (X, NUMBERS, {"loss": "quantile", "quantile": 0.3, "target_scale": "standard"}),
    "huber": (X, NUMBERS, {"loss": "huber", "delta": 0.7, "target_scale": "standard"}),
    "outliers": (X + 3.0, None, {"loss": "one_class", "nu": 0.2}),
    "feature map": (X, Y, {"feature_map": "rff", "gamma": 0.1, "components": 20}),
    "lambda": (X, Y, {"lambda2": 0.02}),
    "pruned": (X, Y, {"prune": 0.1}),
    "kernel": (X, Y, {"solver": "smo", "kernel": "rbf", "bias": 0.7}),
    "kernel, intercept": (X, Y, {"solver": "smo", "kernel": "rbf", "intercept": True}),
    "kernel, sparse": (sp.csr_matrix(SPARSE), SPARSE_Y, {"solver": "smo", "kernel": "poly", "gamma": 0.1}),
    "kernel, against the rest": (X3, Y3, {"solver": "smo", "kernel": "rbf", "loss": "squared_hinge"}),
    "kernel, pairs": (
        X3,
        Y3,
        {"solver": "smo", "kernel": "rbf", "multiclass": "ovo", "class_weight": {1: 3.0}},
    ),
    "kernel, least squares": (
        X,
        Y,
        {"solver": "smo", "kernel": "rbf", "loss": "least-squares", "intercept": True},
    ),
    "kernel, nesvm": (X, Y, {"solver": "nesvm", "kernel": "rbf", "bias": 0.7, "tol": 0.01}),
    "kernel, nesvm, intercept": (
        X3,
        Y3,
        {"solver": "nesvm", "kernel": "rbf", "intercept": True, "tol": 0.01},
    ),
    "matrix": (GRAM, Y, {"solver": "smo", "kernel": "precomputed", "bias": 0.7}),
    "matrix, sparse": (
        sp.csr_matrix(GRAM),
        Y,
        {"solver": "nesvm", "kernel": "precomputed", "intercept": True},
    ),
}
NEWTON = {"solver": "smsvm"}
CASES |= {
    "l1": (X, Y, {**NEWTON, "penalty": "l1", "bias": 0.7, "tol": 1e-4}),
    "l1, intercept": (X, Y, {**NEWTON, "penalty": "l1", "intercept": True, "tol": 1e-4}),
    "l1, squares": (X3, Y3, {**NEWTON, "penalty": "l1", "loss": "squared_hinge", "bias": 1.0}),
    "l1, logistic": (X, Y, {**NEWTON, "penalty": "l1", "loss": "logistic", "intercept": True}),
    "elastic net": (X3, Y3, {**NEWTON, "penalty": "elasticnet", "bias": 1.0, "class_weight": "balanced"}),
    "intercept": (X, Y, {**NEWTON, "intercept": True}),
    "intercept, squares": (
        sp.csr_matrix(SPARSE),
        SPARSE_Y,
        {**NEWTON, "intercept": True, "loss": "squared_hinge"},
    ),
    "numbers, l1": (X, NUMBERS, {**NEWTON, "loss": "huber", "penalty": "l1", "target_scale": "standard"}),
    "quantile, elastic net": (X, NUMBERS, {**NEWTON, "loss": "quantile", "penalty": "elasticnet", "C": 0.01}),
    "softmax": (X3, Y3, {"multiclass": "softmax", "loss": "logistic", "bias": 0.7}),
    "softmax, intercept": (X3, Y3, {"multiclass": "softmax", "loss": "logistic", "intercept": True}),
    "softmax, two classes": (X, Y, {"multiclass": "softmax", "loss": "logistic", "bias": 1.0}),
}
BY_SUMS = {
    "multipliers": (X, Y, {**NEWTON, "intercept": True, "C": 1e5}),
    "nesvm": (X, Y, {"solver": "nesvm", "tol": 0.01}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_dual_of_what_was_trained_holds(name, tmp_path):
    features, labels, options = CASES[name]
    solver = {} if "multiclass" in options and options["multiclass"] != "ovo" else {"solver": "llsvm"}
    options = {"threads": 1, **solver, **options}
    model = llsvm.train(features, labels, sample_weight=WEIGHTS, state=tmp_path, **options)
    found = llsvm.verify(model, features, labels, WEIGHTS, state=tmp_path)
    assert found["differences"] == []
    assert found["not_checked"] == ""
    size = max(abs(found["claimed_primal"]), abs(found["claimed_dual"]))
    assert found["dual"] == pytest.approx(found["claimed_dual"], abs=1e-6 * size)  # noise may be taken off
    assert found["dual"] >= found["claimed_dual"] - 1e-9 * size
    assert sum(each["dual"] for each in found["problems"]) == pytest.approx(found["dual"])


@pytest.mark.parametrize("name", BY_SUMS)
def test_where_a_dual_is_not_kept_by_row_it_is_said(name, tmp_path):
    features, labels, options = BY_SUMS[name]
    model = llsvm.train(features, labels, threads=1, state=tmp_path, **options)
    found = llsvm.verify(model, features, labels, state=tmp_path)
    assert found["differences"] == []
    assert found["dual"] is None
    assert "as sums over rows" in found["not_checked"]
    assert model.extra["solver"] in found["not_checked"]


@pytest.mark.parametrize("more", [{"solver": "llsvm"}, {"multiclass": "crammer-singer"}])
def test_dual_variables_kept_out_of_core_prove_it_too(more, tmp_path, monkeypatch):
    """As 32-bit floats, in a row state."""
    small_pages(monkeypatch)
    case = Case(more, ledger=140_000, n=900, d=8, classes=3, noise=1.0)
    data = case.write(tmp_path / "a.svm")
    training = go(case, data, tmp_path / "m", tmp_path / "S")
    assert not training.stream.in_one_block
    with Container.open(tmp_path / "S" / RESULT) as result:
        assert result.parts[SHARES].dtype == "<f4"
    found = llsvm.verify(tmp_path / "m", str(data), state=tmp_path / "S")
    assert found["differences"] == []
    assert found["dual"] is not None


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A file of three classes, the model of it, and its state."""
    folder = tmp_path_factory.mktemp("verify")
    data = write_svmlight(folder / "a.svm", X3, Y3)
    llsvm.train(str(data), output=folder / "m", bias=1.0, threads=1, state=folder / "S")
    return data, folder / "m", folder / "S"


def set_to(row, value):
    def change(shares):
        shares[row, 1] = value
        return shares

    return change


def swapped(shares):
    i, j = 0, int(np.flatnonzero(np.abs(shares - shares[0]).sum(axis=1) > 0.1)[0])
    shares[[i, j]] = shares[[j, i]]
    return shares


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_to(17, 1.001), "1 rows have dual variables outside their bounds.*that of row 18 is 1.001 C"),
        (set_to(5, -1e-6), "1 rows have dual variables outside their bounds.*that of row 6 is -1e-06 C"),
        (set_to(5, np.nan), "outside their bounds.*row 6 is nan C"),
        (swapped, "the dual of . is .*, and the model says"),
        (lambda shares: 0.999 * shares, "the dual of 0 is .*, and the model says"),
        (lambda shares: shares[:, ::-1].copy(), "the dual of 0 is .*, and the model says"),
        (lambda shares: shares[:-1], "of 89 rows, 3 of each, and the data and the model make 90 rows, 3"),
    ],
)
def test_changed_dual_variables_are_refused(trained, tmp_path, change, said):
    state = with_shares(trained[2], tmp_path / "S", change)
    found = llsvm.verify(trained[1], str(trained[0]), state=state)
    assert not found["holds"]
    assert len(found["differences"]) >= 1
    assert llsvm.verify(trained[1], str(trained[0]))["holds"]  # which does not look at them
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(" ".join(found["differences"]))


@pytest.mark.parametrize(
    ("case", "change", "said"),
    [
        (
            "crammer-singer",
            lambda shares: np.where(shares > 0, 0.6, 0.55),
            "outside their bounds",
        ),  # as a sum
        ("weston-watkins", lambda shares: np.where(shares > 0, 1.001, shares), "outside their bounds"),
        ("weston-watkins", lambda shares: shares + 1e-3, "outside their bounds"),  # of their own class too
        ("squared hinge, sparse", lambda shares: shares - 1e-6, "outside their bounds"),
        (
            "squared hinge, sparse",
            lambda shares: np.where(shares > 0, np.inf, shares),
            "outside their bounds",
        ),
        ("huber", lambda shares: np.where(shares == shares.max(), 0.701, shares), "outside their bounds"),
        ("quantile", lambda shares: np.where(shares == shares.min(), -0.701, shares), "outside their bounds"),
        ("logistic, class weights", lambda shares: shares[::-1].copy(), "the dual is"),
        ("epsilon", lambda shares: -shares, "the dual is"),
    ],
)
def test_so_they_are_whatever_the_loss(case, change, said, tmp_path):
    features, labels, options = CASES[case]
    solver = {} if "multiclass" in options else {"solver": "llsvm"}
    model = llsvm.train(features, labels, threads=1, state=tmp_path / "S", **solver, **options)
    state = with_shares(tmp_path / "S", tmp_path / "T", change)
    found = llsvm.verify(model, features, labels, state=state)
    assert said in " ".join(found["differences"])


def one_more(shares):
    """Some dual variable that is inside its bounds is there still, and others do not follow."""
    shares[int(np.argmin(np.abs(shares[:, 0] - 0.5))), 0] += 0.01
    return shares


@pytest.mark.parametrize("solver", ["smo", "nesvm"])
def test_of_kernels_nothing_else_passes(solver, tmp_path):
    options = {"kernel": "rbf", "intercept": True, "solver": solver, "tol": 0.1}
    model = llsvm.train(X, Y, threads=1, state=tmp_path / "S", **options)

    def said(model=model, state="S"):
        return " ".join(llsvm.verify(model, X, Y, state=tmp_path / state)["differences"])

    assert said() == ""
    for number, (change, words) in enumerate(
        [
            (one_more, "do not sum to 0"),
            (lambda shares: np.where(shares == shares.max(), 1.001, shares), "outside their bounds"),
            (lambda shares: np.where(shares == shares.min(), -1e-6, shares), "outside their bounds"),
            (lambda shares: 0.9 * shares, "the dual is"),
            (swapped_of_a_class, "the dual is"),
        ]
    ):
        with_shares(tmp_path / "S", tmp_path / str(number), change)
        assert words in said(state=str(number))
    coef = model.coef_.copy()
    coef[0, np.argmax(np.abs(coef))] *= 1.0 + 1e-4
    assert "the primal is" in said(replace(model, coef_=coef))
    assert "the state is of -C 1.0" in said(replace(model, settings=model.settings | {"C": 1.0001}))
    claim = model.certificate
    dual = (0.5 * (claim.primal[0] + claim.dual[0]),)
    assert "the dual is" in said(replace(model, certificate=replace(claim, dual=dual)))


@pytest.mark.parametrize(
    "case", ["l1, intercept", "l1, logistic", "elastic net", "intercept", "softmax, intercept"]
)
def test_of_points_at_weights_nothing_else_passes(case, tmp_path):
    features, labels, options = CASES[case]
    model = llsvm.train(features, labels, threads=1, state=tmp_path / "S", **options)
    claim = model.certificate
    assert claim.relative_gap > 1e-6

    def said(model, state="S"):
        return " ".join(llsvm.verify(model, features, labels, state=tmp_path / state)["differences"])

    assert said(model) == ""
    coef = model.coef_.copy()
    coef[0, np.argmax(np.abs(coef[0]))] *= 1.0 + 1e-4
    assert "the primal" in said(replace(model, coef_=coef))
    assert "the state is of -C 1.0" in said(replace(model, settings=model.settings | {"C": 1.0001}))
    worst = int(np.argmax(claim.gaps))
    dual = list(claim.dual)
    dual[worst] = 0.5 * (claim.primal[worst] + dual[worst])
    assert said(replace(model, certificate=replace(claim, dual=tuple(dual)))).startswith("the dual")
    other = labels.copy()
    i, j = np.flatnonzero(labels == labels[0])[0], np.flatnonzero(labels != labels[0])[0]
    other[[i, j]] = other[[j, i]]
    assert not llsvm.verify(model, features, other, state=tmp_path / "S")["holds"]


def test_points_at_weights_that_are_smoothed_otherwise_are_refused(tmp_path):
    options = {**NEWTON, "penalty": "l1", "threads": 1}
    model = llsvm.train(X, Y, state=tmp_path / "S", **options)
    for smoothing, words in (([0.5], "the dual is"), ([0.0], "the dual is")):
        shutil.copytree(tmp_path / "S", tmp_path / "T", dirs_exist_ok=True)
        with Container.open(tmp_path / "S" / RESULT) as result:
            writer = ContainerWriter(tmp_path / "T" / RESULT)
            for name, part in result.parts.items():
                array = result.array(name)
                writer.add(name, np.dtype(part.dtype), array.shape, [array])
            assert result.about[AT_WEIGHTS][0] > 0
            writer.end({**result.about, AT_WEIGHTS: smoothing})
            writer.close()
        assert words in " ".join(llsvm.verify(model, X, Y, state=tmp_path / "T")["differences"])


def test_of_weights_that_were_pruned_it_is_said(tmp_path):
    model = llsvm.train(X, Y, **NEWTON, prune=0.1, state=tmp_path)
    found = llsvm.verify(model, X, Y, state=tmp_path)
    assert found["holds"]
    assert "before --prune" in found["not_checked"]


def swapped_of_a_class(shares):
    own = np.flatnonzero(Y[0] == Y)
    i, j = own[np.argmin(shares[own, 0])], own[np.argmax(shares[own, 0])]
    shares[[i, j]] = shares[[j, i]]
    return shares


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.8])
def test_of_one_class_they_are_brought_to_their_sum(factor, tmp_path):
    """Along the segment to 0 or to C."""
    rows_, nu = (X + 3.0).astype(np.float32), 0.4
    model = llsvm.train(rows_, loss="one_class", nu=nu, threads=1, state=tmp_path / "S")
    kept = {}

    def change(shares):
        kept["alpha"] = np.minimum(factor * shares, 1.0)
        return kept["alpha"]

    state = with_shares(tmp_path / "S", tmp_path / "T", change)
    found = llsvm.verify(model, rows_, state=state)
    alpha = kept["alpha"].ravel().astype(np.float64)
    total, n = nu * len(rows_), len(rows_)
    if alpha.sum() >= total:
        alpha *= total / alpha.sum()
    else:
        theta = (total - alpha.sum()) / (n - alpha.sum())
        alpha = (1.0 - theta) * alpha + theta
    v = alpha @ rows_.astype(np.float64)
    assert found["dual"] == pytest.approx(-0.5 * v @ v, rel=1e-9)
    assert found["holds"] == (factor == 1.0)


@pytest.mark.parametrize("problem", range(3))
@pytest.mark.filterwarnings("ignore:not converged")
def test_a_claim_of_half_the_gap_is_refused(trained, tmp_path, problem):
    model = llsvm.train(str(trained[0]), solver="llsvm", paper=True, threads=1, state=tmp_path)
    claim = model.certificate
    assert claim.relative_gap > 1e-3
    dual = list(claim.dual)
    dual[problem] = 0.5 * (claim.primal[problem] + claim.dual[problem])
    better = replace(model, certificate=replace(claim, dual=tuple(dual)))
    assert llsvm.verify(better, str(trained[0]))["holds"]  # as the primal does
    found = llsvm.verify(better, str(trained[0]), state=tmp_path)
    assert [each[: each.index(" is ")] for each in found["differences"]] == [f"the dual of {problem}"]
    assert found["relative_gap"] == pytest.approx(claim.relative_gap, rel=1e-3)


def test_other_weights_and_another_C_are_refused(trained):
    model = Model.load(trained[1])
    coef = model.coef_.copy()
    coef[1, 2] *= 1.0 + 1e-4
    for other in (replace(model, coef_=coef), replace(model, settings=model.settings | {"C": 1.0001})):
        assert not llsvm.verify(other, str(trained[0]), state=trained[2])["holds"]
    other = replace(model, settings=model.settings | {"C": 2.0})
    found = llsvm.verify(other, str(trained[0]), state=trained[2])
    assert found["differences"][0] == "the state is of -C 1.0, and the model of 2.0"


def test_rows_of_arrays_that_changed_places_are_refused(tmp_path):
    """Which their primal, a sum over rows, cannot tell."""
    model = llsvm.train(X, Y, state=tmp_path)
    order = np.arange(len(X))
    i, j = int(np.flatnonzero(Y[0] != Y)[0]), 0
    order[[i, j]] = order[[j, i]]
    assert llsvm.verify(model, X[order], Y[order])["holds"]
    assert not llsvm.verify(model, X[order], Y[order], state=tmp_path)["holds"]


def test_a_state_of_another_training_or_of_none_is_refused(trained, tmp_path):
    llsvm.train(X3, Y3, C=3.0, state=tmp_path / "S")
    found = llsvm.verify(trained[1], str(trained[0]), state=tmp_path / "S")
    assert any("-C 3.0, and the model of 1.0" in each for each in found["differences"])
    with pytest.raises(UsageError, match="no run has come to its end with this state"):
        llsvm.verify(trained[1], str(trained[0]), state=tmp_path / "nothing")
    (tmp_path / "S" / RESULT).write_bytes((tmp_path / "S" / RESULT).read_bytes()[:-1])
    with pytest.raises(DataError, match="the state is damaged"):
        llsvm.verify(trained[1], str(trained[0]), state=tmp_path / "S")


def test_the_command_line(trained):
    data, model, state = map(str, trained)
    done = CliRunner().invoke(app, ["verify", model, data, "--state", state])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("holds\n")


RAW = {
    "rbf": (1e5, 0.0, {"kernel": "rbf"}),
    "kernel": (1e5, 0.0, {"kernel": "linear", "loss": "squared_hinge"}),
    "linear": (1.0, 1e9, {"solver": "llsvm"}),
}


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize("name", RAW)
def test_the_dual_of_a_run_that_ends_at_rounding_is_kept_by_row(name, tmp_path):
    factor, shift, options = RAW[name]
    rng = np.random.default_rng(0)
    features = rng.random((120, 2))
    labels = (features[:, 0] + 0.2 * rng.random(120) > 0.6).astype(int)
    features = factor * features + shift
    np.savetxt(tmp_path / "rows.csv", np.c_[labels, features], delimiter=",", header="y,a,b", comments="")
    data, state = str(tmp_path / "rows.csv"), tmp_path / "state"
    model = llsvm.train(data, label="y", state=state, scale="none", tol=1e-3, max_passes=200, **options)
    assert not model.converged
    assert model.certificate.passes < 200
    found = llsvm.verify(model, data, state=state)
    assert found["differences"] == []
    assert found["not_checked"] == ""


STRANGE = [
    {},
    {"record": 1},
    {"record": {"settings": {}, "data": 5}},
    {LARGEST_COST: "x"},
    {AT_WEIGHTS: [[], 1]},
]


@pytest.mark.parametrize("about", STRANGE)
@pytest.mark.parametrize("shares", [np.zeros((3, 1)), np.zeros(3), np.zeros((3, 1), "U3")])
def test_what_a_state_of_strangers_says_is_looked_at(tmp_path, about, shares):
    whole = {"record": {"settings": {}, "data": {}}, AT_WEIGHTS: None, LARGEST_COST: None}
    writer = ContainerWriter(tmp_path / RESULT)
    writer.add(SHARES, shares.dtype, shares.shape, [shares])
    writer.end(whole | about if about else about)
    writer.close()
    with pytest.raises(DataError, match="is not what llsvm writes"):
        KeptDual(tmp_path)
