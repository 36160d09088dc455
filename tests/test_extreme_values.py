"""Columns far from 1, and columns whose values differ in their last digits only: the unit and the zero of a column
change neither the optimum of scaled data nor predictions, from 1e-300 to 1e300, whatever has the data."""

from __future__ import annotations

import subprocess
import sys
import warnings

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import llsvm
from llsvm.block import CSR
from llsvm.convert import convert
from llsvm.data import open_source
from llsvm.errors import CertificateError, DataError, ModelError, UsageError
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.features.scaling import ColumnStatistics, to_unit_rows
from llsvm.kernels.parse import PADDING_BYTES, parse
from llsvm.models.liblinear import write_liblinear
from llsvm.objective.rounding import keep_double

RNG = np.random.default_rng(0)
N = 200
STEPS = np.floor(16 * RNG.random(N))  # of few values: a column may differ by multiples of the last digit
OTHER = RNG.random(N)
Y = (STEPS / 16 + 0.2 * OTHER > 0.6).astype(int)
SCALED = {"scale": "standard", "bias": 1.0}


def written(folder, kind, column):
    """What ``train`` takes, its options, and the rows as ``Model.predict`` takes them."""
    X = np.c_[column, OTHER]
    frame = pd.DataFrame({"x": column, "other": OTHER})
    path = folder / f"rows.{kind}"
    if kind == "csv":
        frame.assign(y=Y).to_csv(path, index=False, float_format="%.17g")
    elif kind == "text.csv":
        frame["town"] = np.where(np.arange(N) % 2, "Rome", "Oslo")
        frame.assign(y=Y).to_csv(path, index=False, float_format="%.17g")
        return str(path), {"label": "y"}, frame
    elif kind == "parquet":
        pq.write_table(pa.table({"x": column, "other": OTHER, "y": Y}), path)
    elif kind == "npz":
        np.savez(path, X=X, y=Y)
        return str(path), SCALED, X
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, Y
        return str(path), SCALED, X
    elif kind == "svm":
        lines = (f"{y} 1:{a!r} 2:{b!r}\n" for y, (a, b) in zip(Y.tolist(), X.tolist(), strict=True))
        path.write_text("".join(lines))
        return str(path), SCALED, X
    return str(path), {"label": "y"}, frame


KINDS = ("csv", "text.csv", "parquet", "npz", "h5", "svm")


def may_lack_digits(kind, column):
    """Text of numbers that floats may not hold in full: certificates do not promise their last digits."""
    return kind in ("csv", "text.csv", "svm") and 2.0**53 <= np.abs(column).max() < 1e73


def trained(folder, kind, column):
    """Objective, optimum's lower bound, scores and the model, all of which agree with each other."""
    data, options, rows = written(folder, kind, column)
    with warnings.catch_warnings():
        if may_lack_digits(kind, column):
            warnings.simplefilter("ignore", ConvergenceWarning)
        model = llsvm.train(data, tol=1e-4, output=folder / "m", **options)
    assert model.converged or (may_lack_digits(kind, column) and model.certificate.rounding_floor > 1e-4)
    scores = model.decision_function(rows)
    predicted = np.asarray(llsvm.predict(folder / "m", data)).astype(int)
    np.testing.assert_array_equal(predicted, np.asarray(model.predict(rows)).astype(int))
    label = {"label": "y"} if "label" in options else {}
    checked = llsvm.verify(folder / "m", data, **label)
    assert checked["holds"], checked["differences"]
    certificate = model.certificate
    primal = certificate.primal[0] + sum(certificate.rounding)
    return primal, certificate.dual[0], scores, model


def agree(one, other, rel=1e-9):
    """Both certificates are of one optimum, and the scores are those of one model. rel: of the optimum, which a
    mean that is no float64 may move it by."""
    assert one[1] <= other[0] * (1 + rel)
    assert other[1] <= one[0] * (1 + rel)
    np.testing.assert_allclose(one[2], other[2], atol=0.1)
    assert np.mean((one[2] > 0) == (other[2] > 0)) > 0.98


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """By kind, of a column of whole numbers."""
    return {kind: trained(tmp_path_factory.mktemp("plain"), kind, 16 + STEPS) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [-996, -170, 170, 996])
