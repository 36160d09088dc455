"""Runs that begin where another has come to: with another C, with files more, grown, changed or gone."""

import gzip
import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
from cells import in_turn
from oracle import rows, small_pages, write_svmlight
from resume import Case, go

import llsvm
from llsvm.data import open_with_settings
from llsvm.errors import UsageError
from llsvm.settings.settings import Settings
from llsvm.solvers import state as state_module
from llsvm.solvers.llsvm import start as start_module
from llsvm.solvers.llsvm.duals import AllDuals
from llsvm.solvers.llsvm.sweeps import Sweeps
from llsvm.state.checkpoints import checkpoints_in
from llsvm.state.runs import KnownRows, known_rows
from llsvm.training.training import Training

X, Y = rows(n=600, d=10, noise=1.0)
X3, Y3 = rows(n=600, d=10, classes=3, noise=1.0)
NUMBERS = X @ np.arange(10.0) + np.random.default_rng(0).normal(size=600)


def run(files, state, model, **options):
    """A training over files; its first note, and the training."""
    settings = Settings(**{"threads": 1, "memory_limit": "2GB", **options})
    source = open_with_settings(settings, [str(file) for file in files], threads=1)
    with (
        checkpoints_in(state, 0.0, False) as checkpoints,
        Training(source, settings, model, checkpoints=checkpoints) as training,
    ):
        reports = list(training)
        training.updates = [each.extra.get("updates_per_row", 0.0) for each in reports if each.extra][-1:]
        training.finish(model)
        return reports[0].note, training


def parts(folder, X=X, y=Y, cuts=(0, 300, 400, 500, 600)):
    """Files of parts of the rows."""
    return [
        write_svmlight(folder / f"{number}.svm", X[i:j], y[i:j])
        for number, (i, j) in enumerate(pairwise(cuts))
    ]


def counts(note):
    found = re.search(r"([\d,]+) rows keep theirs, ([\d,]+) are new, ([\d,]+) of those before are gone", note)
    return None if found is None else [int(each.replace(",", "")) for each in found.groups()]


def certified(training, files, state, model):
    """Is the model the optimum of these files, by itself and by its dual variables?"""
    assert training.model.converged
    found = llsvm.verify(model, [str(file) for file in files], state=state)
    assert found["differences"] == []
    assert found["not_checked"] == ""
    assert found["relative_gap"] <= 1e-3
    return True


