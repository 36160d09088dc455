"""In expressions text that reads as numbers is taken for numbers beside numbers, and for text beside text."""

import numpy as np
import pyarrow as pa
import pytest
from cells import in_turn
from test_doors_of_tables import DOORS, ROOM, N, data_of, trained
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import DataError

AMOUNTS = [(i - 40) * 2.5 for i in range(N)]
COLUMNS = {
    "x": [i * 5.0 % 17 for i in range(N)],
    "amount": [["NA", "", "?"][i // 10 % 3] if i % 10 == 9 else f"{AMOUNTS[i]:.1f}" for i in range(N)],
    "code": [str(i % 4) for i in range(N)],
    "limit": [10.0] * N,
    "town": [["Rome", "7"][i % 2] for i in range(N)],
    "label": [i // 3 % 2 for i in range(N)],
}
THERE = np.arange(N) % 10 != 9
A, CODE = np.array(AMOUNTS), np.arange(N) % 4
NUMERIC = {
    "amount > 0": THERE & (A > 0),
    "0 <= amount < 50": THERE & (A >= 0) & (A < 50),
    "amount * 2 - 1 > 99": THERE & (A * 2 - 1 > 99),
    "-amount > 0": THERE & (A < 0),
    "amount in (2.5, 5, 7)": THERE & np.isin(A, [2.5, 5, 7]),
    "amount not in (2.5, 5, 7)": THERE & ~np.isin(A, [2.5, 5, 7]),
    "amount > limit": THERE & (A > 10),
    "amount is null": ~THERE,
    "amount is not null and code >= 2": THERE & (CODE >= 2),
}
OF_TEXT = {  # of a column that the file says is text
    'amount == "2.5"': A == 2.5,
    'amount in ("2.5", "-5.0")': np.isin(A, [2.5, -5.0]),
    'amount > 0 and amount != "2.5"': THERE & (A > 0) & (A != 2.5),
    'code == "1"': CODE == 1,
    'code < "2" and code > 0': CODE == 1,
}


@pytest.mark.parametrize(("where", "door"), in_turn({**NUMERIC, **OF_TEXT}, [*DOORS, "batches"], 3))
def test_numbers_written_as_text_are_compared(door, where, tmp_path):
    if where in OF_TEXT and door == "csv":  # which has no text that reads as numbers
        return
    data = pa.table(COLUMNS).to_batches() if door == "batches" else data_of(door, COLUMNS, tmp_path)
    wanted = int({**NUMERIC, **OF_TEXT}[where].sum())
    if wanted > 1:
        model, _ = trained(iter(data) if door == "batches" else data, where=where, features=("x",))
        assert model.n_rows == wanted
    model, _ = trained(pa.table(COLUMNS), features=("x", "code"))
    if door != "batches":
        assert llsvm.evaluate(model, data, where=where)["rows"] == wanted


@pytest.mark.parametrize("door", DOORS)
def test_labels_are_computed_of_them(door, tmp_path):
    data = data_of(door, COLUMNS, tmp_path)
    model, _ = trained(data, label="amount > 0", features=("x",), missing_label="drop")
    assert (model.n_rows, model.labels) == (int(THERE.sum()), ["false", "true"])
    assert llsvm.evaluate(model, data)["rows"] == THERE.sum()


@pytest.mark.parametrize(
    ("door", "where"), in_turn(DOORS, ["town > 5", "town == 7", "town + 1 > 2", "town in (7, 8)"], 2)
)
def test_other_text_is_refused_with_the_remedy(door, where, tmp_path):
    data = data_of(door, COLUMNS, tmp_path)
    with pytest.raises(DataError, match=r"town is .*string.*(in quotes|for numbers)"):
        llsvm.train(data, where=where, features=("x",), **ROOM)


@pytest.mark.parametrize("door", DOORS)
def test_other_text_may_be_asked_for_missing_values(door, tmp_path):
    names = [["Rome", "Oslo"][i % 2] for i in range(N)]
    data = data_of(door, {**COLUMNS, "town": names}, tmp_path)
    model, _ = trained(data, where="town is not null", features=("x", "town"))
    assert model.n_rows == N
    assert llsvm.evaluate(model, data, where="town is not null")["rows"] == N


def test_a_late_cell_that_is_no_number_is_refused_by_its_row(tmp_path):
    n = 30_000
    table = pa.table(
        {
            "x": np.arange(n) % 7,
            "amount": [str(i + 0.5) for i in range(n - 3)] + ["soon"] * 3,
            "label": [0, 1] * (n // 2),
        }
    )
    with pytest.raises(DataError, match=rf"column amount: row {n - 2}: 'soon' is not a number, as those"):
        llsvm.train(table, label="label", where="amount > 3", features=("x",), **ROOM)
    assert (
        trained(table, label="label", where='amount == "0.5" or amount == "1.5"', features=("x",))[0].n_rows
        == 2
    )


@pytest.mark.parametrize("door", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("option", ["--categorical", "--text"])
def test_they_may_be_categories_or_documents(door, option, tmp_path):
    data = data_of(door, COLUMNS, tmp_path)
    words = ["train", data, "--model", str(tmp_path / "m"), option, "code", "--features", "x,code"]
    done = CliRunner().invoke(app, [*words, "--where", "code >= 2", "--label", "label"])
    assert done.exit_code in (0, 5), done.stderr
    assert llsvm.load(tmp_path / "m").n_rows == (CODE >= 2).sum()
    assert llsvm.evaluate(llsvm.load(tmp_path / "m"), data, where="code >= 2")["rows"] == (CODE >= 2).sum()