def test_the_unit_of_a_column_changes_nothing(tmp_path, plain, kind, power):
    agree(trained(tmp_path, kind, (16 + STEPS) * 2.0**power), plain[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_differ_in_their_last_digits_are_told_apart(tmp_path, plain, kind):
    """Relative spreads of 1e-15: 2^27 and multiples of its last digit."""
    found = trained(tmp_path, kind, 2.0**27 + STEPS * 2.0**-25)
    agree(found, plain[kind], 1e-3)
    assert found[3].extra["center"][0] == pytest.approx(2.0**27)
    told = "categories of text" if kind == "text.csv" else r"column .* differ in their last digits only"
    with pytest.raises(ModelError, match=told):
        write_liblinear(found[3], tmp_path / "liblinear")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [1e16, -(2.0**600)])
def test_a_mean_that_is_no_float_is_subtracted_to_its_last_digit(tmp_path, kind, where):
    """Values of which none is between: their mean is as far from all floats as they are from it."""
    step = np.spacing(abs(where))
    found = trained(tmp_path, kind, where + step * (STEPS > 7))
    agree(found, trained(tmp_path, kind, 1.0 + (STEPS > 7)), 1e-9)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["standard", "minmax", "maxabs"])
def test_what_is_missing_becomes_a_mean_that_is_no_float(kind, sparse):
    from llsvm.block import CSR

    X = np.c_[1e16 + 2.0 * (STEPS > 7), STEPS, 1e16 + 2.0 * (STEPS > 3)]
    X[::5] = np.nan
    learned = ColumnStatistics()
    rows = CSR(np.arange(0, 3 * N + 1, 3), np.tile(np.arange(3, dtype=np.int32), N), X.copy().ravel())
    learned.add(rows if sparse else X)
    scaling = learned.scaling(kind, N, 3, is_dense=not sparse)
    scaling.apply(rows if sparse else X)
    found = (rows.data.reshape(N, 3) if sparse else X)[:, [0, 2]]
    plain = np.c_[STEPS > 7, STEPS > 3].astype(float)
    plain[::5] = np.nan
    plain = np.where(np.isnan(plain), np.nanmean(plain, axis=0), plain)
    expected = {"standard": (plain - plain.mean(axis=0)) / plain.std(axis=0), "minmax": plain, "maxabs": 1.0}
    np.testing.assert_allclose(found, np.broadcast_to(expected[kind], found.shape), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.sampled_from(KINDS), st.integers(-996, 996), st.integers(-45, 20))
@example("csv", -950, -45)
@example("csv", 133, -38)
@example("svm", 133, -45)
@example("npz", 133, -45)
def test_neither_unit_nor_zero_of_a_column_changes_anything(tmp_path_factory, plain, kind, power, step):
    """STEPS in units of 2^step beside 1, all times 2^power: scaled exactly, and shifted exactly."""
    column = (1.0 + STEPS * 2.0 ** min(step, 0)) * 2.0**power
    if power + step < -996:  # one over such a spread is hardly a number
        return
    agree(trained(tmp_path_factory.mktemp("rows"), kind, column), plain[kind], 1e-9 + 2.0 ** (-50 - step))


@settings(deadline=None, max_examples=50)
@given(st.integers(-990, 990), st.integers(-48, 0), st.sampled_from(["standard", "minmax", "maxabs"]))
def test_statistics_keep_their_digits_at_any_size(power, step, kind):
    """Against the same column scaled and shifted to small whole numbers, exactly."""
    column = (1.0 + STEPS * 2.0**step) * 2.0**power
    if power + step < -990:
        return
    learned = ColumnStatistics()
    for part in np.array_split(column[:, None], 7):
        learned.add(part)
    scaling = learned.scaling(kind, N, 1, is_dense=True)
    X = column[:, None].copy()
    scaling.apply(X)
    if kind == "maxabs":
        np.testing.assert_allclose(np.abs(X).max(), 1.0)
        return
    expected = STEPS / np.ptp(STEPS)
    if kind == "standard":
        expected = (STEPS - STEPS.mean()) / STEPS.std()
    np.testing.assert_allclose(X[:, 0], expected, atol=2.0**-53 / (2.0**step * STEPS.std()))


