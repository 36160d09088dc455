"""The benchmark harness: its referee, readers of models, measurements and tables."""

import json
import sys
import zipfile

import numpy as np
import pytest

from tools.bench import contestants, datasets, regress, report, survivors
from tools.bench.contestants import CONTESTANTS, Job, Setup
from tools.bench.generate import generate
from tools.bench.measure import run
from tools.bench.models import READERS, Linear
from tools.bench.objective import evaluate, read_rows, survey
from tools.bench.row_losses import Objective

ROWS = "+1 1:0.5 3:-2\n-1 2:1e-1\n\n-1\n1 1:.25 2:3.5E+1 4:7\r\n-1 3:0.00000000000000000123456789012345678"


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.svm"
    path.write_text(ROWS)
    return path


def dense_rows(path, columns):
    """Brute force: Python's own float() and split()."""
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    X, y = np.zeros((len(lines), columns)), np.array([float(words[0]) for words in lines])
    for row, words in zip(X, lines, strict=True):
        for word in words[1:]:
            row[int(word.split(":")[0])] = float(word.split(":")[1])
    return X, y


def brute_force(model, X, y, C):
    total = 0.0
    for c in range(len(model.coef)):
        positive = model.classes[1] if len(model.coef) == 1 else model.classes[c]
        total += 0.5 * (model.coef[c] @ model.coef[c] + model.intercept[c] ** 2)
        for x, label in zip(X, y, strict=True):
            sign = 1 if label == positive else -1
            total += C * max(0.0, 1 - sign * (x @ model.coef[c] + model.intercept[c]))
    return total


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
def test_reads_what_float_reads(small, chunk_bytes):
    X, y = dense_rows(small, 5)
    parts = list(read_rows(small, chunk_bytes))
    assert np.concatenate([part.labels for part in parts]).tolist() == y.tolist()
    found = np.zeros_like(X)
    at = 0
    for part in parts:
        for i in range(len(part.labels)):
            span = slice(part.indptr[i], part.indptr[i + 1])
            found[at, part.indices[span]] = part.data[span]
            at += 1
    np.testing.assert_allclose(found, X, rtol=1e-15, atol=0)


@pytest.mark.parametrize("line", ["1 a:2", "1 1:x", "1 1", "a 1:2", "1 1:"])
def test_refuses_what_it_cannot_read(tmp_path, line):
    path = tmp_path / "bad.svm"
    path.write_text(f"1 1:1\n{line}\n")
    with pytest.raises(ValueError, match=f"cannot read '{line}'"):
        list(read_rows(path))


def test_survey(small):
    facts = survey(small)
    assert (facts["rows"], facts["values"], facts["columns"]) == (5, 7, 4)
    assert facts["classes"] == [-1.0, 1.0]
    assert facts["bytes"] == len(ROWS)


@pytest.mark.parametrize("classes", [(-1, 1), (0, 3, 7)])
def test_objective_is_brute_forces(tmp_path, classes):
    rng = np.random.default_rng(0)
    n, d, k = 60, 9, 1 if len(classes) == 2 else len(classes)
    lines = []
    for _ in range(n):
        columns = np.flatnonzero(rng.random(d) < 0.4) + 1
        lines.append(f"{rng.choice(classes)} " + " ".join(f"{j}:{rng.normal():.9g}" for j in columns))
    path = tmp_path / "random.svm"
    path.write_text("\n".join(lines) + "\n")
    X, y = dense_rows(path, d + 1)
    model = Linear(rng.normal(size=(k, d + 1)), rng.normal(size=k), np.array(classes, float))
    found = evaluate(model, path, Objective(0.7))
    assert found.primal == pytest.approx(brute_force(model, X, y, 0.7), rel=1e-12)
    scores = X @ model.coef.T + model.intercept
    guess = (scores[:, 0] > 0).astype(int) if k == 1 else scores.argmax(axis=1)
    assert found.accuracy == np.mean(model.classes[guess] == y)
    assert found.rows == n


def test_columns_beyond_the_model_weigh_nothing(tmp_path):
    path = tmp_path / "wide.svm"
    path.write_text("1 1:1 900:5\n-1 1:-2\n")
    model = Linear(np.array([[0.0, 2.0]]), np.zeros(1), np.array([-1.0, 1.0]))
    assert evaluate(model, path, Objective(1.0)).primal == 2.0


# -- models ------------------------------------------------------------------------------------------------------


