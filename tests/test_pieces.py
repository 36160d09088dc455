"""The same rows in one piece and in many give the same model: files, batches, folds."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import llsvm
from llsvm.tuning import columns as fold_columns


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_folds_of_groups_do_not_depend_on_how_rows_are_cut(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=240), "g": rng.integers(0, 30, 240)})
    frame["g"] = frame.g if kind == "numbers" else "g" + frame.g.astype(str)
    frame["y"] = np.where(frame.x + rng.normal(0, 0.6, 240) > 0, "a", "b")
    for start in range(0, 240, 50):
        frame.iloc[start : start + 50].to_csv(tmp_path / f"{start:03}.csv", index=False)
    found = []
    parts_of_rows = fold_columns._parts_of_rows

    def spy(*args):  # type: ignore[no-untyped-def]
        found.append(parts_of_rows(*args))
        return found[-1]

    monkeypatch.setattr(fold_columns, "_parts_of_rows", spy)
    ways = (frame, lambda: (frame.iloc[i : i + 50] for i in range(0, 240, 50)), str(tmp_path / "*.csv"))
    for data in ways:
        llsvm.tune(data, label="y", C=[0.1, 1], folds=3, group="g")
    assert [len(set(map(tuple, found))), len(found)] == [1, 3]
