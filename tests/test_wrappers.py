"""Sources that wrap others lose nothing of what these declare; the table in each suite says what they change."""

import ast
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import ClassVar

import pytest
from format_files import rows, write
from source_suite import PLENTY, Declaring, WrapperSuite

import llsvm
from llsvm.data import open_source
from llsvm.data.derived import ColumnsByName, LabelsOfKind, OneAgainstRest, SeveralSources
from llsvm.data.mapped import MapOptions, MappedSource
from llsvm.data.source import FILE_BYTES, Parsing, SourceInfo
from llsvm.objective.rounding import Rounding
from llsvm.settings.objective import REGRESSION

PACKAGE = Path(llsvm.__file__).parent
X, Y = rows(40)


def test_the_declaring_source_declares_every_field():
    """A field that is new in SourceInfo needs a value in Declaring, so that every wrapper is asked about it."""
    info = Declaring().info()
    for each in fields(SourceInfo):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        assert getattr(info, each.name) != default, each.name


def file_source(tmp_path, kind="svm", name="a"):
    folder = tmp_path / name
    folder.mkdir()
    return open_source(write(folder, kind, X, Y))


class TestOneAgainstRest(WrapperSuite):
    changes: ClassVar = {
        "record_batches": "they have the labels as they were",
        "class_names": "they are of its two labels",
    }

    def wrap(self, source):
        return OneAgainstRest(source, "1")

    def make_source(self, tmp_path):
        return self.wrap(file_source(tmp_path))


class TestNumbers(WrapperSuite):
    changes: ClassVar = {"label_kind": "they are numbers", "scale_targets": "as it is told"}

    def wrap(self, source):
        return LabelsOfKind(source, REGRESSION)

    def make_source(self, tmp_path):
        return self.wrap(file_source(tmp_path))


class TestColumnsByName(WrapperSuite):
    changes: ClassVar = {
        "n_features": "columns are left out",
        "feature_names": "they are those asked for, in that order",
    }

    def wrap(self, source):
        return ColumnsByName(source, ("width",))

    def make_source(self, tmp_path):
        return ColumnsByName(file_source(tmp_path, "parquet"), ("x5", "x0", "x2"))


class TestMappedSource(WrapperSuite):
    changes: ClassVar = {
        "n_features": "the map's",
        "in_memory": "mapping takes its time in every pass",
        "index_base": "mapped columns count from 0, and what their indices were has been seen to",
        "first_indicator": "no mapped column is an indicator",
        "record_batches": "they have the columns as they were",
        "rounding": "what is mapped are the exact values; what is rounded are the map's",
    }

    def wrap(self, source):
        return MappedSource(source, MapOptions("rff", "rbf", 6))

    def make_source(self, tmp_path):
        return self.wrap(file_source(tmp_path))

    def test_sparse_rows_become_dense(self, tmp_path):
        source = file_source(tmp_path)
        assert not source.info().is_dense
        assert self.wrap(source).info().is_dense


class TestSeveralSources(WrapperSuite):
    changes: ClassVar = {
        "name": "of all",
        "n_bytes": "of all",
        "n_rows": "of all",
        "fingerprints": "of all",
        "file_rows": "of all",
        "rounding": "of all",
        "parsing": "of all",
        "reader_bytes": "every file takes a little",
        "library_bytes": "every file takes a little",
        "describe": "it would tell of the first source's columns alone",
        "record_batches": "they would be the first source's alone",
        "columns": "they would be the first source's alone",
    }

    def wrapped(self):
        inner = Declaring()
        return inner, SeveralSources([inner, Declaring()])

    def make_source(self, tmp_path):
        return SeveralSources([file_source(tmp_path, "svm", "a"), file_source(tmp_path, "svm", "b")])

    def test_what_was_read_is_counted_as_the_wrapped_source_does(self):
        inner, outer = self.wrapped()
        assert outer.bytes_read == 2 * inner.bytes_read

    def test_what_is_learned_later_is_declared_later(self):
        inner, outer = self.wrapped()
        inner._info = replace(inner._info, notes=("another",), reader_bytes=1000)
        blocks = outer.blocks(PLENTY)
        next(blocks)
        assert outer.info().reader_bytes == 1000 + 2 * FILE_BYTES  # at once: memory is signed for by it
        blocks.close()
        assert outer.info().notes == ("another", "inner note")

    def test_what_all_share_is_declared_once(self):
        rounding, parsing = (Rounding(squares=1.0),), (Parsing(),)
        shared = [Declaring(rounding=rounding, parsing=parsing) for _ in range(3)]
        info = SeveralSources(shared).info()
        assert (info.rounding, info.parsing) == (rounding, parsing)

    @pytest.mark.parametrize(
        ("field", "theirs", "expected"),
        [
            ("n_bytes", None, None),
            ("n_rows", 4, 7),
            ("n_rows", None, None),
            ("n_features", 5, 5),
            ("n_features", None, None),
            ("rereadable", True, False),
            ("in_memory", False, False),
            ("index_base", None, None),
            ("index_base", 0, 0),
            ("reader_bytes", 80, 80 + 2 * FILE_BYTES),
            ("library_bytes", 80, 80 + 2 * FILE_BYTES),
            ("is_dense", False, False),
            ("is_table", False, False),
            ("labelled", True, False),
            ("fingerprints", None, None),
            ("notes", ("another note",), ("inner note", "another note")),
        ],
    )
    def test_of_unlike_sources(self, field, theirs, expected):
        ours, other = Declaring(), Declaring(**{field: theirs})
        for pair in ([ours, other], [other, ours]):
            found = getattr(SeveralSources(pair).info(), field)
            assert found == expected or set(found) == set(expected)


def test_a_wrapper_of_wrappers_keeps_it_all(tmp_path):
    source = file_source(tmp_path, "parquet")
    names = ("x3", "x1")
    outer = MappedSource(OneAgainstRest(ColumnsByName(source, names), "1"), MapOptions("nystroem", "rbf", 5))
    assert outer.info().fingerprints == source.info().fingerprints
    assert outer.info().fingerprints is not None  # the map was learned in one reading
    assert outer.info().feature_names == names
    assert outer.info().is_table
    list(outer.blocks(PLENTY))


def test_nobody_asks_a_source_what_it_is():
    """What a source can do is declared: no getattr, hasattr or isinstance looks at one, or at its declaration."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args
            if named and node.func.id in ("getattr", "hasattr", "isinstance"):
                asked = ast.unparse(node.args[0])
                if "source" in asked or "info" in asked:
                    found.append(f"{path}:{node.lineno}: {node.func.id}({asked}, ...)")
    assert found == []
