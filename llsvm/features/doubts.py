"""Text columns whose values should hardly be categories: refused while a model learns, with the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError

_FEW_VALUES = 100  # so many categories of one row each do no harm
_MANY_NUMBERS, _MOST = 20, 0.9  # of the values, where some are text
_SHOWN = 40  # characters of a value
_AMOUNT = re.compile(  # 1,234.50 or 12,5; $5 or € 1.234,50; 12 % or 5 €; (1,234)
    r"[-+(]?\s*(?:\d+(?:,\d+)+(?:\.\d+)?|[$€£¥]\s*-?\d[\d.,']*|\d[\d.,']*\s*[%$€£¥])\)?"
)


class Doubts:
    """Looks at the values of text columns as they are learned.

    trusted: columns whose values are categories because their user says so.
    lenient: what is doubtful is kept in ``notes``, not refused.
    """

    def __init__(self, trusted: Iterable[str] = (), lenient: bool = False) -> None:
        self.notes: list[str] = []
        self._trusted, self._lenient = frozenset(trusted), lenient
        self._looked_at: set[str] = set()
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)
        """Rows with each category, by number; none of those that are hashed."""
        self.sums = np.zeros(0)
        """... of their weights."""

    def fresh(self) -> Doubts:
        """The same before anything was seen."""
        return Doubts(self._trusted, self._lenient)

    def look(self, name: str, words: list[str]) -> None:
        """The first values of a column. Raises DataError where most are amounts, numbers written as text, or nearly
        all are numbers among which some text is."""
        words = [word for word in words if word]
        if not words or name in self._looked_at:
            return
        self._looked_at.add(name)
        amounts = [word for word in words if _AMOUNT.fullmatch(word.strip())]
        if 2 * len(amounts) > len(words):
            what = "are numbers written as text; write plain numbers (1234.50)"
            self._doubt(name, f"values such as {shortened(amounts[0])} {what}")
            return
        others = [word for word in words if not _is_number(word)]
        n_numbers = len(words) - len(others)
        if others and n_numbers > _MANY_NUMBERS and n_numbers >= _MOST * len(words):
            what = f"is text among numbers: of the first {len(words):,} values {n_numbers:,} are numbers"
            self._doubt(
                name, f"{shortened(others[0])} {what}; write a number, or nothing where there is none"
            )

    def count(self, ids: NDArray[np.int64], n_ids: int, weight: NDArray[np.float64] | None = None) -> None:
        """Categories of some cells, and the weights of their rows, None where all are 1."""
        counts, sums = np.bincount(ids, minlength=n_ids), np.bincount(ids, weight, n_ids).astype(np.float64)
        counts[: len(self.counts)] += self.counts
        sums[: len(self.sums)] += self.sums
        self.counts, self.sums = counts, sums

    def conclude(self, categories: Iterable[tuple[str, str]]) -> None:
        """All rows have been seen; categories: (column, value) of each id. Raises DataError for a column in which
        most rows have a value that no other row has: such values say nothing of other rows."""
        rows: dict[str, int] = {}
        once: dict[str, list[str]] = {}
        for (name, value), count in zip(categories, self.counts.tolist(), strict=False):
            rows[name] = rows.get(name, 0) + count
            if count == 1:
                once.setdefault(name, []).append(value)
        for name, values in once.items():
            if len(values) > max(_FEW_VALUES, rows[name] / 2):
                self._doubt(
                    name,
                    f"{len(values):,} of {rows[name]:,} rows have a value that no other row has, such as "
                    f"{shortened(values[0])}: text or an identifier, from which categories learn nothing",
                    f"make n-grams of its words (--text {name}), ",
                )

    def _doubt(self, name: str, what: str, more: str = "") -> None:
        if name in self._trusted:
            return
        sentence = (
            f"column {name}: {what}; leave the column out (--exclude {name}), {more}or keep its values as "
            f"categories all the same (--categorical {name})"
        )
        if not self._lenient:
            raise DataError(sentence)
        self.notes.append(sentence)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def shortened(word: str) -> str:
    return repr(word if len(word) <= _SHOWN else f"{word[:_SHOWN]}...")
