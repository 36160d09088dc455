"""What NESVM would do with the memory there is, with kernels and without: pure functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.problems import count_problems, signs_bytes
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm.bundle import DualBundle
from llsvm.solvers.nesvm.metric import GramMetric
from llsvm.solvers.nesvm.nesterov import VECTORS
from llsvm.solvers.nesvm.tuning import KernelTuning, NESVMTuning

ROW_WORK_BYTES = 48  # cost, norms and their products

KERNEL_ROW_WORK_BYTES = 16
KERNEL_VECTORS = 24  # of a row, per problem, temporary ones counted
TILE_ROWS = 2048
TILE_SHARE = 4  # a tile takes at most this part (1/4) of what is left where K is spilled
PIECE_BYTES = (1 << 16, 1 << 21)  # a page of the spill, and a temporary array: a part (1/64) of what is left


@dataclass(frozen=True, slots=True)
class Layout:
    """Of a linear machine.

    needs: for ``Stream.prepare``.
    gram: the Gram matrix has room.
    bundle: so many dual points are kept.
    """

    needs: Needs
    gram: bool
    bundle: int


def layout(settings: Settings, tuning: NESVMTuning, threads: int, memory: MemoryLeft) -> Layout:
    """Decides what fits: the Gram matrix, the bundle of dual points."""
    dataset, free = memory.dataset, memory.available_bytes
    n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo"
    width, k = dataset.n_columns + 1, count_problems(n_classes, pairs)
    sides = 2 if settings.intercept else 1
    lines = {
        "weights": 8 * k * width * (VECTORS + (7 if settings.penalty == "l1" else 4)),
        "gradients": 8 * k * width * sides * (threads + 1),
        "signs of classes": signs_bytes(n_classes, pairs),
    }
    gram_bytes = GramMetric.nbytes(width)
    gram = width <= tuning.max_gram_columns and gram_bytes <= tuning.gram_share * free
    one, fewest = DualBundle.nbytes(width, 1) * k, 2
    bundle = int(np.clip(tuning.bundle_share * free / one, fewest, tuning.bundle))
    if settings.penalty == "l1":
        bundle = fewest = 1  # the best value alone

    def chosen(gram: bool, bundle: int) -> Layout:
        more = {"Gram matrix": gram_bytes} if gram else {}
        points = {"dual points": k * DualBundle.nbytes(width, bundle)}
        return Layout(Needs({**lines, **more, **points}, ROW_WORK_BYTES), gram, bundle)

    wanted, without, least = chosen(gram, bundle), chosen(False, bundle), chosen(False, fewest)
    return next((each for each in (wanted, without) if memory.has_room(each.needs)), least)


@dataclass(frozen=True, slots=True)
class MatrixLayout:
    """How a kernel matrix is held. lines: bytes by name. in_memory: all of it. tile_rows: computed at a time.
    piece_bytes: a page of its spill, or a temporary array."""

    lines: dict[str, int]
    in_memory: bool
    tile_rows: int
    piece_bytes: int


def matrix_layout(
    dataset: DatasetInfo, precomputed: bool, free_bytes: int, spilled: bool = False
) -> MatrixLayout:
    """precomputed: the matrix is the data. free_bytes: for everything. spilled: in any case."""
    n = dataset.n_rows
    piece_bytes = int(np.clip(free_bytes // 64, *PIECE_BYTES))
    piece = max(piece_bytes, 8 * n)
    if precomputed:
        return MatrixLayout({"product": 2 * piece}, False, 0, piece_bytes)
    row_bytes = dataset.bytes_per_row + 40
    tile = int(min(TILE_ROWS, n) * 2 * row_bytes) + 4 * piece
    matrix_bytes, data = 8 * n * n, int(n * row_bytes)
    if matrix_bytes + tile + data <= free_bytes and not spilled:
        lines = {"kernel matrix": matrix_bytes, "kernel tile": tile}
        return MatrixLayout(lines, True, min(TILE_ROWS, n), piece_bytes)
    per_row = 8 * n + 2 * row_bytes
    tile_rows = int(np.clip(free_bytes / TILE_SHARE / per_row, 1, TILE_ROWS))
    lines = {
        "kernel tile": int(tile_rows * per_row) + 4 * piece,
        "kernel pages": 2 * (piece + (1 << 12)),
    }
    return MatrixLayout(lines, False, tile_rows, piece_bytes)


@dataclass(frozen=True, slots=True)
class KernelLayout:
    """needs: for ``Stream.prepare``. matrix: how the kernel matrix is held."""

    needs: Needs
    matrix: MatrixLayout


def kernel_layout(settings: Settings, tuning: KernelTuning, memory: MemoryLeft) -> KernelLayout:
    """Of a kernel machine."""
    dataset = memory.dataset
    n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo"
    k = count_problems(n_classes, pairs)
    # rows of all problems: each row is in one, in those of its class's pairs, or in every class's against the rest
    used = dataset.n_rows * (1 if n_classes == 2 else n_classes - 1 if pairs else n_classes)
    # a product takes three columns and gives three: a direction, and what is to be certified
    state_bytes = 8 * used * (KERNEL_VECTORS + 2 * (tuning.bundle + 1)) + 8 * dataset.n_rows * (7 * k + 4)
    lines = {"signs of classes": signs_bytes(n_classes, pairs), "dual variables": state_bytes}
    free = memory.available_bytes - sum(lines.values())

    def chosen(spilled: bool) -> KernelLayout:
        matrix = matrix_layout(dataset, settings.kernel == "precomputed", free, spilled)
        return KernelLayout(Needs({**lines, **matrix.lines}, KERNEL_ROW_WORK_BYTES), matrix)

    wanted = chosen(spilled=False)
    return wanted if memory.has_room(wanted.needs) else chosen(spilled=True)
