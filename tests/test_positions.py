"""Columns that options name by position: from 0, counted over all columns of the table as it is written."""

import numpy as np
import pandas as pd
import pytest

from llsvm.errors import DataError
from llsvm.train import train

FRAME = pd.DataFrame({"a": [10, 20, 10, 20], "b": [3, 1, 2, 5], "c": ["xx", "yy"] * 2, "d": [4.5, 1, 2, 3]})
LABELS = [0, 1, 0, 1]
CASES = [
    ({"features": ("1", "3")}, ("b", "d")),
    ({"exclude": ("1",)}, ("a", "d", "c=xx", "c=yy")),
    ({"categorical": ("0",)}, ("b", "d", "a=10", "a=20", "c=xx", "c=yy")),
    ({"text": ("0",)}, ("b", "d", "a:10", "a:20", "c=xx", "c=yy")),
    ({"cross": ("0:3",)}, ("a", "b", "d", "a & d", "c=xx", "c=yy")),
    ({"exclude": ("0",), "text": ("2",), "features": ("3",)}, ("d", "c:xx", "c:yy")),
]


def names_by(options, frame, path, label):
    frame.to_csv(path, index=False)
    return sorted(train(path, label=label, tol=0.5, **options).feature_names)


@pytest.mark.parametrize(("options", "expected"), CASES)
@pytest.mark.parametrize("label", ["first", "amidst", "last"])
def test_positions_do_not_depend_on_which_column_is_the_label(tmp_path, label, options, expected):
    """A label before a column counts as any other column before it does."""
    at = {"first": 0, "amidst": 2, "last": 4}[label]
    moved = FRAME.copy()
    moved.insert(at, "label", LABELS)

    def shifted(each):
        return ":".join(str(int(i) + (int(i) >= at)) for i in each.split(":"))

    positions = {name: tuple(map(shifted, some)) for name, some in options.items()}
    assert names_by(positions, moved, tmp_path / "rows.csv", str(at)) == sorted(expected)


@pytest.mark.parametrize("option", ["features", "text"])
def test_the_position_of_the_label_is_refused_as_its_name_is(tmp_path, option):
    frame = FRAME.assign(label=LABELS)
    with pytest.raises(DataError, match=f"column label is the label, and cannot be {option} too"):
        names_by({option: ("4",)}, frame, tmp_path / "rows.csv", "label")


def test_the_label_is_kept_as_written_by_its_position_too(tmp_path):
    frame = FRAME.assign(code=["01", "1", "01", "1"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert train(tmp_path / "rows.csv", label="4", categorical=["4"]).classes_.tolist() == ["01", "1"]


@pytest.mark.parametrize("text", ["rev", "re*", "1", "-2"])
def test_csv_columns_of_documents_are_text_whatever_they_look_like(tmp_path, text):
    frame = pd.DataFrame({"label": LABELS, "rev": ["007", "12", "007", "12"], "n": [1, 2, 4, 3]})
    names = names_by({"text": (text,)}, frame, tmp_path / "rows.csv", "label")
    assert names == ["n", "rev:007", "rev:12"]


def test_positions_of_frames_whose_labels_are_apart():
    model = train(FRAME, np.array(LABELS), text=["2"], exclude=["0"], features=["last"])
    assert sorted(model.feature_names) == ["c:xx", "c:yy", "d"]
