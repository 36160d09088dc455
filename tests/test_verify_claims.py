"""What ``verify`` says of a claim: how far figures may be off, and the sentences of what differs."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import rows, write_svmlight

import llsvm
from llsvm import BudgetError, Model, ModelError
from llsvm.models.header import PRUNED
from llsvm.objective.certificate import Certificate
from llsvm.settings.settings import Settings
from llsvm.verification import rows as rows_module
from llsvm.verification.claim import (
    Measured,
    agree,
    dual_differences,
    gap_differences,
    gap_of,
    primal_differences,
)
from llsvm.verification.dual import FoundDual

X, Y = rows(n=60, d=4, noise=0.6)


@pytest.mark.parametrize("value", [3.0, -3.0])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_figures_agree_to_1e_9_of_them(value, side):
    assert agree(value * (1.0 + side * 0.99e-9), value, 0.0)
    assert not agree(value * (1.0 + side * 1.01e-9), value, 0.0)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_where_they_are_near_0_to_1e_15_of_their_terms(side):
    assert agree(side * 0.99e-15 * 7.0, 0.0, 7.0)
    assert not agree(side * 1.01e-15 * 7.0, 0.0, 7.0)
    assert agree(3.0 + side * 2.9e-9, 3.0, 1.0)
    assert agree(0.0, 0.0, 0.0)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_agrees_with_nothing(value):
    assert not agree(1.0, value, 1.0)


def found(primal, names=None, size=0.0, dual=None):
    names = names or [str(c) for c in range(len(primal))]
    nothing = np.zeros(len(primal))
    return Measured(names, np.array(primal), np.full(len(primal), size), nothing, dual)


class Point(FoundDual):
    """A dual point whose figures are given."""

    def __init__(self, values, size=0.0):
        super().__init__(len(values))
        self.values, self.sizes = np.array(values), np.full(len(values), size)

    def add(self, block, scores):
        raise NotImplementedError

    def finish(self, stream):
        raise NotImplementedError


def test_of_each_primal_it_is_said_by_how_much_it_is_off():
    claim = Certificate((2.0, 2.5, 1.0, 3.0), (0.0, 0.0, 0.0, 0.0), 1)
    said = primal_differences(claim, found([2.0, 2.0, 0.0, 4.0], ["a", "b", "c", "d"]))
    assert said == [
        "the primal of b is 2, and the model says 2.5 (0.25 of it off)",
        "the primal of c is 0, and the model says 1 (1e+300 of it off)",
        "the primal of d is 4, and the model says 3 (0.25 of it off)",
    ]
    said = primal_differences(Certificate((-1.5,), (-3.0,), 1), found([-2.0]))
    assert said == ["the primal is -2, and the model says -1.5 (0.25 of it off)"]
    assert primal_differences(claim, found([1.0])) == [
        "the certificate is of 4 problems, and the data make 1"
    ]
    assert primal_differences(Certificate((1e-15,), (0.0,), 1), found([0.0], size=1.1)) == []


def test_of_each_dual_it_is_said_where_it_is_less():
    claim = Certificate((2.0, 2.0, 2.0), (1.0, 1.0, 1.0), 1)
    names, point = ["a", "b", "c"], Point([1.0 - 0.99e-9, 1.5, 1.0 - 1.01e-9])
    assert dual_differences(claim, found([2.0] * 3, names)) == []
    said = dual_differences(claim, found([2.0] * 3, names, dual=point))
    assert said == ["the dual of c is 0.99999999899, and the model says 1"]
    assert dual_differences(replace(claim, dual=(1.0, 1.0, 0.5)), found([2.0] * 3, names, dual=point)) == []
    point.unbalanced[1] = True
    said = dual_differences(claim, found([2.0] * 3, names, dual=point))
    assert [each[:34] for each in said] == [
        "the dual variables of b times thei",
        "the dual of c is 0.99999999899, an",
    ]
    point.infeasible, point.first = 2, "that of row 3 is 4 C"
    assert dual_differences(claim, found([2.0] * 3, names, dual=point)) == [
        "2 rows have dual variables outside their bounds, so that their dual proves nothing (that of row 3 is 4 C)"
    ]
    one = Certificate((2.0,), (1.0,), 1)
    assert dual_differences(one, found([2.0], dual=Point([0.5]))) == ["the dual is 0.5, and the model says 1"]
    assert dual_differences(Certificate((1.0,), (1e-15,), 1), found([1.0], dual=Point([0.0], 1.1))) == []


def model_of(certificate, converged=True, history=(), extra=None):
    return Model(
        np.ones((len(certificate.primal), 2)),
        np.zeros(len(certificate.primal)),
        [0, 1] if len(certificate.primal) == 1 else list(range(len(certificate.primal))),
        certificate=certificate,
        converged=converged,
        history=[{"passes": number} for number in history],
        extra=extra or {},
    )


def gaps(certificate, primal, tol=0.1, **more):
    return gap_differences(model_of(certificate, **more), Settings(tol=tol), found(primal))


@pytest.mark.parametrize(("primal", "dual"), [(5.0, 5.0), (-5.0, -5.0)])
def test_a_dual_above_the_primal_is_refused(primal, dual):
    claim = Certificate((primal,), (dual,), 1)
    assert gaps(claim, [primal - 0.99e-7 * 5.0]) == []
    assert gaps(claim, [primal - 1.01e-7 * 5.0]) == [
        f"the model says that the dual is {dual:.12g}, which is above the primal"
    ]
    assert gaps(Certificate((0.0,), (0.0,), 1), [0.0]) == []
    three = Certificate((1.0, 5.0, 9.0), (1.0, 5.0, 9.0), 1)
    assert len(gaps(three, [1.0, 4.9, 9.0])) == 1


def test_a_gap_that_is_more_than_was_asked_for_is_refused():
    for off, told in ((0.99e-6, 0), (1.01e-6, 1)):
        claim = Certificate((1.0,), (1.0 - 0.1 * (1.0 + off),), 1)
        said = gaps(claim, [1.0])
        assert len(said) == told
        assert gaps(claim, [1.0], converged=False) == []
        assert gaps(claim, [1.0], extra={PRUNED: 1}) == []
    assert said == ["the model says that it has converged to 0.1, but its gap is 0.1"]


def test_passes_follow_each_other():
    claim = Certificate((1.0,), (1.0,), 1)
    assert gaps(claim, [1.0], history=(1, 1, 3)) == []
    assert gaps(claim, [1.0], history=(1, 3, 2)) == [
        "the passes of the model's history do not follow each other"
    ]


def test_the_gap_is_the_largest_relative_one():
    claim = Certificate((4.0, 2.0), (3.0, 1.0), 1)
    assert gap_of(claim, np.array([4.0, 2.0])) == 0.5
    assert gap_of(claim, np.array([8.0, 2.0])) == 0.625
    assert gap_of(claim, np.array([4.0, 2.0]), np.array([1.0, 1.5])) == 0.75
    assert gap_of(replace(claim, rounding=(0.5, 2.0)), np.array([4.0, 2.0])) == 1.5
    assert gap_of(claim, np.array([0.0, 0.0])) == 0.0  # an objective of 0 is the optimum
    below = Certificate((-1.0,), (-2.0,), 1, negligible=2.0)
    assert gap_of(below, np.array([-1.0])) == 0.0
    assert gap_of(replace(below, negligible=1.999), np.array([-1.0])) == 0.5
    assert gap_of(replace(below, negligible=1.999), np.array([0.0])) == 1.0
    assert gap_of(replace(below, rounding=(0.5,), negligible=0.0), np.array([-1.0])) == 0.75
    assert gap_of(claim, np.array([1.0, 1.0])) == 2.0  # a dual above counts too


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Files of ten rows each, a to f."""
    folder = tmp_path_factory.mktemp("parts")
    return {
        name: write_svmlight(folder / f"{name}.svm", X[10 * i : 10 * i + 10], Y[10 * i : 10 * i + 10])
        for i, name in enumerate("abcdef")
    }


