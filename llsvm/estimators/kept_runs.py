"""Runs that an estimator keeps on the disk from one call to the next, in a folder of its own that goes with it:
what a run has come to, and the rows that ``partial_fit`` was given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from llsvm.errors import DataError, DiskError
from llsvm.features.array_labels import labels_of
from llsvm.files.writing import naming
from llsvm.memory.sizes import format_size, parse_size
from llsvm.settings.settings import Settings
from llsvm.spill.workspace import Workspace, choose_parent
from llsvm.state.checkpoints import Checkpoints, WarmStartCheckpoints
from llsvm.state.folder import StateFolder

WEIGHT = "weight"  # the array of a file that has the sample weights


class KeptRuns:
    """Runs of one estimator. Without it nothing is left."""

    def __init__(self, spill_dir: str | None) -> None:
        """spill_dir: to make the folder in; None: as for spill files. Raises DiskError."""
        self.workspace = Workspace(choose_parent(spill_dir, None))

    @contextmanager
    def last(self, classes_known: bool = False) -> Iterator[Checkpoints]:
        """Open the last run, for one that begins where it has come to. classes_known: see Checkpoints. Raises
        UsageError, DataError."""
        with StateFolder(self.workspace.path("state")) as folder:
            checkpoints = WarmStartCheckpoints(folder, classes_known)
            try:
                yield checkpoints
            finally:
                checkpoints.close()


class GivenRows:
    """The rows that ``partial_fit`` was given so far: of each call a file.

    classes: (k,) all that labels may be, None where they are no classes. files: their paths. runs: what has been
    made of them. unseen: so many rows of no weight are among them, one of each class that the first call had none
    of, so that there is a problem for it.
    """

    def __init__(self, runs: KeptRuns, classes: NDArray[Any] | None) -> None:
        self.runs, self.classes = runs, classes
        self.files: list[str] = []
        self.unseen = 0

    def add(self, X: Any, y: Any, sample_weight: Any, settings: Settings) -> None:
        """X: (n, d) array or CSR. y: (n,) labels; None: there are none. sample_weight: (n,), or None. settings:
        whose limits hold. Raises DataError, DiskError."""
        if self.classes is not None:
            strange = np.setdiff1d(y, self.classes).tolist()
            if strange:
                raise DataError(
                    f"y has the label {strange[0]!r}, which is not among the classes of the first call: "
                    f"{', '.join(map(repr, self.classes.tolist()))}"
                )
            unseen = np.setdiff1d(self.classes, y) if not self.files else ()
            if len(unseen):
                self.unseen = len(unseen)
                nothing = X[np.zeros(len(unseen), np.int64)] * 0
                self._write(nothing, unseen, np.zeros(len(unseen)), settings)
        self._write(X, y, np.ones(X.shape[0]) if sample_weight is None else sample_weight, settings)

    def _write(self, X: Any, y: Any, weight: Any, settings: Settings) -> None:
        path = self.runs.workspace.path(f"rows-{len(self.files)}.npz")
        y = labels_of(np.zeros(X.shape[0]) if y is None else y, X.shape[0])
        arrays = {"y": y, WEIGHT: weight}
        if issparse(X):  # as SciPy writes it
            arrays |= {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
            arrays["format"] = np.array(b"csr")
        else:
            arrays["X"] = X
        self._require_disk(sum(np.asarray(each).nbytes for each in arrays.values()), settings)
        with naming(path):
            np.savez(path, **arrays)
        self.files.append(os.fspath(path))

    def forget(self, number: int) -> None:
        """Remove all files from that number on."""
        for path in self.files[number:]:
            os.unlink(path)
        del self.files[number:]

    @property
    def nbytes(self) -> int:
        """Return the bytes of the files."""
        return sum(os.stat(path).st_size for path in self.files)

    def left(self, settings: Settings) -> Settings:
        """Return the settings, with what the files leave of the disk."""
        if settings.disk_limit is None:
            return settings
        return replace(settings, disk_limit=max(1, parse_size(settings.disk_limit) - self.nbytes))

    def _require_disk(self, nbytes: int, settings: Settings) -> None:
        limit, held = settings.disk_limit, self.nbytes
        if limit is not None and held + nbytes > parse_size(limit):
            raise DiskError(
                f"partial_fit keeps the rows that it is given: those so far take {format_size(held)}, these "
                f"{format_size(nbytes)}, and disk_limit is {limit}; allow more, or begin anew"
            )