CASES = {
    "hinge": (X, Y, {"solver": "llsvm"}),
    "logistic": (X, Y, {"solver": "llsvm", "loss": "logistic"}),
    "squared hinge": (X, Y, {"solver": "llsvm", "loss": "squared_hinge", "class_weight": "balanced"}),
    "against the rest": (X3, Y3, {"solver": "llsvm"}),
    "against the rest, weights": (X3, Y3, {"solver": "llsvm", "class_weight": {"1": 3.0, "2": 0.5}}),
    "pairs": (X3, Y3, {"solver": "llsvm", "multiclass": "ovo"}),
    "crammer-singer": (X3, Y3, {"multiclass": "crammer-singer"}),
    "weston-watkins": (X3, Y3, {"multiclass": "weston-watkins"}),
    "epsilon": (X, NUMBERS, {"solver": "llsvm", "loss": "epsilon_insensitive", "epsilon": 1.0}),
    "huber": (X, NUMBERS, {"solver": "llsvm", "loss": "huber", "target_scale": "standard"}),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_known_keep_their_dual_variables(name, tmp_path):
    features, labels, options = CASES[name]
    files = parts(tmp_path, features, labels)
    state, model = tmp_path / "S", tmp_path / "m"
    run(files[:2], state, model, **options)
    note, training = run(files[:3], state, model, **options)
    assert counts(note) == [400, 100, 0]
    assert certified(training, files[:3], state, model)
    # renamed, in another order, one changed, one gone
    files[1] = files[1].rename(tmp_path / "another.svm")
    write_svmlight(files[2], features[450:550], labels[450:550])
    now = [files[3], files[2], files[1]]
    note, training = run(now, state, model, **options)
    assert counts(note) == [100, 200, 400]
    assert certified(training, now, state, model)
    note, training = run(now, state, model, C=3.0, **options)
    assert "with -C 1.0, now 3.0" in note or "with C 1.0, now 3.0" in note
    assert counts(note) is None
    assert certified(training, now, state, model)


def test_what_is_new_is_all_that_costs(tmp_path):
    features, labels = rows(n=2400, d=10, noise=1.0)  # too many values to be solved in two passes anyway
    files = parts(tmp_path, features, labels, cuts=(0, 2320, 2400))
    options = {"solver": "llsvm"}
    _, scratch = run(files, tmp_path / "A", tmp_path / "m", **options)
    run(files[:1], tmp_path / "S", tmp_path / "m", **options)
    _, training = run(files, tmp_path / "S", tmp_path / "m", **options)
    assert len(training.history) < len(scratch.history)
    assert training.updates[0] < 0.5 * scratch.updates[0]
    note, again = run(files, tmp_path / "S", tmp_path / "m", C=1.01, **options)
    assert "beginning at" in note
    assert again.updates[0] < 0.05 * scratch.updates[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_new_rows_unlike_those_before_take_no_more_passes_than_all_from_nothing(seed, tmp_path):
    old, labels = rows(n=3800, d=10, noise=1.0, seed=seed)
    new, their = rows(n=200, d=10, noise=1.0, seed=seed + 100)  # about other centres
    files = parts(tmp_path, np.r_[old, new], np.r_[labels, their], cuts=(0, 3800, 4000))
    options = {"solver": "llsvm"}
    _, scratch = run(files, tmp_path / "A", tmp_path / "m", **options)
    run(files[:1], tmp_path / "S", tmp_path / "m", **options)
    note, training = run(files, tmp_path / "S", tmp_path / "m", **options)
    assert counts(note) == [3800, 200, 0]
    assert training.history[-1]["passes"] <= scratch.history[-1]["passes"]
    assert training.updates[0] < scratch.updates[0]
    assert certified(training, files, tmp_path / "S", tmp_path / "m")


def first_measured(training):
    """How many passes were made when weights were measured first: 1 where none was made to sum them."""
    return next(each["passes"] for each in training.history if each["primal"] is not None)


@pytest.mark.parametrize("name", CASES)
def test_kept_weights_need_no_pass(name, tmp_path):
    features, labels, options = CASES[name]
    scaled = "target_scale" in options  # more targets have another mean
    files, state, model = parts(tmp_path, features, labels), tmp_path / "S", tmp_path / "m"
    _, training = run(files[:2], state, model, **options)
    _, training = run(files[:3], state, model, **options)
    balanced = options.get("class_weight") == "balanced"
    assert first_measured(training) == (2 if scaled or balanced else 1)
    assert certified(training, files[:3], state, model)
    _, training = run(files[:3], state, model, C=3.0, **options)
    assert first_measured(training) == 1
    assert certified(training, files[:3], state, model)
    _, training = run(files[1:3], state, model, C=3.0, **options)  # nobody knows what the lost rows added
    assert first_measured(training) == 2
    assert certified(training, files[1:3], state, model)


SCALED = {
    "hinge": (X, Y, {"solver": "llsvm", "bias": 0.5}),
    "logistic": (X, Y, {"solver": "llsvm", "loss": "logistic", "bias": 1.0}),
    "against the rest": (X3, Y3, {"solver": "llsvm", "bias": 1.0}),
    "pairs": (X3, Y3, {"solver": "llsvm", "multiclass": "ovo", "bias": 1.0}),
    "epsilon": (X, NUMBERS, {"solver": "llsvm", "loss": "epsilon_insensitive", "epsilon": 1.0, "bias": 1.0}),
}


@pytest.mark.parametrize(("name", "scale"), in_turn(SCALED, ["minmax", "maxabs", "standard", "unit-row"], 2))
def test_kept_weights_need_no_pass_where_scales_change(name, scale, tmp_path, monkeypatch):
    features, labels, options = SCALED[name]
    features = features + np.linspace(-1.0, 4.0, 600)[:, None] * np.arange(1.0, 11.0)
    files = parts(tmp_path, features, labels)
    run(files[:2], tmp_path / "S", tmp_path / "m", scale=scale, **options)
    ends = []
    for number in range(2):
        state = shutil.copytree(tmp_path / "S", tmp_path / f"{number}")
        if number:
            monkeypatch.setattr(
                start_module, "rescale", lambda *_: False
            )  # summed afresh, in a pass of its own
        _, training = run(files[:3], state, tmp_path / "m", scale=scale, **options)
        assert certified(training, files[:3], state, tmp_path / "m")
        ends.append((first_measured(training), training.model.certificate))
    assert [first for first, _ in ends] == [1, 2]
    assert ends[0][1].dual == pytest.approx(ends[1][1].dual, rel=1e-3)


def test_kept_weights_of_tables_need_no_pass(tmp_path):
    """Tables are scaled, and have a bias, unless settings say otherwise."""
    files = []
    for number, (i, j) in enumerate([(0, 500), (500, 600)]):
        lines = [
            f"{y},{town}," + ",".join(map(repr, (x + number).tolist()))
            for x, y, town in zip(
                X[i:j], Y[i:j], np.array(["here", "there"])[np.arange(i, j) % 2], strict=True
            )
        ]
        files.append(tmp_path / f"{number}.csv")
        files[-1].write_text("\n".join(["y,town," + ",".join("abcdefghij"), *lines]) + "\n")
    options = {"label": "y", "solver": "llsvm"}
    run(files[:1], tmp_path / "S", tmp_path / "m", **options)
    note, training = run(files, tmp_path / "S", tmp_path / "m", **options)
    assert counts(note) == [500, 100, 0]
    assert first_measured(training) == 1
    assert certified(training, files, tmp_path / "S", tmp_path / "m")


def test_a_pass_makes_kept_weights_of_other_scales_exact(tmp_path, monkeypatch):
    """No certificate rests on what 32-bit floats of the scales before have lost."""
    files = parts(tmp_path, X + 1000.0)
    options = {"solver": "llsvm", "scale": "standard", "bias": 1.0}
    off, parts_at_hand, take, of = [], [], Sweeps.take_sums, AllDuals.of

    def summed(sweeps):
        w, dual = sweeps.w.copy(), sweeps.dual.copy()
        sweeps.sum_weights(parts_at_hand[-1], 0)
        off.append(np.abs(sweeps.w - w).max())
        assert sweeps.dual == pytest.approx(dual, rel=1e-5 if len(off) == 1 else 1e-13)
        sweeps.w[...], sweeps.dual[...] = w, dual

    def checked(sweeps, sums, start):
        summed(sweeps)
        take(sweeps, sums, start)
        summed(sweeps)

    def seen(duals, block):
        parts_at_hand.append(of(duals, block))
        return duals.whole

    monkeypatch.setattr(AllDuals, "of", seen)
    monkeypatch.setattr(Sweeps, "take_sums", checked)
    run(files[:2], tmp_path / "S", tmp_path / "m", **options)
    assert off == []
    run(files[:3], tmp_path / "S", tmp_path / "m", **options)
    assert off[1] < 1e-12 < 1e-10 < off[0] < 1e-3


def test_weights_of_other_columns_or_costs_are_summed_anew(tmp_path):
    files, state, model = parts(tmp_path), tmp_path / "S", tmp_path / "m"
    options = {"solver": "llsvm", "scale": "standard"}
    run(files[:2], state, model, **options)
    _, training = run(
        files[:3], state, model, **options
    )  # another mean, and no bias that could tell what it adds
    assert first_measured(training) == 2
    _, training = run(files[:3], state, model, class_weight={"0": 2.0, "1": 1.0}, **options)
    assert first_measured(training) == 2
    assert certified(training, files[:3], state, model)


def test_weights_keep_their_columns_where_rows_bring_more(tmp_path):
    wider = np.c_[X, np.random.default_rng(5).normal(size=(600, 3))]
    for name, y, options in (("a", Y, {"solver": "llsvm"}), ("b", Y3, {"multiclass": "crammer-singer"})):
        one = write_svmlight(tmp_path / f"{name}1.svm", (X if y is Y else X3)[:400], y[:400])
        two = write_svmlight(tmp_path / f"{name}2.svm", wider[400:], y[400:])
        run([one], tmp_path / name, tmp_path / "m", bias=1.0, **options)
        _, training = run([one, two], tmp_path / name, tmp_path / "m", bias=1.0, **options)
        assert first_measured(training) == 1
        assert certified(training, [one, two], tmp_path / name, tmp_path / "m")


@pytest.mark.parametrize("settings", [{"solver": "llsvm"}, {"multiclass": "crammer-singer"}])
def test_out_of_core_too(settings, tmp_path, monkeypatch):
    small_pages(monkeypatch)
    case = Case({"scale": "none", "cache": "always", **settings}, ledger=60_000, n=450, d=8, classes=3)
    data = case.write(tmp_path / "a.svm")
    training = go(case, data, tmp_path / "m", tmp_path / "S")
    assert training.stream.place == "cache"
    training = go(case, data, tmp_path / "m", tmp_path / "S", C=2.0)
    assert first_measured(training) == 1
    assert certified(training, [data], tmp_path / "S", tmp_path / "m")


def test_rounding_does_not_pile_up_in_kept_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(state_module, "MOST_RUNS", 2)
    files, state = parts(tmp_path)[:1], tmp_path / "S"
    firsts = [
        first_measured(run(files, state, tmp_path / "m", C=C, solver="llsvm")[1])
        for C in (1.0, 1.1, 1.2, 1.3, 1.4)
    ]
    assert firsts[1:] == [1, 1, 2, 1]


def test_a_file_that_has_grown_keeps_the_rows_it_had(tmp_path):
    file = write_svmlight(tmp_path / "a.svm", X[:500], Y[:500])
    more = write_svmlight(tmp_path / "b.svm", X[500:], Y[500:])
    state, model = tmp_path / "S", tmp_path / "m"
    run([file], state, model, solver="llsvm")
    with open(file, "ab") as grown:
        grown.write(more.read_bytes())
    note, training = run([file], state, model, solver="llsvm")
    assert counts(note) == [500, 100, 0]
    assert certified(training, [file], state, model)
    text = file.read_bytes()
    file.write_bytes((b"0" if text[:1] == b"1" else b"1") + text[1:] + more.read_bytes())  # an earlier row
    with pytest.raises(UsageError, match=r"other data: .*a.svm has grown from"):
        run([file], state, model, solver="llsvm")


@pytest.mark.parametrize("ending", [b"7\n", b""])
def test_a_last_line_that_went_on_is_another_row(tmp_path, ending):
    file, more = tmp_path / "a.svm", tmp_path / "b.svm"
    text = write_svmlight(more, X[:200], Y[:200]).read_bytes().rstrip(b"\n")
    file.write_bytes(text)
    run([file], tmp_path / "S", tmp_path / "m", solver="llsvm")
    file.write_bytes(text + ending + b"\n" + text)
    if ending:
        with pytest.raises(UsageError, match="has grown"):
            run([file], tmp_path / "S", tmp_path / "m", solver="llsvm")
    else:
        note, _ = run([file], tmp_path / "S", tmp_path / "m", solver="llsvm")
        assert counts(note) == [200, 200, 0]


def test_what_is_compressed_is_not_taken_for_grown(tmp_path):
    file = tmp_path / "a.svm.gz"
    text = write_svmlight(tmp_path / "a.svm", X, Y).read_bytes()
    file.write_bytes(gzip.compress(text))
    run([file], tmp_path / "S", tmp_path / "m", solver="llsvm")
    file.write_bytes(gzip.compress(text) + gzip.compress(text))
    with pytest.raises(UsageError, match="has grown"):
        run([file], tmp_path / "S", tmp_path / "m", solver="llsvm")


def test_tables_of_several_files_too(tmp_path):
    """With a category that only the new rows have, and scales that they change."""
    files = []
    for number, (i, j) in enumerate([(0, 300), (300, 500), (500, 600)]):
        towns = np.array(["here", "there"])[Y[i:j]] if number < 2 else ["else"] * (j - i)
        lines = [
            f"{y},{town}," + ",".join(map(repr, (10.0**number * x).tolist()))
            for x, y, town in zip(X[i:j], Y[i:j], towns, strict=True)
        ]
        files.append(tmp_path / f"{number}.csv")
        files[-1].write_text("\n".join(["y,town," + ",".join("abcdefghij"), *lines]) + "\n")
    options = {"label": "y", "solver": "llsvm"}
    state, model = tmp_path / "S", tmp_path / "m"
    run(files[:2], state, model, **options)
    note, training = run(files, state, model, **options)
    assert counts(note) == [500, 100, 0]
    assert certified(training, files, state, model)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"solver": "nesvm"}, "begun anew: the run before has left no dual variables by row"),
        ({"multiclass": "softmax", "loss": "logistic"}, "begun anew: the run before has left no dual"),
    ],
)
def test_where_no_dual_variables_are_kept_it_begins_anew_and_says_so(options, said, tmp_path):
    files = parts(tmp_path, X3, Y3)
    run(files[:2], tmp_path / "S", tmp_path / "m", **options)
    note, training = run(files[:3], tmp_path / "S", tmp_path / "m", **options)
    assert note.startswith(said)
    assert training.model.converged