def of_files(parts, trained_on, verified_on):
    """What is said of the files."""
    model = llsvm.train([str(parts[name]) for name in trained_on], threads=1)
    return llsvm.verify(model, [str(parts[name]) for name in verified_on])["differences"]


OTHERS = "the data are not those that the model was trained on: "


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("abc", "cab", None),
        ("aab", "aab", None),
        ("aab", "abb", OTHERS + "their content differs"),
        ("aa", "a", OTHERS + "their content differs"),
        ("ab", "abc", OTHERS + "c.svm is not among the files of the training"),
        ("abc", "ab", OTHERS + "c.svm is missing"),
        ("ab", "ac", OTHERS + "c.svm is not among the files of the training; b.svm is missing"),
        ("a", "abcd", OTHERS + "b.svm, c.svm, d.svm are not among the files of the training"),
        ("abcdef", "ef", OTHERS + "a.svm, b.svm, c.svm, 1 more are missing"),
        ("abcdef", "f", OTHERS + "a.svm, b.svm, c.svm, 2 more are missing"),
    ],
)
def test_of_other_files_it_is_said_which(parts, before, now, said):
    told = of_files(parts, before, now)
    assert told[0] == said if said else told == []


def test_of_files_that_changed_it_is_said_which(parts, tmp_path):
    model = llsvm.train([str(parts[name]) for name in "abcd"], threads=1)
    here = {name: tmp_path / f"{name}.svm" for name in "abcd"}
    for number, name in enumerate("abcd"):
        here[name].write_text(parts[name].read_text() + ("0 1:3.0\n" if number < 2 else ""))
    said = llsvm.verify(model, [str(here[name]) for name in "abc"])["differences"]
    assert said[0] == OTHERS + "a.svm, b.svm changed since; d.svm is missing"


