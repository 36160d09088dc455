"""The model: its predictions, and its file: exact, deterministic, atomic, readable for good."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from llsvm.errors import DataError, DiskError, ModelError, UsageError
from llsvm.files import writing as files
from llsvm.models import model_file
from llsvm.models.model import Model
from llsvm.models.record import label_text
from llsvm.objective.certificate import Certificate

OLD_MODEL = Path(__file__).parent / "data" / "model-v1.llsvm"


def example(k: int = 1, d: int = 5, seed: int = 0, **changes: object) -> Model:
    rng = np.random.default_rng(seed)
    values: dict = {
        "coef_": rng.standard_normal((k, d)),
        "intercept_": rng.standard_normal(k),
        "classes_": np.array([-1.0, 1.0]) if k == 1 else np.arange(k, dtype=float),
        "certificate": Certificate((3.0,), (2.5,), 4),
        "settings": {"C": 1.0, "loss": "hinge", "spill_dir": "/scratch", "class_weight": {"1": 2.0}},
        "history": [{"passes": 1, "primal": 3.0, "dual": float("nan"), "seconds": 0.25, "survivors": 7}],
        "index_base": 0,
        "converged": True,
        "n_rows": 42,
        "feature_names": tuple(f"column {j}" for j in range(d)),
        "extra": {"scale": np.arange(d, dtype=np.float32), "note": {"deep": [1, 2]}},
        "log": {"seconds": 1.5, "peak_rss_bytes": 1000},
    }
    return Model(**(values | changes))


@pytest.mark.parametrize("k", [1, 3])
def test_round_trip_keeps_everything(tmp_path, k):
    model = example(k)
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    for name in ("coef_", "intercept_", "classes_"):
        assert np.array_equal(getattr(loaded, name), getattr(model, name))
    for name in ("certificate", "settings", "index_base", "converged", "n_rows", "feature_names", "log"):
        assert getattr(loaded, name) == getattr(model, name), name
    assert loaded.history == [{**model.history[0], "dual": None}]  # JSON has no NaN
    assert np.array_equal(loaded.extra.pop("scale"), model.extra["scale"])
    assert loaded.extra == {"note": {"deep": [1, 2]}}


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats()))
@settings(max_examples=30, deadline=None)
def test_weights_survive_bit_for_bit(tmp_path_factory, coef):
    k, _ = coef.shape
    path = tmp_path_factory.mktemp("model") / "m"
    coef = coef[:1] if k == 2 else coef
    Model(coef, np.zeros(len(coef)), np.arange(max(k, 2))).save(path)
    assert Model.load(path).coef_.tobytes() == np.ascontiguousarray(coef).tobytes()


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_the_log_is_not_waited_for(tmp_path):
    os.mkfifo(model_file.log_path(tmp_path / "m"))
    example().save(tmp_path / "m")
    assert Model.load(tmp_path / "m").log == {}


def test_equal_models_give_equal_bytes_whatever_clock_place_and_layout(tmp_path):
    one = example(3)
    other = example(3, coef_=np.asfortranarray(one.coef_), log={"seconds": 99.0})
    other.history[0]["seconds"] = 77.0
    other.settings = dict(reversed(one.settings.items())) | {"spill_dir": "/elsewhere"}
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    Model.load(tmp_path / "one").save(tmp_path / "again")
    first = (tmp_path / "one").read_bytes()
    assert first == (tmp_path / "other").read_bytes()
    assert first == (tmp_path / "again").read_bytes()


def test_numpy_opens_the_file_without_pickle(tmp_path):
    model = example(3)
    model.save(tmp_path / "m")
    with np.load(tmp_path / "m", allow_pickle=False) as archive:
        assert np.array_equal(archive["coef"].T, model.coef_)
        assert json.loads(archive["header.json"])["format"] == "llsvm-model"


def test_sparse_weights_are_stored_compactly(tmp_path):
    coef = np.zeros((1, 1_000_000))
    coef[0, ::1000] = 1.25
    Model(coef, np.zeros(1), np.array([0, 1])).save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 100_000
    assert np.array_equal(Model.load(tmp_path / "m").coef_, coef)


def test_a_missing_or_foreign_log_does_no_harm(tmp_path):
    example(seed=1).save(tmp_path / "a")
    example(seed=2).save(tmp_path / "b")
    shutil.copy(model_file.log_path(tmp_path / "a"), model_file.log_path(tmp_path / "b"))
    loaded = Model.load(tmp_path / "b")
    assert loaded.log == {}
    assert "seconds" not in loaded.history[0]
    model_file.log_path(tmp_path / "a").unlink()
    assert Model.load(tmp_path / "a").log == {}


def test_a_model_file_of_the_first_version_loads():
    model = Model.load(OLD_MODEL)
    assert model.labels == ["ham", "spam"]
    assert model.coef_.tolist() == [[0.5, -1.25, 0.0]]
    assert model.intercept_.tolist() == [0.125]
    assert model.certificate == Certificate((10.0,), (9.995,), 3)
    assert model.extra["note"] == "kept"
    assert model.extra["scale"].tolist() == [1.0, 2.0, 4.0]
    assert model.predict(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])).tolist() == ["spam", "ham"]


def test_settings_of_old_models_have_the_names_of_today(tmp_path):
    path = tmp_path / "old"
    old = {"C": 2.0, "multi_class": "crammer-singer", "text": ["town"]}
    example(3, settings=old).save(path)
    assert Model.load(path).settings == {"C": 2.0, "multiclass": "crammer-singer", "categorical": ["town"]}
    both = {"categorical": ["town"], "text": ["body"]}  # a name that has come to mean something else
    example(3, settings=both).save(path)
    assert Model.load(path).settings == both


def rewrite_header(path: Path, **changes: object) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"]) | changes
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_unknown_header_fields_are_ignored(tmp_path):
    example().save(tmp_path / "m")
    rewrite_header(tmp_path / "m", mood="good")
    assert Model.load(tmp_path / "m").n_rows == 42


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format_version": 2, "version": "9.1"}, "version 2, made by llsvm 9.1.*upgrade"),
        ({"requires": ["scaling"]}, "needs scaling.*upgrade"),
        ({"format": "cake"}, "is not an llsvm model"),
        ({"settings": None}, "damaged"),
    ],
)
def test_models_we_cannot_honour_are_refused(tmp_path, changes, words):
    path = tmp_path / "m"
    example().save(path)
    rewrite_header(path, **changes)
    with pytest.raises(ModelError, match=words) as caught:
        Model.load(path)
    assert str(path) in str(caught.value)


def test_what_is_no_model_says_so(tmp_path):
    path = tmp_path / "m"
    with pytest.raises(ModelError, match="no such model file"):
        Model.load(path)
    with pytest.raises(ModelError, match="cannot be read"):
        Model.load(tmp_path)
    texts = {b"": "is not", b"1 1:2\n": "is not", b"solver_type MCSVM_CS\n": "llsvm import"}
    for content, words in texts.items():
        path.write_bytes(content)
        with pytest.raises(ModelError, match=words):
            Model.load(path)


def test_every_truncation_and_any_flipped_byte_is_noticed_or_harmless(tmp_path):
    model = example(3)
    model.save(tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    broken = tmp_path / "broken"
    for size in range(0, len(whole), 97):
        broken.write_bytes(whole[:size])
        with pytest.raises(ModelError):
            Model.load(broken)
    for place in range(0, len(whole), 37):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            loaded = Model.load(broken)
        except ModelError:
            continue
        assert np.array_equal(loaded.coef_, model.coef_)


def test_a_model_is_no_output_for_a_pipe(capfdbinary):
    with pytest.raises(UsageError, match="-: this is no output for a pipe"):
        Model(np.ones((1, 2)), np.zeros(1), np.array([0.0, 1.0])).save("-")
    assert capfdbinary.readouterr().out == b""


def test_a_failed_save_leaves_the_old_model_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "m"
    example(seed=1).save(path)
    before = path.read_bytes()
    bad = example(seed=2, extra={"thing": np.array([object()])})
    with pytest.raises(ModelError, match="Python objects"):
        bad.save(path)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(DiskError, match="No space left"):
        example(seed=2).save(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "m.log.json"]


def test_saving_where_one_cannot(tmp_path):
    for path in (tmp_path / "missing" / "m", tmp_path):
        with pytest.raises(UsageError, match=str(path)):
            example().save(path)
        with pytest.raises(UsageError, match=str(path)):
            files.require_writable(path)
    files.require_writable(tmp_path / "m")
    example().save("/dev/null")
    assert not os.path.exists("/dev/null.log.json")


def test_saving_follows_links_and_keeps_permissions(tmp_path):
    example(seed=1).save(tmp_path / "real")
    os.chmod(tmp_path / "real", 0o640)
    (tmp_path / "link").symlink_to("real")
    example(seed=2).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    assert np.array_equal(Model.load(tmp_path / "real").coef_, example(seed=2).coef_)


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_scores_of_dense_and_sparse_arrays(k, dtype):
    model = example(k)
    X = np.random.default_rng(1).integers(-3, 4, (50, 5)).astype(dtype)
    expected = X.astype(float) @ model.coef_.T + model.intercept_
    if k == 1:
        expected = expected[:, 0]
        labels = model.classes_[(expected > 0).astype(int)]
    else:
        labels = model.classes_[expected.argmax(axis=1)]
    for form in (X, X.tolist(), sparse.csr_array(X), sparse.csc_matrix(X)):
        np.testing.assert_allclose(model.decision_function(form), expected, rtol=1e-12, atol=1e-12)
        assert np.array_equal(model.predict(form), labels)
    assert model.decision_function(X[:0]).shape == expected[:0].shape


def test_arrays_that_do_not_fit():
    model = example()
    for X in (np.zeros((2, 4)), sparse.csr_array((2, 6))):
        with pytest.raises(ModelError, match="5 features"):
            model.predict(X)
    with pytest.raises(ModelError, match="no rows and columns"):
        model.predict(np.zeros(5))
    with pytest.raises(DataError, match="row 2 of X"):
        model.predict(np.array([[0.0] * 5, [np.nan] * 5]))


def test_shapes_and_classes_must_fit():
    one = np.zeros((1, 2))
    for coef, intercept, classes in (
        (one, np.zeros(1), [1]),
        (one, np.zeros(2), [0, 1]),
        (np.zeros((2, 2)), np.zeros(2), [0, 1]),
        (one, np.zeros(1), [1, 0]),
        (one, np.zeros(1), [1, 1]),
    ):
        with pytest.raises(ModelError):
            Model(coef, intercept, np.array(classes))
    with pytest.raises(ModelError, match="feature names"):
        Model(one, np.zeros(1), np.array([0, 1]), feature_names=("a",))


def test_labels_are_written_as_liblinear_writes_them():
    texts = {1.0: "1", -1.0: "-1", 0.5: "0.5", -0.0: "0", np.int8(3): "3", "a b": "a b"}
    for label, text in texts.items():
        assert label_text(label) == text
