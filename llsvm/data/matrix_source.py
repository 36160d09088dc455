"""MatrixSource: what readers of matrices in files share. A format adds how its arrays are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from llsvm.block import CSR, Block
from llsvm.data.matrix import DenseRows, MatrixReader
from llsvm.data.source import SourceInfo
from llsvm.errors import DataError, MissingColumnError, UsageError
from llsvm.files.fingerprint import FileFingerprint, Reading
from llsvm.files.inputs import size_and_mtime, unchanged
from llsvm.files.remote import library_bytes
from llsvm.objective.rounding import Rounding


class MatrixSource(ABC):
    """One file of arrays as blocks: X float32 or float64, dense or CSR; see BlockSource.

    path: of the file. label, features, weight: names of arrays; None: see the format's own file.
    missing: "refuse", "zero" or "mean": what becomes of NaN; None: "refuse".
    need_label: refuse a file without labels.
    first: of the files that are read as one; None: this one. They share ``rounding``.
    Raises DataError for a file that cannot be read, or lacks an array; UsageError for several features.
    """

    format: str

    def __init__(
        self,
        path: str,
        label: str | None = None,
        features: Any = None,
        weight: str | None = None,
        missing: str | None = None,
        need_label: bool = True,
        first: MatrixSource | None = None,
    ) -> None:
        self.bytes_read = 0
        self.rounding: Rounding = Rounding() if first is None else first.rounding
        self._path = path
        self._label, self._features, self._weight = label, one_name(path, features), weight
        self._missing = missing or "refuse"
        self._need_label = need_label
        self._notes: tuple[str, ...] = ()
        self._names: tuple[str, ...] | None = None
        self._library_bytes, self._held_bytes = library_bytes([path]), 0
        self._prints = {each: size_and_mtime(each) for each in self._files()}
        self._fingerprints: dict[str, FileFingerprint] = {}  # by path, once all have been read to their end
        with ExitStack() as files:
            reader = self._open(files, {})
            self._n_rows = reader.n_rows
            self._n_features = reader.X.shape[1]
            self._is_dense = isinstance(reader.X, DenseRows)
            self._labelled = reader.y is not None

    def _files(self) -> list[str]:
        """Return the paths of all files that are read, the matrix's first."""
        return [self._path]

    @abstractmethod
    def _open(self, files: ExitStack, readings: Mapping[str, Reading]) -> MatrixReader:
        """Return the file's arrays, open until ``files`` closes. readings: by path, to be shown what is read of a
        file; none for the first look, before any row is read. Raises DataError."""

    def info(self) -> SourceInfo:
        """Return what is known of the matrix: rows and columns from the start, but for CSR without a shape."""
        prints = tuple(self._fingerprints[path] for path in self._prints if path in self._fingerprints)
        return SourceInfo(
            name=self._path,
            format=self.format,
            n_bytes=self._prints[self._path][0],
            n_rows=self._n_rows,
            n_features=self._n_features,
            feature_names=self._names,
            reader_bytes=self._library_bytes + self._held_bytes,
            library_bytes=self._library_bytes,
            notes=self._notes,
            is_dense=self._is_dense,
            labelled=self._labelled,
            rounding=(self.rounding,),
            fingerprints=prints or None,
            file_rows=(self._n_rows,) if len(self._prints) == 1 else None,
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order; see BlockSource."""
        counted, largest, n_bytes = 0, -1, self._prints[self._path][0]
        readings = {path: Reading(path, self._fingerprints.get(path)) for path in self._prints}
        with ExitStack() as files:
            for path, size_and_mtime in self._prints.items():
                files.enter_context(unchanged(path, size_and_mtime))
            for block in self._open(files, readings).blocks(max_bytes):
                share = n_bytes * (int(block.rows[-1]) + 1) // self._n_rows
                self.bytes_read += share - counted
                counted = share
                if self._n_features is None and isinstance(block.X, CSR):
                    largest = max(largest, int(block.X.indices.max(initial=-1)))
                yield block
            self._fingerprints = {
                path: reading.finish(self._prints[path][0]) for path, reading in readings.items()
            }
        if self._n_features is None:
            self._n_features = largest + 1


# Names of arrays in files: which one holds the features, the labels, the sample weights.

FEATURE_NAMES = ("X", "x", "data", "features", "X_train", "train")
LABEL_NAMES = ("y", "Y", "label", "labels", "target", "targets", "class", "y_train")
WEIGHT_NAMES = ("weight", "weights", "sample_weight")


def find_name(
    where: str, names: Collection[str], wanted: str | None, usual: tuple[str, ...], option: str
) -> str | None:
    """Return the array that is meant: the one asked for, else one with a usual name, else None. Raises
    DataError."""
    if wanted:
        if wanted in names:
            return wanted
        raise MissingColumnError(
            f"{where}: there is no array", wanted, option, f"it has {', '.join(sorted(names)[:12])}"
        )
    return next((name for name in usual if name in names), None)


def unasked_weights(where: str, names: Collection[str], wanted: str | None) -> tuple[str, ...]:
    """Return a note on an array that could be sample weights, where none is asked for."""
    name = next((name for name in WEIGHT_NAMES if name in names), None)
    if wanted or name is None:
        return ()
    return (f"{where}: the array {name!r} is left aside (--weight {name} takes it for sample weights)",)


def one_name(where: str, features: Any) -> str | None:
    """Return the one array that --features names in such a file."""
    if not features:
        return None
    if len(features) != 1:
        raise UsageError(
            f"{where}: --features names the one array of features in such a file, not {len(features)}"
        )
    return str(features[0])


def no_labels(where: str, names: Collection[str]) -> DataError:
    return DataError(
        f"{where}: no labels: none of the arrays is named {', '.join(LABEL_NAMES[:5])}; "
        f"pass --label with the name of one ({', '.join(sorted(names)[:12])})"
    )