def test_arrays_are_not_held_against_files(parts):
    model = llsvm.train(str(parts["a"]), threads=1)
    features, labels = X[:10], Y[:10]
    assert llsvm.verify(model, features, labels)["differences"] == []
    assert llsvm.verify(llsvm.train(features, labels, threads=1), str(parts["a"]))["differences"] == []


def test_where_a_run_was_made_is_no_difference(tmp_path):
    model = llsvm.train(X, Y, threads=1, state=tmp_path)
    elsewhere = {"memory_limit": "3GB", "threads": 7, "disk_limit": "5GB", "spill_dir": "/elsewhere"}
    elsewhere |= {"spill_format": "hdf5", "cache": "never"}
    assert elsewhere.keys() <= model.settings.keys() | {"spill_dir"}
    model = replace(model, settings=model.settings | elsewhere)
    assert llsvm.verify(model, X, Y, state=tmp_path)["differences"] == []


def test_the_dual_of_another_training_is_not_shown(tmp_path):
    options = {"solver": "smsvm", "penalty": "l1", "threads": 1}
    llsvm.train(X, Y, C=2.0, state=tmp_path, **options)
    found = llsvm.verify(llsvm.train(X, Y, **options), X, Y, state=tmp_path)
    assert found["differences"] == ["the state is of -C 2.0, and the model of 1.0"]
    assert (found["dual"], found["problems"][0]["dual"]) == (None, None)


def test_the_answer_has_all_figures_beside_the_claim(tmp_path):
    features, labels = rows(n=60, d=4, classes=3, noise=0.6)
    options = {"solver": "llsvm", "threads": 1}
    model = llsvm.train(features, labels, state=tmp_path, **options)
    claim = model.certificate
    answer = llsvm.verify(model, features, labels)
    assert list(answer) == [
        "holds",
        "differences",
        "not_checked",
        "rows",
        "primal",
        "claimed_primal",
        "dual",
        "claimed_dual",
        "relative_gap",
        "claimed_gap",
        "problems",
    ]
    assert (answer["holds"], answer["differences"], answer["rows"], answer["dual"]) == (True, [], 60, None)
    assert answer["primal"] == pytest.approx(sum(claim.primal), rel=1e-12)
    assert (answer["claimed_primal"], answer["claimed_dual"]) == (sum(claim.primal), sum(claim.dual))
    assert answer["claimed_gap"] == claim.relative_gap
    kept = llsvm.verify(model, features, labels, state=tmp_path)
    assert kept["dual"] == pytest.approx(sum(claim.dual), rel=1e-9)
    assert kept["relative_gap"] == pytest.approx(claim.relative_gap, abs=1e-9)
    for found, has_dual in ((answer, False), (kept, True)):
        assert [each["name"] for each in found["problems"]] == model.problem_names
        for number, each in enumerate(found["problems"]):
            assert list(each) == ["name", "primal", "claimed_primal", "dual", "claimed_dual"]
            assert each["primal"] == pytest.approx(claim.primal[number], rel=1e-12)
            assert (each["claimed_primal"], each["claimed_dual"]) == (
                claim.primal[number],
                claim.dual[number],
            )
            assert (each["dual"] is not None) == has_dual
            assert each["dual"] is None or each["dual"] == pytest.approx(claim.dual[number], rel=1e-9)
    other = llsvm.verify(model, features[:, :3], labels)
    assert other["differences"] == ["the data have 3 features, and the model 4"]
    assert (other["primal"], other["dual"], other["relative_gap"], other["problems"]) == (
        None,
        None,
        None,
        [],
    )


