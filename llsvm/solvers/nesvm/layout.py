"""What NESVM would do with the memory there is, with kernels and without: pure functions."""

from __future__ import annotations

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.problems import count_problems, signs_bytes
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.layout import KernelLayout, machine_needs, matrix_layout, state_lines
from llsvm.solvers.nesvm.metric import GRAM_MATRICES, MAX_GRAM_COLUMNS
from llsvm.solvers.nesvm.nesterov import VECTORS

GRAM = "Gram matrix"
GRAM_SHARE = 0.25  # of the memory that is free, at most: the rest is for blocks
ROW_WORK_BYTES = 48  # cost, norms and their products
KERNEL_VECTORS = 27  # of a row, per problem, temporary ones counted


def linear_needs(settings: Settings, threads: int, memory: MemoryLeft) -> Needs:
    """Of a linear machine; the Gram matrix is among the lines where it has room."""
    dataset = memory.dataset
    n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo"
    weights_bytes = 8 * count_problems(n_classes, pairs) * (dataset.n_columns + 1)
    sides = 2 if settings.intercept else 1
    lines = {
        "weights": weights_bytes * (VECTORS + 4),
        "gradients": weights_bytes * sides * (threads + 1),
        "signs of classes": signs_bytes(n_classes, pairs),
    }
    least, width = Needs(lines, ROW_WORK_BYTES), dataset.n_columns + 1
    gram_bytes = GRAM_MATRICES * 8 * width * width
    with_gram = Needs({**lines, GRAM: gram_bytes}, ROW_WORK_BYTES)
    wanted = (settings.step != "paper" or settings.loss != "hinge") and width <= MAX_GRAM_COLUMNS
    fits = wanted and gram_bytes <= GRAM_SHARE * memory.available_bytes and memory.has_room(with_gram)
    return with_gram if fits else least


def kernel_layout(settings: Settings, memory: MemoryLeft) -> KernelLayout:
    """Of a kernel machine."""
    dataset = memory.dataset
    lines = state_lines(settings, dataset, KERNEL_VECTORS)
    free, precomputed = memory.available_bytes - sum(lines.values()), settings.kernel == "precomputed"

    def chosen(spilled: bool) -> KernelLayout:
        matrix = matrix_layout(dataset, precomputed, free, spilled)
        return KernelLayout(machine_needs(lines, matrix.lines, dataset, precomputed), matrix)

    wanted = chosen(spilled=False)
    return wanted if memory.has_room(wanted.needs) else chosen(spilled=True)
