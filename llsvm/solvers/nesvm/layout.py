"""What NESVM would do with the memory there is, with kernels and without: pure functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.problems import count_problems, signs_bytes
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.layout import ROW_WORK_BYTES as MATRIX_ROW_WORK_BYTES
from llsvm.solvers.kernel_machine.layout import KernelLayout, matrix_layout, state_lines, support_line
from llsvm.solvers.nesvm.bundle import DualBundle
from llsvm.solvers.nesvm.metric import GramMetric
from llsvm.solvers.nesvm.nesterov import VECTORS
from llsvm.solvers.nesvm.tuning import KernelTuning, NESVMTuning

ROW_WORK_BYTES = 48  # cost, norms and their products
KERNEL_VECTORS = 25  # of a row, per problem, temporary ones counted


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


def kernel_layout(settings: Settings, tuning: KernelTuning, memory: MemoryLeft) -> KernelLayout:
    """Of a kernel machine."""
    dataset = memory.dataset
    lines = state_lines(settings, dataset, KERNEL_VECTORS + 2 * (tuning.bundle + 1))
    free = memory.available_bytes - sum(lines.values())

    def chosen(spilled: bool) -> KernelLayout:
        precomputed = settings.kernel == "precomputed"
        matrix = matrix_layout(dataset, precomputed, free, spilled)
        more = {**matrix.lines, **support_line(dataset, precomputed, sum(matrix.lines.values()))}
        return KernelLayout(Needs({**lines, **more}, MATRIX_ROW_WORK_BYTES), matrix)

    wanted = chosen(spilled=False)
    return wanted if memory.has_room(wanted.needs) else chosen(spilled=True)
