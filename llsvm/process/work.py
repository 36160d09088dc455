"""Work of training, counted instead of timed: the same on a busy machine and in each run with the same seed.

Counts belong to the process, as its peak memory does; those of a run are what was added since it began. The caller
of a kernel counts a block at a time. Where it visits only some rows of a block, their values are estimated by the
average of the block.

Prices are nanoseconds of processor time on one core, measured once, in November 2026 on an x86-64 server. Only
ratios matter, and sums over the same data for two commits. Vectors, sorting and the start of the program are cheap
beside these, and not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any


def _counted(unit: str, ns: float) -> Any:
    return field(default=0, metadata={"unit": unit, "ns": ns})


@dataclass(slots=True)
class Work:
    """Counts of operations, whole numbers; each field is declared with its unit and its price.

    A sparse row has as many values as it stores, a dense row one for each column; the constant feature is not
    counted. A row that takes part in several problems counts for each of them.
    """

    updated_rows: int = _counted("updates of a row's dual variable, or of a column's weight", 100.0)
    updated_sparse_values: int = _counted("values of these, stored sparse", 2.0)
    updated_dense_values: int = _counted("values of these, stored dense", 0.45)
    multiplied_rows: int = _counted("products of a row with a vector, and rows added to one", 10.0)
    multiplied_sparse_values: int = _counted("values of these, stored sparse", 1.5)
    multiplied_dense_values: int = _counted("values of these, stored dense", 0.13)
    sparse_matrix_terms: int = _counted("products of two values in sums that make a matrix, sparse", 0.75)
    dense_matrix_terms: int = _counted("products of two values in sums that make a matrix, dense", 0.05)
    factorizations: int = _counted("matrices factorized", 3000.0)
    factor_terms: int = _counted("n³/3 of each factorized matrix (n, n)", 0.05)
    solved_terms: int = _counted("n² of each system solved with a factor (n, n)", 0.5)
    source_bytes: int = _counted("bytes read from the source", 2.0)
    store_bytes: int = _counted("bytes read from the binary cache and the spill", 1.25)
    written_bytes: int = _counted("bytes written to the binary cache and the spill", 2.0)

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Work:
        """Return what ``as_dict`` gave, of this version or another: what is unknown here is left out."""
        return cls(**{count.name: counts[count.name] for count in fields(cls) if count.name in counts})

    def as_dict(self) -> dict[str, int]:
        return {count.name: getattr(self, count.name) for count in fields(self)}

    def since(self, before: Work) -> Work:
        """Return what was added to ``before``."""
        known = before.as_dict()
        return Work(**{name: count - known[name] for name, count in self.as_dict().items()})

    @property
    def seconds(self) -> float:
        """Return the sum of all counts at their prices, in seconds."""
        return 1e-9 * sum(count.metadata["ns"] * getattr(self, count.name) for count in fields(self))


_lock, _done = Lock(), Counter[str]()


def work_so_far() -> Work:
    """Return what this process has done until now, without bytes of the source: sources count them themselves."""
    with _lock:
        return Work.of(_done)


def count_updates(n_rows: int, n_values: int, dense: bool) -> None:
    """Count steps of coordinate descent on so many rows, with so many values."""
    _add({"updated_rows": n_rows, f"updated_{_kind(dense)}_values": n_values})


def count_products(n_rows: int, n_values: int, dense: bool) -> None:
    """Count rows multiplied with a vector, or added to one: so many, with so many values."""
    _add({"multiplied_rows": n_rows, f"multiplied_{_kind(dense)}_values": n_values})


def count_matrix(n_terms: int, dense: bool) -> None:
    """Count products of two values that are summed up in a matrix, of its lower triangle where it is symmetric."""
    _add({f"{_kind(dense)}_matrix_terms": n_terms})


def count_factorization(n: int) -> None:
    """Count a factorization of an (n, n) matrix."""
    _add({"factorizations": 1, "factor_terms": n**3 // 3})


def count_solutions(n: int, n_systems: int) -> None:
    """Count so many systems solved with the factor of an (n, n) matrix."""
    _add({"solved_terms": n * n * n_systems})


def count_bytes(read: int = 0, written: int = 0) -> None:
    """Count bytes of the binary cache and the spill."""
    _add({"store_bytes": read, "written_bytes": written})


def _kind(dense: bool) -> str:
    return "dense" if dense else "sparse"


def _add(counts: Mapping[str, int]) -> None:
    with _lock:
        _done.update(counts)