def test_with_a_state_files_and_rows_are_looked_at_too(parts, tmp_path):
    model = llsvm.train([str(parts[name]) for name in "ab"], threads=1, state=tmp_path / "S")
    here = tmp_path / "b.svm"
    here.write_text(parts["b"].read_text().replace("\n", "  \n", 1))
    said = llsvm.verify(model, [str(parts["a"]), str(here)], state=tmp_path / "S")["differences"]
    assert said == [OTHERS + "b.svm changed since"]
    said = llsvm.verify(model, [str(parts["a"]), str(parts["c"]), str(parts["d"])], state=tmp_path / "S")
    assert said["differences"][1:3] == [
        "the data have 30 rows, and the model was trained on 20",
        "the state has dual variables of 20 rows, 1 of each, and the data and the model make 30 rows, 1 of each",
    ]
    assert said["dual"] is None


def test_the_limit_is_kept(parts, tmp_path):
    llsvm.train(str(parts["a"]), threads=1, output=tmp_path / "m")
    for model in (tmp_path / "m", Model.load(tmp_path / "m")):
        with pytest.raises(BudgetError):
            llsvm.verify(model, str(parts["a"]), memory_limit="1MB")


def test_a_model_that_is_too_large_is_not_read(parts, tmp_path, monkeypatch):
    llsvm.train(str(parts["a"]), threads=1, output=tmp_path / "m")
    monkeypatch.setattr(Model, "load", None)
    with pytest.raises(BudgetError):
        llsvm.verify(tmp_path / "m", str(parts["a"]), memory_limit="1MB")


def test_rows_of_kernels_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    """With a state alone: their dual variables are summed as weights of rows."""
    model = llsvm.train(X, Y, kernel="rbf", solver="smo", threads=1, state=tmp_path)
    monkeypatch.setattr(rows_module, "kernel_sums_bytes", lambda *given: 1 << 50)
    assert llsvm.verify(model, X, Y, memory_limit="2GB")["holds"]
    with pytest.raises(BudgetError, match="rows with dual variables"):
        llsvm.verify(model, X, Y, memory_limit="2GB", state=tmp_path)


def test_what_cannot_be_verified_is_refused():
    """Without a certificate, or what was trained; settings of other versions are passed over."""
    model = llsvm.train(X, Y, threads=1)
    nameless = {name: value for name, value in model.settings.items() if name != "C"}
    for other in (replace(model, certificate=None), replace(model, settings=nameless)):
        with pytest.raises(ModelError, match="no certificate"):
            llsvm.verify(other, X, Y)
    assert llsvm.verify(replace(model, settings=model.settings | {"bygone": 1}), X, Y)["holds"]


def test_readers_have_so_many_threads(parts, monkeypatch):
    model, seen, opened = llsvm.train(str(parts["a"]), threads=2), [], rows_module.open_with_settings

    def open_with_settings(*given):
        seen.append(given[-1])
        return opened(*given)

    monkeypatch.setattr(rows_module, "open_with_settings", open_with_settings)
    monkeypatch.setattr(rows_module, "default_threads", lambda: 7)
    for threads in (3, None):
        llsvm.verify(model, str(parts["a"]), threads=threads)
    assert seen == [3, 7]


def test_how_data_are_read_may_be_told(tmp_path):
    """Which column is the label, and what the file's format is, where that has other names now."""
    lines = ["a,b,what", *(f"{x!r},{z!r},{y}" for (x, z), y in zip(X[:, :2].tolist(), Y, strict=True))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    model = llsvm.train(str(tmp_path / "a.csv"), label="what", threads=1)
    (tmp_path / "b.dat").write_text("\n".join(["a,b,that", *lines[1:]]) + "\n")
    found = llsvm.verify(model, str(tmp_path / "b.dat"), label="that", format="csv")
    assert found["primal"] == pytest.approx(found["claimed_primal"], rel=1e-9)
