"""Class ids handed out while it is still unknown which labels will come."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import llsvm
from llsvm.errors import DataError, LLSVMWarning, ModelError, UsageError
from llsvm.features.labels import LabelEncoder


@given(st.lists(st.lists(st.integers(-3, 9), min_size=1, max_size=20), min_size=1, max_size=6))
def test_ids_of_parts_are_positions_in_the_end(parts):
    encoder, ids = LabelEncoder(), []
    for part in parts:
        ids.append(encoder.encode(np.array(part, float)))
    everything = np.concatenate([np.array(part, float) for part in parts])
    classes, positions, counts = np.unique(everything, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(encoder.classes, classes)
    np.testing.assert_array_equal(encoder.rank[np.concatenate(ids)], positions)
    np.testing.assert_array_equal(encoder.final(everything), positions)
    by_class = np.empty(len(classes), int)
    by_class[encoder.rank] = encoder.counts
    np.testing.assert_array_equal(by_class, counts)


@pytest.mark.parametrize("labels", [["b", "a", "longer"], [True, False], [3, -1], ["1", "10", "9"]])
@pytest.mark.parametrize("dtype", [None, object])
def test_kinds_of_labels(labels, dtype):
    encoder = LabelEncoder()
    y = np.array(labels, dtype)
    ids = np.concatenate([encoder.encode(y[:1]), encoder.encode(y)])
    assert ids.dtype == np.int32
    classes = encoder.classes[encoder.rank[ids]]
    assert [str(label) for label in classes] == [str(label) for label in [labels[0], *labels]]


def test_a_label_that_was_not_there_before():
    encoder = LabelEncoder()
    encoder.encode(np.array([1.0, 2.0]))
    with pytest.raises(DataError, match="the data changed between two readings"):
        encoder.final(np.array([1.0, 3.0]))


def test_regression_targets_are_refused():
    with pytest.raises(DataError, match="look like regression targets"):
        LabelEncoder().encode(np.linspace(0, 1, 200))
    LabelEncoder().encode(np.arange(200.0))


@pytest.mark.filterwarnings("error")
def test_labels_of_half_precision_are_compared_as_float64():
    encoder = LabelEncoder()
    encoder.encode(np.array([0, 1], np.float16))
    assert encoder.classes.tolist() == [0, 1]


def test_labels_of_which_the_model_knows_none_are_told_of():
    frame = pd.DataFrame({"x": np.arange(40.0), "y": ["no", "yes"] * 20})
    model = llsvm.train(frame, label="y")
    with pytest.warns(
        LLSVMWarning, match="no row has a label that the model knows: they are .*, and it knows no, yes"
    ):
        assert llsvm.evaluate(model, frame.assign(y=frame.y == "yes"))["accuracy"] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        llsvm.evaluate(model, frame.assign(y=["no", "other"] * 20))


def test_labels_of_numpys_stringdtype_are_text():
    x = np.arange(-20.0, 20.0)[:, None]
    y = np.where(x[:, 0] > 0, "yes", "no").astype(np.dtypes.StringDType())
    model = llsvm.train(x, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert llsvm.evaluate(model, x, y)["accuracy"] > 0.9
    assert llsvm.LLSVMClassifier().fit(x, y).score(x, y) > 0.9


def test_a_weight_that_is_text_is_refused_by_its_column(tmp_path):
    frame = pd.DataFrame({"x": np.arange(40.0), "town": ["Oslo", "Lima"] * 20, "y": ["no", "yes"] * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    model = llsvm.train(frame, label="y", features=["x"])
    for data in (frame, tmp_path / "t.csv", tmp_path / "t.jsonl"):
        with pytest.raises(DataError, match=r"column town.* weight"):
            llsvm.train(data, label="y", weight="town")
        with pytest.raises(DataError, match=r"column town.* weight"):
            llsvm.evaluate(model, data, weight="town")


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint32", "bool", "float64"])
def test_predictions_have_the_type_of_the_frames_labels(dtype):
    y = np.arange(60) % 2
    frame = pd.DataFrame({"x": y + np.sin(np.arange(60)) / 9, "label": y.astype(dtype)})
    model = llsvm.train(frame, memory_limit="2GB")
    wanted = np.int64 if frame["label"].dtype.kind in "iu" else frame["label"].dtype
    assert llsvm.predict(model, frame).dtype == model.classes_.dtype == wanted
    np.testing.assert_array_equal(llsvm.predict(model, frame), frame["label"])
    assert llsvm.evaluate(model, frame)["accuracy"] == 1.0


@pytest.mark.parametrize(
    "labels",
    [["1", "2", "10"], ["1", "2.5", "many"], ["+7", "-1", "1e3"], ["0.1", "0.30", "2"], ["01", "1.50", "02"]],
)
@pytest.mark.parametrize("type_", ["int64", "float64", "category"])
def test_numbers_are_the_labels_of_a_model_of_text_that_means_them_by_every_door(labels, type_, tmp_path):
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.repeat(labels, 20)})
    model = llsvm.train(frame, label="y")
    wanted = llsvm.evaluate(model, frame)["accuracy"]
    known = frame[frame.y != "many"]
    numbers = known.assign(y=known.y.astype(float).astype("float64" if "." in labels[1] else type_))
    files = [tmp_path / f"rows.{suffix}" for suffix in ("parquet", "csv", "jsonl")]
    numbers.to_parquet(files[0])
    numbers.to_csv(files[1], index=False)
    numbers.to_json(files[2], orient="records", lines=True)
    if labels[2] == "many":
        wanted = llsvm.evaluate(model, known)["accuracy"]
    frames = numbers, pl.from_pandas(numbers), pl.from_pandas(numbers).lazy(), [numbers]
    for data in (*frames, *files):
        assert llsvm.evaluate(model, data)["accuracy"] == wanted > 0.5
    assert llsvm.evaluate(model, numbers[["x"]], np.asarray(numbers.y))["accuracy"] == wanted


def test_numbers_are_the_labels_of_a_model_of_codes():
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.repeat(["001", "002", "010"], 20)})
    model = llsvm.train(frame, label="y")
    answers = [
        llsvm.evaluate(model, each)["accuracy"] for each in (frame, frame.assign(y=frame.y.astype(int)))
    ]
    assert answers[0] == answers[1] > 0.5


def test_numbers_are_no_labels_of_a_model_of_text_that_means_others():
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.repeat(["1", "01", "2"], 20)})
    model = llsvm.train(frame[["x"]], frame.y)  # labels apart are as they are
    with pytest.raises(ModelError, match=r"the model's labels are text \('01'\), the data's numbers"):
        llsvm.evaluate(model, frame[["x"]], np.ones(60))


@pytest.mark.parametrize("later", [[0, 1] * 20, [False, True] * 20], ids=["numbers", "truth values"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", ""])
def test_labels_of_a_later_file_that_are_no_text_as_the_first_ones_are(later, suffix, tmp_path):
    """They would be classes of their own: yes and no on Monday, 1 and 0 from Tuesday on."""
    frames = [pd.DataFrame({"x": np.arange(40.0), "y": labels}) for labels in (["no", "yes"] * 20, later)]
    data = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for frame, path in zip(frames, data, strict=True):
        if suffix == "csv":
            frame.to_csv(path, index=False)
        elif suffix:
            frame.to_parquet(path)
    there = rf"text in .*a\.{suffix}" if suffix else "text before"
    data = data if suffix else [pa.Table.from_pandas(each) for each in frames]
    with pytest.raises(
        DataError, match=rf"column y: the labels are numbers, but {there}; .*\(categorical y\)"
    ):
        llsvm.train(data, label="y")
    assert len(llsvm.train(data, label="y", categorical=["y"]).classes_) == 4


def test_a_later_file_whose_labels_are_all_missing_is_of_any_kind(tmp_path):
    for name, labels in (("a", ["no", "yes"] * 20), ("b", [np.nan] * 40)):
        pd.DataFrame({"x": np.arange(40.0), "y": labels}).to_parquet(tmp_path / f"{name}.parquet")
    model = llsvm.train(tmp_path / "*.parquet", label="y", missing_label="drop")
    assert list(model.classes_) == ["no", "yes"]


def test_one_class_of_labels_that_spell_the_same_value_says_so():
    frame = pd.DataFrame({"code": ["01", "1"] * 3, "x": range(6)})
    with pytest.raises(
        DataError, match=r"'01' and '1' spell the same value: they are one .*categorical code keeps"
    ):
        llsvm.train(frame, label="code")
    assert list(llsvm.train(frame, label="code", categorical=["code"]).classes_) == ["01", "1"]


def test_weights_beside_a_frame_that_has_its_labels_go_into_a_column():
    frame = pd.DataFrame({"x": range(6), "y": [0, 1] * 3, "w": 1.0})
    with pytest.raises(UsageError, match=r"a column of it: .*weight NAME"):
        llsvm.train(frame, label="y", sample_weight=frame.w)
    assert llsvm.train(frame, label="y", weight="w").n_rows == 6
