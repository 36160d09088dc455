"""What NESVM would do with the memory there is: a pure function."""

from __future__ import annotations

from typing import NamedTuple

from llsvm.block import FLOAT64_BYTES
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.problems import count_problems, signs_bytes
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm.metric import GRAM_MATRICES, MAX_GRAM_COLUMNS
from llsvm.solvers.nesvm.nesterov import WEIGHT_VECTORS
from llsvm.solvers.optim.row_operator import COST_BYTES


class LinearLayout(NamedTuple):
    """needs: for ``Stream.prepare``. has_gram: there is room for the Gram matrix."""

    needs: Needs
    has_gram: bool


def linear_layout(settings: Settings, threads: int, memory: MemoryLeft) -> LinearLayout:
    """Return what a linear machine does: the Gram matrix is made where it sends no rows in memory to disk."""
    dataset = memory.dataset
    n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo"
    weights_bytes = FLOAT64_BYTES * count_problems(n_classes, pairs) * (dataset.n_columns + 1)
    sides = 2 if settings.intercept else 1
    lines = {
        "weights": weights_bytes * WEIGHT_VECTORS,
        "gradients": weights_bytes * sides * (threads + 1),
        "signs of classes": signs_bytes(n_classes, pairs),
    }
    # of a row: its cost and norms, and their product with the largest curvature
    row_bytes, width = COST_BYTES + 3 * FLOAT64_BYTES, dataset.n_columns + 1
    without_gram = Needs(lines, row_bytes)
    gram_bytes = GRAM_MATRICES * FLOAT64_BYTES * width * width
    with_gram = Needs({**lines, "Gram matrix": gram_bytes}, row_bytes)
    is_used = (settings.step != "paper" or settings.loss != "hinge") and width <= MAX_GRAM_COLUMNS
    has_room = memory.fits_in_one_block if memory.fits_in_one_block(without_gram) else memory.has_room
    has_gram = is_used and has_room(with_gram)
    return LinearLayout(with_gram if has_gram else without_gram, has_gram)
