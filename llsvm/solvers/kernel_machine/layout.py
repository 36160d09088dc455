"""What a solver of kernel machines would do with the memory there is: a pure function."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llsvm.block import FLOAT64_BYTES
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.problems import count_problems, signs_bytes
from llsvm.settings.settings import Settings
from llsvm.solvers.optim.row_operator import COST_BYTES

# Arrays of a float64 for each row of a problem, temporary ones counted: with fewer a run would take more memory
# than its limit; with more it would ask for a larger limit than it needs.
ROW_VECTORS = 45
# Rows of the kernel matrix that are computed at a time, at most. All rows are read for each such tile, so fewer
# rows take more readings; more take larger copies of the rows.
TILE_ROWS = 2048
# Share of the memory left that a tile takes where the kernel matrix is on disk: a larger tile takes fewer readings
# of the rows, and leaves less for blocks of the matrix; a smaller one takes more readings.
TILE_SHARE = 0.25
# Share of the memory left for systems of Newton's method, or, where the kernel matrix is on disk, for blocks of it
# and these. More takes fewer passes at a large C, and leaves less for all else: half as much is tried while the
# plan does not fit. Less makes systems and working sets smaller, so that there are more passes.
BLOCK_SHARE = 0.5
# Bytes of a page of the spill and of a temporary array: a 64th of the memory left, between these bounds. Smaller
# ones take more calls, larger ones memory from tiles and blocks. The least is also what the block of a working set
# takes at least (90 rows), and what is copied at a time of rows that are chosen.
FEWEST_PIECE_BYTES, MOST_PIECE_BYTES = 1 << 16, 1 << 21


@dataclass(frozen=True, slots=True)
class KernelLayout:
    """needs: for ``Stream.prepare``. in_memory: all of the kernel matrix is. tile_rows: of it, computed at a time.
    piece_bytes: a page of its spill, or a temporary array. set_rows: of a working set, at most. system_rows: of a
    system of Newton's method, at most."""

    needs: Needs
    in_memory: bool
    tile_rows: int
    piece_bytes: int
    set_rows: int
    system_rows: int


def kernel_layout(settings: Settings, memory: MemoryLeft, workers: int = 0) -> KernelLayout:
    """K in memory where it fits, with what room there is for Newton's method; else on disk, and blocks of working
    sets in memory.

    workers: problems that are solved at a time by blocks of K and systems of their rows, at most; 0: the method
        lives from products with K."""
    dataset, n = memory.dataset, memory.dataset.n_rows
    n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo" and len(dataset.classes) > 2
    precomputed, k = settings.kernel == "precomputed", count_problems(n_classes, pairs)
    workers = min(workers, k)
    lines = _state_lines(memory, n_classes, pairs, k)
    left = max(memory.available_bytes - sum(lines.values()), 0)
    row_bytes = dataset.held_bytes_per_row
    piece_bytes = int(np.clip(left // 64, FEWEST_PIECE_BYTES, MOST_PIECE_BYTES))
    piece, per_row = max(piece_bytes, FLOAT64_BYTES * n), FLOAT64_BYTES * n + 2 * row_bytes

    def plan(in_memory: bool, blocks: int, set_rows: int, system_rows: int) -> KernelLayout:
        """The layout with blocks of the kernel matrix of so many bytes, and sets and systems of so many rows."""
        tile_rows = TILE_ROWS if in_memory else int(np.clip(TILE_SHARE * left / per_row, 1, TILE_ROWS))
        more = {"kernel matrix": FLOAT64_BYTES * n * n} if in_memory else {}
        if precomputed:
            more["product"] = 2 * piece
        else:
            tile = int(min(tile_rows, n) * (2 * row_bytes if in_memory else per_row))
            more |= {
                "kernel tile": tile + 4 * piece,
                "kernel pages": 0 if in_memory else 2 * (piece + (1 << 12)),
            }
        more |= {
            "blocks of the kernel matrix": blocks,
            "systems of rows": FLOAT64_BYTES * system_rows**2 * workers,
        }
        # these are free once a model copies its support vectors, which may be all rows
        support = int(n * (dataset.bytes_per_row + FLOAT64_BYTES)) - sum(more.values())
        more["support vectors"] = 0 if precomputed else max(support, 0)
        needs = Needs(lines | {name: nbytes for name, nbytes in more.items() if nbytes}, COST_BYTES)
        return KernelLayout(needs, in_memory, tile_rows, piece_bytes, set_rows, system_rows)

    problem_rows = int(np.sort(dataset.counts)[-2:].sum()) if pairs else n  # of the largest problem
    if workers or not precomputed:
        # a block of K is copied where problems are of some of the rows
        copied = FLOAT64_BYTES * problem_rows**2 * workers if pairs or len(dataset.counts) != n_classes else 0
        bare = plan(True, copied, problem_rows, 0)
        numbers = BLOCK_SHARE * max(left - bare.needs.nbytes, 0) / (FLOAT64_BYTES * max(workers, 1))
        with_systems = plan(True, copied, problem_rows, min(problem_rows, math.isqrt(int(numbers))))
        for layout in (with_systems, bare):
            if memory.has_room(layout.needs):
                return layout
    share, fewest_rows = BLOCK_SHARE, math.isqrt(FEWEST_PIECE_BYTES // FLOAT64_BYTES)
    while True:
        rows = math.isqrt(int(share * left) // (FLOAT64_BYTES * (k + workers)))
        rows = min(max(rows, fewest_rows), problem_rows) if workers else 0
        layout = plan(False, FLOAT64_BYTES * rows**2 * k, rows, rows)
        if rows <= fewest_rows or memory.has_room(layout.needs):
            return layout
        share *= 0.5


def _state_lines(memory: MemoryLeft, n_classes: int, pairs: bool, k: int) -> dict[str, int]:
    """Bytes by name of what is held for rows and k problems."""
    n = memory.dataset.n_rows
    # rows of all problems: each row is in one, in those of its class's pairs, or in every class's against the rest
    used = n * (1 if n_classes == 2 else n_classes - 1 if pairs else n_classes)
    # a product takes three columns and gives three: a direction, and what is to be certified
    state_bytes = FLOAT64_BYTES * used * ROW_VECTORS + FLOAT64_BYTES * n * (7 * k + 4)
    return {"signs of classes": signs_bytes(n_classes, pairs), "dual variables": state_bytes}
