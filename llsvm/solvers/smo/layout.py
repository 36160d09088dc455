"""What SMO would do with the memory there is: a pure function."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.problems import count_problems
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.layout import (
    KernelLayout,
    MatrixLayout,
    machine_needs,
    matrix_layout,
    state_lines,
)
from llsvm.solvers.smo.tuning import SMOTuning

VECTORS = 45  # of a row, per problem, temporary ones counted: a subproblem's, Newton's
FEWEST_ROWS = 64  # of a working set


@dataclass(frozen=True, slots=True)
class SMOLayout(KernelLayout):
    """set_rows: of a working set, at most. system_rows: of a system of Newton's method, at most."""

    set_rows: int
    system_rows: int


def smo_layout(settings: Settings, tuning: SMOTuning, threads: int, memory: MemoryLeft) -> SMOLayout:
    """K in memory where it fits, with what room there is for Newton's method; else on disk, and its blocks in
    memory."""
    dataset, free = memory.dataset, memory.available_bytes
    n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo" and len(dataset.classes) > 2
    problems = count_problems(n_classes, pairs)
    lines = state_lines(settings, dataset, VECTORS)
    most = dataset.n_rows
    copied = 0  # bytes of a block of K, where problems are of some of the rows
    at_work = min(threads, problems)
    if pairs:
        most = int(np.sort(dataset.counts)[-2:].sum())
    if pairs or len(dataset.counts) != n_classes:
        copied = 8 * most * most * at_work
    left = free - sum(lines.values())
    precomputed = settings.kernel == "precomputed"

    def needs(matrix: MatrixLayout, more: dict[str, int]) -> Needs:
        return machine_needs(lines, {**matrix.lines, **more}, dataset, precomputed)

    def held(system_rows: int) -> SMOLayout:
        matrix = matrix_layout(dataset, precomputed, left - copied, copied=True)
        more = {"blocks of the kernel matrix": copied} if copied else {}
        more["systems of rows"] = 8 * system_rows**2 * at_work
        return SMOLayout(needs(matrix, more), matrix, most, system_rows)

    def spilled(share: float) -> SMOLayout:
        matrix = matrix_layout(dataset, precomputed, left, spilled=True)
        rows = math.isqrt(max(int(share * left), 0) // (8 * (problems + at_work)))
        rows = min(max(rows, FEWEST_ROWS), most)
        more = {
            "blocks of the kernel matrix": 8 * rows**2 * problems,
            "systems of rows": 8 * rows**2 * at_work,
        }
        return SMOLayout(needs(matrix, more), matrix, rows, rows)

    if matrix_layout(dataset, precomputed, left - copied, copied=True).in_memory:
        room = tuning.matrix_share * max(left - held(0).needs.nbytes, 0) / (8 * at_work)
        for system_rows in (min(most, math.isqrt(int(room))), 0):
            wanted = held(system_rows)
            if memory.has_room(wanted.needs):
                return wanted
    for share in (tuning.matrix_share, tuning.matrix_share / 8):
        wanted = spilled(share)
        if memory.has_room(wanted.needs):
            return wanted
    return spilled(0.0)