def test_a_column_that_grows_beyond_its_first_values():
    column = np.r_[1e-300, 2e-300, 1e300, 3e300][:, None]
    learned = ColumnStatistics()
    learned.add(column)
    scaling = learned.scaling("standard", 4, 1, is_dense=True)
    assert scaling.shift[0] == pytest.approx(1e300)
    assert 1 / scaling.scale[0] == pytest.approx(1e300 * np.std([0, 0, 1, 3]))


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_any_size_have_unit_length(size, sparse):
    from llsvm.block import CSR

    X = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]]) * size
    if sparse:
        rows = CSR(np.array([0, 2, 2, 3]), np.array([0, 1, 0], np.int32), X[X != 0])
        to_unit_rows(rows)
        np.testing.assert_allclose(rows.data, [0.6, 0.8, 1.0])
    else:
        to_unit_rows(X)
        np.testing.assert_allclose(X, [[0.6, 0.8], [0, 0], [1, 0]])


@pytest.mark.parametrize("write", ["csv", "svm"])
def test_unit_rows_of_small_values_are_not_rows_of_zeros(tmp_path, write):
    X = np.c_[STEPS / 16 - 0.5, OTHER - 0.5]
    small, plain_ = tmp_path / f"small.{write}", tmp_path / f"plain.{write}"
    for path, size in ((small, 2.0**-170), (plain_, 1.0)):
        if write == "csv":
            frame = pd.DataFrame(X * size, columns=["a", "b"]).assign(y=Y)
            frame.to_csv(path, index=False, float_format="%.17g")
        else:
            lines = (
                f"{y} 1:{a!r} 2:{b!r}\n" for y, (a, b) in zip(Y.tolist(), (X * size).tolist(), strict=True)
            )
            path.write_text("".join(lines))
    label = {"label": "y"} if write == "csv" else {}
    one, other = (llsvm.train(str(p), scale="unit-row", tol=1e-4, **label) for p in (small, plain_))
    assert one.extra["double"]
    for a, b in ((one.certificate, other.certificate), (other.certificate, one.certificate)):
        assert a.dual[0] <= b.primal[0] + sum(b.rounding)


def test_a_column_that_does_not_vary_needs_no_64_bit_floats(tmp_path):
    """0.1 is no 32-bit float, and yet rounding it takes the same off every row."""
    data, options, _ = written(tmp_path, "csv", np.full(N, 0.1))
    model = llsvm.train(data, **options)
    assert model.converged
    assert "double" not in model.extra


@pytest.mark.parametrize("to", ["svm", "h5"])
@pytest.mark.parametrize("size", [1e-50, 1e50])
def test_converted_values_are_not_flattened(tmp_path, to, size):
    data, _, _ = written(tmp_path, "csv", size * (1 + STEPS))
    convert(open_source(data, options={"label": "y"}), tmp_path / f"new.{to}")
    if to == "h5":
        with h5py.File(tmp_path / "new.h5") as file:
            np.testing.assert_allclose(file["X"][:, 0], size * (1 + STEPS))
    else:
        first = [line.split()[1] for line in (tmp_path / "new.svm").read_text().splitlines()]
        np.testing.assert_allclose([float(cell.removeprefix("1:")) for cell in first], size * (1 + STEPS))


@pytest.mark.parametrize("column", [1e-50 * (1 + STEPS), 2.0**27 + STEPS * 2.0**-25], ids=["small", "close"])
def test_the_estimator_trains_on_such_files_and_predicts_arrays(tmp_path, column):
    data, options, rows = written(tmp_path, "npz", column)
    ours = LLSVMClassifier().fit_file(data, scale=options["scale"])
    assert np.mean(ours.predict(rows) == Y) > 0.95


