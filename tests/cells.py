"""Cells of a grid of parameters that say as much as all of them, where most cells run the same code."""

from itertools import combinations, product


def pairwise(*axes):
    """Return cells of the product of ``axes`` in which any two values of two axes meet at least once."""
    axes = [list(axis) for axis in axes]
    cells = {
        cell: set(combinations(enumerate(cell), 2)) for cell in product(*(range(len(axis)) for axis in axes))
    }
    apart, chosen = set().union(*cells.values()), []
    while apart:
        chosen.append(max(cells, key=lambda cell: len(cells[cell] & apart)))
        apart -= cells[chosen[-1]]
    return [tuple(axis[i] for axis, i in zip(axes, cell, strict=True)) for cell in sorted(chosen)]


def in_turn(first, second, times):
    """Return pairs: each value of ``first`` with ``times`` of ``second``, so that all of these are met as often."""
    first, second = list(first), list(second)
    step = max(len(second) // times, 1)
    return [
        (value, second[(i + k * step) % len(second)])
        for i, value in enumerate(first)
        for k in range(min(times, len(second)))
    ]
