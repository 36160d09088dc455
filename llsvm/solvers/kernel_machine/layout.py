"""How a kernel matrix is held in the memory there is, and the lines that all solvers of kernel machines have: pure
functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import Needs
from llsvm.objective.problems import count_problems, signs_bytes
from llsvm.settings.settings import Settings

ROW_WORK_BYTES = 16
TILE_ROWS = 2048
SHARE = 0.25  # of what is left is for a tile where K is spilled; twice that for blocks of K, and systems
PIECE_BYTES = (1 << 16, 1 << 21)  # a page of the spill, and a temporary array: a part (1/64) of what is left


def state_lines(settings: Settings, dataset: DatasetInfo, vectors: int) -> dict[str, int]:
    """Bytes by name of what is held for rows and problems. vectors: of a row, per problem that it is in, temporary
    ones counted."""
    n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo"
    k = count_problems(n_classes, pairs)
    # rows of all problems: each row is in one, in those of its class's pairs, or in every class's against the rest
    used = dataset.n_rows * (1 if n_classes == 2 else n_classes - 1 if pairs else n_classes)
    # a product takes three columns and gives three: a direction, and what is to be certified
    state_bytes = 8 * used * vectors + 8 * dataset.n_rows * (7 * k + 4)
    return {"signs of classes": signs_bytes(n_classes, pairs), "dual variables": state_bytes}


@dataclass(frozen=True, slots=True)
class MatrixLayout:
    """How a kernel matrix is held. lines: bytes by name. in_memory: all of it. tile_rows: computed at a time.
    piece_bytes: a page of its spill, or a temporary array."""

    lines: dict[str, int]
    in_memory: bool
    tile_rows: int
    piece_bytes: int


def matrix_layout(
    dataset: DatasetInfo, precomputed: bool, free_bytes: int, spilled: bool = False, copied: bool = False
) -> MatrixLayout:
    """precomputed: the matrix is the data. free_bytes: for everything. spilled: in any case. copied: the data are
    copied as 64-bit floats where they fit."""
    n, row_bytes = dataset.n_rows, dataset.bytes_per_row + 40
    piece_bytes = int(np.clip(free_bytes // 64, *PIECE_BYTES))
    piece, per_row = max(piece_bytes, 8 * n), 8 * n + 2 * row_bytes
    whole = {"kernel matrix": 8 * n * n}
    if precomputed:
        lines, tile_rows = {"product": 2 * piece}, 0
        whole |= lines
    else:
        tile_rows = int(np.clip(SHARE * free_bytes / per_row, 1, TILE_ROWS))
        lines = {"kernel tile": int(tile_rows * per_row) + 4 * piece, "kernel pages": 2 * (piece + (1 << 12))}
        whole["kernel tile"] = int(min(TILE_ROWS, n) * 2 * row_bytes) + 4 * piece
    is_room = sum(whole.values()) + int(n * row_bytes) <= free_bytes
    if is_room and not spilled and (copied or not precomputed):
        return MatrixLayout(whole, True, min(TILE_ROWS, n), piece_bytes)
    return MatrixLayout(lines, False, tile_rows, piece_bytes)


def machine_needs(
    lines: dict[str, int], more: dict[str, int], dataset: DatasetInfo, precomputed: bool
) -> Needs:
    """Of these lines; more: those that are free once a model copies its support vectors, which may be all rows."""
    rest = int(dataset.n_rows * (dataset.bytes_per_row + 8)) - sum(more.values())
    support = {"support vectors": rest} if rest > 0 and not precomputed else {}
    return Needs({**lines, **more, **support}, ROW_WORK_BYTES)


@dataclass(frozen=True, slots=True)
class KernelLayout:
    """needs: for ``Stream.prepare``. matrix: how the kernel matrix is held."""

    needs: Needs
    matrix: MatrixLayout
