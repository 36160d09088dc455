"""JSON Lines that a model is applied to, whose first lines lack keys that the model has columns of."""

import json
import re

import pytest

import llsvm
from llsvm.scoring.sources import open_for

ROWS = [
    {"ms": i % 7, "net": {"host": "ab"[i % 2], "bytes": i * 1.5}, "label": "yn"[i % 3 > 0]} for i in range(60)
]
FILL = {"fill": "x" * 40_000}  # so that 30 rows take more than the first megabyte


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m")
    return llsvm.train(write(folder / "rows.jsonl", ROWS), label="label", missing="mean", output=folder / "m")


def notes(model, data, need_label):
    source = open_for(model, data, need_label)
    for _ in source.blocks(1 << 20):
        pass
    return [text for text in source.info().notes if "no row has" in text]


@pytest.mark.filterwarnings("ignore:.*does not know the column fill")
@pytest.mark.parametrize("flat", [False, True], ids=["nested", "dotted"])
@pytest.mark.parametrize("absent", [["net", "ms"], ["net"], ["ms"]])
def test_a_key_behind_the_first_megabyte_is_as_if_null_stood_before_it(tmp_path, model, absent, flat):
    def row(i, late):
        own = dict(ROWS[i]) if i >= 30 else {key: each for key, each in ROWS[i].items() if key not in absent}
        if flat and "net" in own:
            own |= {f"net.{key}": each for key, each in own.pop("net").items()}
        nothing = {"ms": None, "net.host": None, "net.bytes": None} if flat else {"ms": None}
        nothing |= {} if flat else {"net": {"host": None, "bytes": None}}
        return FILL | own if late else nothing | FILL | own

    late = write(tmp_path / "late.jsonl", [row(i, True) for i in range(60)])
    nulls = write(tmp_path / "nulls.jsonl", [row(i, False) for i in range(60)])
    found, expected = (llsvm.evaluate(model, path) for path in (late, nulls))
    assert list(llsvm.predict(model, late)) == list(llsvm.predict(model, nulls))
    assert found == expected


@pytest.mark.parametrize("need_label", [False, True])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda row: {"latency": row["ms"], "net": row["net"]}, "column ms: it is"),
        (lambda row: {"net": row["net"]}, "column ms: it is"),
        (lambda row: {"ms": 1, "net_host": "a"}, "columns net.bytes, net.host: they are"),
        (lambda row: {"ms": 1, "net": None}, "columns net.bytes, net.host: they are"),
        (lambda row: {"ms": 1, "net": {}}, "columns net.bytes, net.host: they are"),
    ],
)
def test_columns_of_which_no_row_has_a_key_are_noted(tmp_path, model, change, named, need_label):
    path = write(tmp_path / "night.jsonl", [{**change(row), "label": row["label"]} for row in ROWS])
    (text,) = notes(model, path, need_label)
    assert f"night.jsonl: no row has the model's {named} missing in every row" in text
    other = write(tmp_path / "other.jsonl", ROWS[:2])
    assert not notes(model, [path, other], need_label)


def test_text_where_the_model_has_objects_is_refused(tmp_path, model):
    path = write(tmp_path / "night.jsonl", [{**row, "net": json.dumps(row["net"])} for row in ROWS])
    with pytest.raises(llsvm.LLSVMError, match=re.escape("column net:")):
        list(llsvm.predict(model, path))