def test_other_labels_begin_anew(tmp_path):
    files = parts(tmp_path, X3, Y3)
    two = write_svmlight(tmp_path / "two.svm", X3[Y3 < 2], Y3[Y3 < 2])
    run([two], tmp_path / "S", tmp_path / "m", solver="llsvm")
    note, _ = run([two, *files], tmp_path / "S", tmp_path / "m", solver="llsvm")
    assert note == "begun anew: the data have other labels than those before"


def test_another_solver_begins_at_them_or_says_that_it_does_not(tmp_path):
    files = parts(tmp_path)
    run(files, tmp_path / "S", tmp_path / "m", solver="llsvm")
    note, _ = run(files, tmp_path / "S", tmp_path / "m", solver="auto", C=2.0)
    assert note.startswith("beginning at")
    note, _ = run(files, tmp_path / "S", tmp_path / "m", solver="smsvm", C=3.0)
    assert note == "begun anew: the solver has no use for dual variables of the run before"


def test_a_run_that_had_not_ended_is_begun_at_too(tmp_path, monkeypatch):
    """Out of core, where its state has them by row."""
    small_pages(monkeypatch)
    case = Case({"solver": "llsvm", "tol": 1e-5}, ledger=140_000, n=1500, d=12)
    data = case.write(tmp_path / "a.svm")
    assert go(case, data, tmp_path / "m", tmp_path / "S", stop=lambda report: report.passes == 3) is None
    training = go(case, data, tmp_path / "m", tmp_path / "S", C=0.5)
    assert training.notes[0].startswith("beginning at")
    assert "0.5" in training.notes[0]
    assert training.model.converged