def test_onnx_takes_the_center_off(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from llsvm.models.onnx.export import write_onnx

    *_, scores, model = trained(tmp_path, "csv", 2.0**27 + STEPS * 2.0**-25)
    write_onnx(model, tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    X = np.c_[2.0**27 + STEPS * 2.0**-25, OTHER]
    found = session.run(["scores"], {"X": X})[0]
    np.testing.assert_allclose(found[:, 0], scores, rtol=1e-9, atol=1e-9)


def test_a_center_that_does_not_fit_is_refused(tmp_path):
    model = trained(tmp_path, "csv", 2.0**27 + STEPS * 2.0**-25)[3]
    model.extra["center"] = model.extra["center"][:1]
    model.save(tmp_path / "bad")
    with pytest.raises(ModelError, match="center"):
        llsvm.load(tmp_path / "bad")


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_what_64_bit_floats_do_not_hold_is_refused_by_name(tmp_path, scale):
    for column in (1e-310 * (1 + STEPS), np.where(STEPS > 8, 1.7e308, -1.7e308)):
        data, options, _ = written(tmp_path, "csv", column)
        with pytest.raises(
            DataError, match=r"column x: its values, from .* too little or too much to be scaled"
        ):
            llsvm.train(data, scale=scale, **options)


def test_values_too_large_without_a_scale_are_refused_by_name(tmp_path):
    data, options, rows = written(tmp_path, "csv", 1e200 * (1 + STEPS))
    with pytest.raises(DataError, match=r"column x: a value of size .*scale standard"):
        llsvm.train(data, scale="none", **options)
    with pytest.raises(DataError, match="column x: a value of size"):
        llsvm.train(rows, Y)


@pytest.mark.parametrize("feature_map", ["nystroem", "rff"])
def test_values_too_large_for_a_feature_map_are_refused_by_name(tmp_path, feature_map):
    data, options, _ = written(tmp_path, "csv", 1e200 * (1 + STEPS))
    with pytest.raises(DataError, match="column x: a value of size"):
        llsvm.train(data, feature_map=feature_map, components=10, **options)


def test_kernel_values_too_large_for_a_feature_map_are_refused():
    X = 1e100 * np.c_[STEPS, OTHER]
    with pytest.raises(DataError, match="values of the poly kernel are beyond 64-bit floats"):
        llsvm.train(X, Y, feature_map="nystroem", kernel="poly", components=10)


@pytest.mark.parametrize("options", [{"multiclass": "crammer-singer"}, {"kernel": "linear"}], ids=str)
def test_the_largest_values_are_certified_or_not_but_do_no_harm(options):
    X = 1e130 * np.c_[STEPS - 8, OTHER]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = llsvm.train(X, Y, max_passes=5, **options)
    assert llsvm.verify(model, X, Y)["differences"] == []


@pytest.mark.parametrize("size", [1e-50, 1e50])
def test_standard_input_is_refused_by_name(tmp_path, size):
    data, _, _ = written(tmp_path, "csv", size * (1 + STEPS))
    options = ["--model", str(tmp_path / "m"), "--format", "csv", "--label", "y"]
    command = [sys.executable, "-m", "llsvm", "train", "-", *options]
    with open(data, "rb") as text:
        done = subprocess.run(command, stdin=text, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "column x" in done.stderr
    with open(data, "rb") as text:  # the remedy
        again = subprocess.run(
            [*command, "--tol", "1e-6"], stdin=text, capture_output=True, text=True, check=False
        )
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("weight", [1e-300, 1e-70, 1e70, 1e300])
def test_sample_weights_beyond_what_sums_hold_are_refused(tmp_path, weight):
    weights = np.where(np.arange(N) % 2, weight, 1.0)
    with pytest.raises(DataError, match=r"row 2: a sample weight of .* multiply all of them"):
        llsvm.train(np.c_[STEPS, OTHER], Y, sample_weight=weights)
    frame = pd.DataFrame({"x": STEPS, "w": weights, "y": Y})
    frame.to_csv(tmp_path / "w.csv", index=False, float_format="%.17g")
    with pytest.raises(DataError, match=r"w\.csv: row 2: a sample weight"):
        llsvm.train(str(tmp_path / "w.csv"), label="y", weight="w")


@pytest.mark.parametrize("size", [1e-50, 1e-40, 1e39])
def test_sample_weights_beyond_32_bit_floats_count_as_they_are(size):
    X, weights = np.c_[STEPS, OTHER], 1.0 + np.arange(N) % 3
    there = llsvm.train(X, Y, sample_weight=weights)
    found = llsvm.train(X, Y, sample_weight=size * weights, C=1 / size)
    np.testing.assert_allclose(found.coef_, there.coef_, rtol=1e-6)


@pytest.mark.parametrize("C", [5e-324, 1e-300, 1e300])
@pytest.mark.parametrize("options", [{}, {"loss": "squared_hinge"}, {"solver": "smsvm"}, {"kernel": "rbf"}])
def test_costs_beyond_what_sums_hold_are_refused(C, options):
    with pytest.raises(UsageError, match="times the weight of a class"):
        llsvm.train(np.c_[STEPS, OTHER], Y, C=C, **options)


def test_targets_whose_squares_vanish_are_refused():
    with pytest.raises(DataError, match="squares are too near to 0"):
        llsvm.train(np.c_[STEPS, OTHER], STEPS * 1e-200, loss="squared_epsilon_insensitive")


def test_svmlight_values_are_read_to_the_last_digit():
    wide = np.concatenate([RNG.random(2000), 1e8 * (1 + 1e-14 * RNG.random(2000)), 1e9 * RNG.random(2000)])
    words = [*(repr(v) for v in wide.tolist()), *(f"{v:.18f}" for v in wide[:2000])]
    for size in (1e18, 1e23, 1e50, 1e-50, 1e300, 1e-300):
        words += [f"{size * v:{form}}" for v in wide[:500] for form in (".16e", ".17e", ".25e", ".40g")]
    text = "".join(f"1 1:{word}\n" for word in words).encode()
    n, padded = len(words), np.frombuffer(text + b"\0" * PADDING_BYTES, np.uint8)
    data = np.zeros(n)
    parse(padded, 0, len(text), 0, np.zeros(n + 1, np.int64), np.zeros(n, np.int32), data, np.zeros(n))
    np.testing.assert_array_equal(data, [float(word) for word in words])


# -- beyond 32-bit floats -----------------------------------------------------------------------------------------

LARGE = np.c_[STEPS, OTHER]
LARGE[3, 1] = 1e39


@pytest.mark.parametrize("kind", ["svm", "vw"])
@pytest.mark.parametrize("to", ["parquet", "h5", "svm"])
def test_values_beyond_32_bit_floats_are_converted(tmp_path, kind, to):
    lines = [f"{y} 1:{a!r} 2:{b!r}" for y, (a, b) in zip(Y, LARGE.tolist(), strict=True)]
    if kind == "vw":
        lines = [f"{2 * y - 1} | a:{a!r} b:{b!r}" for y, (a, b) in zip(Y, LARGE.tolist(), strict=True)]
    (tmp_path / f"rows.{kind}").write_text("\n".join([*lines, ""]))
    made = tmp_path / f"made.{to}"
    assert convert(open_source(tmp_path / f"rows.{kind}"), made) == N
    source = open_source(made)
    keep_double(source.info().rounding)
    found = [X.data if isinstance(X := block.X, CSR) else X for block in source.blocks(1 << 20)]
    assert max(map(np.max, found)) == pytest.approx(1e39)


@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_values_beyond_32_bit_floats_from_standard_input_have_a_remedy(tmp_path, suffix):
    rows = zip(Y, LARGE.tolist(), strict=True)
    lines = [f"{y} 1:{a!r} 2:{b!r}" if suffix == "svm" else f"{y},{a!r},{b!r}" for y, (a, b) in rows]
    text = "\n".join([*(["y,a,b"] if suffix == "csv" else []), *lines, ""])
    options = ["--format", "csv", "--label", "y"] if suffix == "csv" else []
    command = [sys.executable, "-m", "llsvm", "train", "-", "--model", str(tmp_path / "m"), *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "too large for a 32-bit float" in done.stderr
    assert "write the data to a file" in done.stderr


@pytest.mark.parametrize("solver", ["llsvm", "smsvm"])
def test_values_beyond_32_bit_floats_give_no_warnings_of_numpy(solver):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        llsvm.train(LARGE, Y, solver=solver, threads=2)
    assert [each.message for each in caught if issubclass(each.category, RuntimeWarning)] == []


def one_class_of(size, weight):
    """A model of values and weights of such sizes, and what it was trained on."""
    X, weights = (1.0 + OTHER[:60].reshape(20, 3)) * 10.0**size, np.full(20, weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        options = {"loss": "one_class", "nu": 0.2, "scale": "none", "max_passes": 8}
        return llsvm.train(X, sample_weight=weights, **options), X, weights


@pytest.mark.parametrize(("size", "weight"), [(60, 1e36), (100, 1.0), (100, 1e36), (120, 1.0)])
def test_a_threshold_whose_square_is_no_float_is_certified(size, weight):
    model, X, weights = one_class_of(size, weight)
    assert np.isfinite(model.coef_).all()
    assert llsvm.verify(model, X, sample_weight=weights)["differences"] == []


def test_an_objective_that_is_no_float_is_refused_by_name():
    with pytest.raises(CertificateError, match="values, C, or class and sample weights are too large"):
        one_class_of(120, 1e36)


@pytest.mark.parametrize("bias", [1e160, 1e-160])
def test_a_constant_feature_whose_square_is_no_float_is_refused(bias):
    with pytest.raises(UsageError, match="a number from 1e-100 to 1e100"):
        llsvm.train(np.c_[OTHER], Y, bias=bias, multiclass="crammer-singer")
