"""The table of counted work: its rows, what is worse, and cells that are run once and left out."""

import argparse
import tomllib

import pytest

from tools.bench import counted, hard
from tools.bench.__main__ import CONFIG
from tools.bench.cells import BIG_BYTES

UPDATES = 10_000_000  # a second, at the price of an update


def cell(updates=UPDATES, cpu=1.0, exit_code=0, work=True):
    told = {"exit_code": exit_code, "cpu_seconds": cpu, "passes": 3, "gap": 1e-4}
    return told | {"work": {"updated_rows": updates} if work else None}


def test_work_is_compared_where_both_count_it():
    row = counted.row("a", cell(updates=2 * UPDATES, cpu=9.0), cell())
    assert (row["work s"], row["ratio"], row["before"]) == ("2.000", "2.00", "1.000 (work)")
    assert row["most of the work"] == "updated_rows 20,000,000 (100%)"
    assert not row["lost"]


def test_processor_time_is_compared_where_the_other_commit_does_not_count():
    row = counted.row("a", cell(cpu=3.0), cell(cpu=2.0, work=False))
    assert (row["work s"], row["ratio"], row["before"]) == ("1.000", "1.50", "2.000 (CPU)")


def test_nothing_is_compared_with_one_commit():
    row = counted.row("a", cell(), None)
    assert (row["ratio"], row["before"], row["lost"]) == ("-", "-", False)
    assert counted.summary([row]) == "1 cells, 1.0 s"


def test_the_summary_names_what_is_worse_and_what_is_lost():
    rows = [
        counted.row("same", cell(), cell()),
        counted.row("a little", cell(updates=UPDATES // 5), cell(updates=UPDATES // 10)),
        counted.row("worse", cell(updates=4 * UPDATES), cell()),
        counted.row("lost", cell(exit_code=5), cell()),
        counted.row("was lost", cell(), cell(exit_code=5)),
    ]
    lines = counted.summary(rows).splitlines()
    assert lines[0].startswith("5 cells compared: 4.1 s -> 7.2 s, 1.52 times")
    assert lines[1:] == ["- worse: worse: 4.00 times, 3.00 s more", "- certified no more: lost"]


class FakeMachine:
    def __init__(self, told):
        self.told, self.asked = told, []

    def train(self, problem, n_bytes, timeout):
        self.asked.append((problem, n_bytes, timeout))
        return self.told[problem]

    def small_limit(self, problem):
        return None


def test_a_cell_that_takes_long_is_run_once(tmp_path, capsys):
    options = argparse.Namespace(out=tmp_path, counted_seconds=5.0, against=None)
    wanted = [("q|big", "quick", "big"), ("q|small", "quick", "small"), ("s|big", "slow", "big")]
    machine = FakeMachine({"quick": cell(cpu=4.0), "slow": cell(cpu=7.0)})
    assert counted.run(machine, wanted, options) == 0
    assert machine.asked == [("quick", BIG_BYTES, 60.0), ("slow", BIG_BYTES, 60.0)]  # tiny data: one limit
    assert "s|big: left out, 7.0 s" in capsys.readouterr().out
    machine.asked.clear()
    counted.run(machine, wanted, options)
    assert [problem for problem, _, _ in machine.asked] == ["quick"]
    table = (tmp_path / "counted" / "table.md").read_text()
    assert "\n| q big | 3 |" in table


def test_a_commit_to_compare_with_needs_counted_work(capsys):
    with pytest.raises(SystemExit):
        hard.main(["--against", "HEAD"], tomllib.loads(CONFIG.read_text()))
    assert "add --counted" in capsys.readouterr().err