def test_such_a_run_that_is_stopped_goes_on(tmp_path, monkeypatch):
    """To the same model, byte for byte, as one that was not."""
    small_pages(monkeypatch)
    case = Case({"solver": "llsvm", "tol": 1e-4}, ledger=140_000, n=1500, d=12)
    data = case.write(tmp_path / "a.svm")
    go(case, data, tmp_path / "m", tmp_path / "S")
    shutil.copytree(tmp_path / "S", tmp_path / "T")
    go(case, data, tmp_path / "undisturbed", tmp_path / "S", C=30.0)
    stop = {"stop": lambda report: report.passes == 3 and report.kind == "pass"}
    assert go(case, data, tmp_path / "m", tmp_path / "T", C=30.0, **stop) is None
    training = go(case, data, tmp_path / "m", tmp_path / "T", C=30.0)
    assert training.notes[0].startswith("going on from the state after 2 passes")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "undisturbed").read_bytes()


def files_of(*sizes, names=None):
    return [
        {
            "path": f"{name}",
            "n_bytes": 10 * size,
            "rows": size,
            "digest": f"{name} {size}",
            "parts": {"bytes": ""},
        }
        for name, size in zip(names or range(len(sizes)), sizes, strict=True)
    ]


def test_rows_are_found_by_their_files():
    before = files_of(5, 3, 4, names="abc")
    now = files_of(4, 2, 5, names="cxa")
    known = known_rows(before, now)
    assert (known.common, known.new, known.gone) == (9, 2, 3)
    want = [8, 9, 10, 11, -1, -1, 0, 1, 2, 3, 4]
    assert known.numbers(np.arange(11)).tolist() == want
    assert known.numbers(np.array([10, 4, 0])).tolist() == [4, -1, 8]
    twice = known_rows(before[:1], [before[0], before[0]])  # one of two that are the same
    assert (twice.common, twice.new, twice.gone) == (5, 5, 0)
    assert twice.numbers(np.arange(10)).tolist() == [0, 1, 2, 3, 4, *[-1] * 5]
    assert known_rows(before, [{**now[0], "rows": None}]) is None
    assert KnownRows.all(3).numbers(np.array([2, 0])).tolist() == [2, 0]