def test_reads_llsvms_models(tmp_path):
    from llsvm.models.model import Model

    rng = np.random.default_rng(1)
    for base, classes in ((0, [-1, 1]), (1, [2, 5, 9])):
        k = 1 if len(classes) == 2 else len(classes)
        model = Model(rng.normal(size=(k, 4)), rng.normal(size=k), np.array(classes), index_base=base)
        model.save(tmp_path / "m")
        found = READERS["llsvm"](tmp_path / "m", np.array(classes))
        assert found.coef.shape == (k, 4 + base)
        assert np.array_equal(found.coef[:, base:], model.coef_)
        assert np.array_equal(found.intercept, model.intercept_)
        assert found.classes.tolist() == classes


def test_reads_llsvms_models_most_of_whose_weights_are_zero(tmp_path):
    from llsvm.models.model import Model

    rng = np.random.default_rng(1)
    weights = np.where(rng.random((3, 30_000)) < 0.01, rng.normal(size=(3, 30_000)), 0.0)
    model = Model(weights, np.zeros(3), np.arange(3), index_base=0)
    model.save(tmp_path / "m")
    assert "coef.npy" not in zipfile.ZipFile(tmp_path / "m").namelist()
    assert np.array_equal(READERS["llsvm"](tmp_path / "m", np.arange(3)).coef, weights)


@pytest.mark.parametrize("labels", ["1 -1", "-1 1"])
def test_reads_liblinears_binary_models(tmp_path, labels):
    path = tmp_path / "m"
    path.write_text(
        f"solver_type L2R_L1LOSS_SVC_DUAL\nnr_class 2\nlabel {labels}\nnr_feature 2\nbias 1\nw\n3\n4\n5\n"
    )
    found = READERS["liblinear"](path, np.array([-1, 1]))
    sign = 1 if labels == "1 -1" else -1  # LIBLINEAR's scores are positive for the label it names first
    assert found.coef.tolist() == [[0, 3 * sign, 4 * sign]]
    assert found.intercept.tolist() == [5 * sign]
    assert found.classes.tolist() == [-1, 1]


def test_reads_liblinears_models_of_more_classes(tmp_path):
    path = tmp_path / "m"
    head = "solver_type L2R_L1LOSS_SVC_DUAL\nnr_class 3\nlabel 7 2 5\nnr_feature 2\nbias -1\nw\n"
    path.write_text(head + "1 2 3 \n4 5 6 \n")
    found = READERS["liblinear"](path, np.array([2, 5, 7]))
    assert found.classes.tolist() == [2, 5, 7]
    assert found.coef.tolist() == [[0, 2, 5], [0, 3, 6], [0, 1, 4]]


def test_reads_liblinears_regressions(tmp_path):
    path = tmp_path / "m"
    path.write_text("solver_type L2R_L1LOSS_SVR_DUAL\nnr_class 2\nnr_feature 2\nbias 1\nw\n3 \n4 \n5 \n")
    found = READERS["liblinear"](path, np.array([0.5, 7.0]))
    assert (found.coef.tolist(), found.intercept.tolist(), len(found.classes)) == ([[0, 3, 4]], [5], 0)


def test_reads_vowpal_wabbits_models(tmp_path):
    path = tmp_path / "m"
    path.write_text("Version 9.0\nbits:3\n0 ngram:\n:1\nl2_state 0.5\n3:0.5 11 2\n7:-2 3 1\n")
    found = READERS["vw"](path, np.array([-1, 1]))
    assert found.coef.tolist() == [[0, 0, 0, 0.25, 0, 0, 0, -1]]


def test_reads_saved_arrays(tmp_path):
    path = tmp_path / "m"
    with open(path, "wb") as file:
        np.savez(file, coef=[[1.0, 2.0]], intercept=0.0, classes=[-1, 1])
    found = READERS["arrays"](path, np.array([-1, 1]))
    assert found.coef.tolist() == [[0, 1, 2]]
    assert found.intercept.tolist() == [0]


# -- measuring ---------------------------------------------------------------------------------------------------


def test_measures_memory_reading_and_exit_code(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(3_000_000))
    held = np.ones(20_000_000)  # this process is large: the command's peak must not know of it
    script = f"x = bytearray(50_000_000); open({str(path)!r}, 'rb').read(); print('out'); raise SystemExit(3)"
    measured = run([sys.executable, "-S", "-c", script])
    assert held.nbytes > 150e6
    assert (measured.exit_code, measured.stdout, measured.timed_out) == (3, "out\n", False)
    assert 50e6 < measured.peak_rss_bytes < 100e6
    assert measured.read_bytes is None or 3e6 <= measured.read_bytes < 6e6


def test_stops_what_takes_too_long():
    measured = run([sys.executable, "-S", "-c", "import time; time.sleep(60)"], timeout=0.3)
    assert measured.timed_out
    assert measured.exit_code == -9
    assert measured.wall_seconds < 10


def test_a_command_that_is_not_there():
    measured = run(["no-such-program-anywhere"])
    assert measured.exit_code == 127
    assert "no-such-program-anywhere" in measured.stderr


# -- contestants and data sets -------------------------------------------------------------------------------------


def dataset(path, classes=(-1.0, 1.0)):
    facts = {"rows": 5, "columns": 4, "values": 7, "bytes": 60, "classes": list(classes)}
    return datasets.Dataset("small", path, path, 1.0, facts)


def test_says_why_a_contestant_is_missing(tmp_path, monkeypatch, small):
    monkeypatch.setattr(contestants.shutil, "which", lambda program: None)
    monkeypatch.setattr(contestants.importlib.util, "find_spec", lambda name: None)
    reasons = {name: each.skip_reason(tmp_path, dataset(small)) for name, each in CONTESTANTS.items()}
    assert reasons.pop("llsvm") == ""
    assert "liblinear-tools" in reasons["liblinear"]
    assert all(reasons.values())
    assert "pip install" in reasons["vw"]
    (tmp_path / "vowpalwabbit").mkdir()
    assert CONTESTANTS["vw"].skip_reason(tmp_path, dataset(small)) == ""
    assert "two classes only" in CONTESTANTS["vw"].skip_reason(tmp_path, dataset(small, (0, 1, 2)))


def test_says_why_a_data_set_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("LLSVM_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(datasets.Missing, match="set LLSVM_DATA"):
        datasets.make("a9a", {"C": 1.0}, tmp_path)
    monkeypatch.setenv("LLSVM_DATA", str(tmp_path))
    with pytest.raises(datasets.Missing, match="not there"):
        datasets.make("sector", {"C": 1.0}, tmp_path)
    with pytest.raises(datasets.Missing, match="no data set is called"):
        datasets.make("mnisst", {}, tmp_path)
    assert not list(tmp_path.glob("*.part"))


def test_generates_and_converts(tmp_path):
    made = datasets.make("text", {"C": 2.0, "rows": 9999, "test_rows": 10}, tmp_path, rows=30)
    assert made.facts["rows"] == 30
    assert made.binary
    converted = made.in_vw_format().read_text().splitlines()
    original = made.train.read_text().splitlines()
    assert [line.replace(" | ", " ", 1) for line in converted] == [
        line.removeprefix("+") for line in original
    ]


def test_what_liblinear_says():
    said = contestants.liblinear_said(
        "optimization finished, #iter = 12\nObjective value = -3.5\nnSV = 4\n"
        "optimization finished, #iter = 300\nWARNING: reaching max number of iterations\n"
        "Objective value = -1.5\nnSV = 6\n"
    )
    assert said == {
        "passes": 300,
        "dual": 5.0,
        "support_vectors": 10,
        "note": "stopped at its cap of iterations",
    }


def test_llsvm_is_run_as_people_run_it(small, tmp_path):
    job = CONTESTANTS["llsvm"].job(dataset(small), 1e-3, Setup(tmp_path, tmp_path, 400_000_000))
    measured = run(job.command, env=job.env)
    assert measured.exit_code == 0, measured.stderr
    said = CONTESTANTS["llsvm"].said(measured.stdout, measured.stderr, job)
    assert said["history"][-1]["seconds"] > 0
    found = evaluate(READERS[job.reader](job.model, np.array([-1, 1])), small, Objective(1.0))
    answer = json.loads(measured.stdout)
    # it reads values as float32, the referee as float64
    assert answer["primal"] == pytest.approx(found.primal, rel=1e-6)
    assert answer["dual"] <= found.primal * (1 + 1e-6)


# -- tables ------------------------------------------------------------------------------------------------------


def canned_run(seconds, primal=100.05, failure="", **said):
    return {
        "wall_seconds": seconds,
        "cpu_seconds": 2 * seconds,
        "peak_rss_bytes": 50_000_000,
        "read_bytes": 7_000_000,
        "primal": None if failure else primal,
        "accuracy": None if failure else 0.875,
        "failure": failure,
        "said": said,
    }


def canned_contestant(runs, cold=None, near=True):
    return {
        "setting": 0.1,
        "setting_is": "-e",
        "came_within": near,
        "tried": runs[0],
        "cold": cold,
        "runs": runs,
    }


@pytest.fixture
def canned():
    history = [
        {"passes": p, "survivors": 40 // p, "seconds": float(p), "primal": 100.0 + 1 / p} for p in (1, 2, 3)
    ]
    ours = [canned_run(s, passes=3, relative_gap=5e-4, history=history) for s in (4.0, 2.0, 9.0)]
    result = {
        "name": "toy",
        "C": 1.0,
        "facts": {"rows": 1000, "columns": 5, "values": 3000, "classes": [-1, 1], "bytes": 10**7},
        "best_primal": 100.0,
        "memory_bytes": 400_000_000,
        "cgroup_bytes": None,
        "stop": "within",
        "contestants": {
            "liblinear": canned_contestant([canned_run(8.0)], near=False),
            "llsvm": canned_contestant(ours, cold=canned_run(12.5)),
            "sgd": canned_contestant([canned_run(1.0, failure="killed: out of memory")]),
        },
        "skipped": {"vw": "not installed"},
        "curve": {"liblinear": [{"seconds": 3.0, "primal": 101.0}, {"seconds": 8.0, "primal": 100.05}]},
    }
    machine = {"processor": "P", "cpus": 2, "memory_bytes": 8e9, "system": "S", "python": "3", "versions": {}}
    return {
        "datasets": [result],
        "missing": {"mnist": "no data"},
        "machine": machine,
        "rounds": 3,
        "date": "today",
        "command": "c",
    }


def test_table_of_medians(canned, tmp_path):
    text = report.write(canned, tmp_path)
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ") for line in text.splitlines()}
    ours = dict(zip(report.COLUMNS, rows["llsvm"], strict=True))
    assert (ours["wall s"], ours["cold s"], ours["CPU s"], ours["peak MB"]) == ("4.00", "12.50", "8.00", "50")
    assert (ours["above best"], ours["gap"], ours["passes"], ours["accuracy"]) == (
        "0.050%",
        "5.0e-04",
        "3",
        "0.8750",
    )
    assert "not within" in rows["liblinear"][-1]
    assert rows["sgd"][-1] == "killed: out of memory"
    assert "Skipped: vw: not installed." in text
    assert "Skipped data set mnist: no data." in text
    assert json.loads((tmp_path / "results.json").read_text())["rounds"] == 3


def test_plots(canned, tmp_path):
    pytest.importorskip("matplotlib")
    from tools.bench.plots import draw

    assert [path.name for path in draw(canned, tmp_path)] == ["active.png", "objective.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.glob("*.png"))


# -- regressions -------------------------------------------------------------------------------------------------


def test_counts_are_held_against_bounds(tmp_path):
    counted = regress.counts("dense", 200, 2_000_000, tmp_path)
    assert counted["passes"] >= 2
    assert counted["read_ratio"] >= 1
    assert counted["updates_per_row"] > 1
    assert regress.excesses(counted, dict(counted)) == []
    (sentence,) = regress.excesses(counted, {**counted, "passes": counted["passes"] - 1})
    assert sentence.startswith("passes is")
    with pytest.raises(KeyError):
        regress.excesses(counted, {"no such count": 1})


def test_every_contestant_has_settings():
    import tomllib

    from tools.bench.__main__ import CONFIG

    config = tomllib.loads(CONFIG.read_text())
    assert set(config["contestants"]) == set(CONTESTANTS)
    assert set(config["data"]) == set(datasets.NAMES)


def test_jobs_name_their_files(small, tmp_path):
    for name, contestant in CONTESTANTS.items():
        job = contestant.job(dataset(small), 1.0, Setup(tmp_path, tmp_path))
        assert isinstance(job, Job), name
        assert job.model.parent == tmp_path
        assert str(small.with_suffix("")) in " ".join(job.command)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "epsilon_insensitive"])
def test_rows_kept_between_passes_save_passes(tmp_path, loss):
    path = tmp_path / "text.svm"
    generate("text", path, 3000, seed=3)
    kept, none = (survivors.counts(path, loss, 1.0, 0.1, share) for share in (1.0, survivors.NONE))
    assert kept["converged"]
    assert kept["ledger_bytes"] == none["ledger_bytes"]
    assert kept["passes"] < none["passes"]
