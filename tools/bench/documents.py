"""Makes raw text of any size: reviews of words by Zipf's law, with labels that depend on the words.

A document has some hundred words in sentences, with capitals, commas, quotes, numbers and letters beyond ASCII.
Half of the words follow from the one before (a phrase), the other half are drawn. Some words are praise, some
complaint, and what follows a certain word means its opposite, so that pairs of words tell more than words do. The
same documents are written as JSON Lines, CSV or Parquet (columns ``stars``, 1 or 5, and ``review``), by the ending
of the name.

    python -m tools.bench.documents reviews.jsonl reviews.csv reviews.parquet --size 2GB
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit
from numpy.typing import NDArray

from tools.bench.results import size

CHUNK = 4_000  # documents
BYTES_PER_DOCUMENT = 716  # of text, on average
N_WORDS = 400_000
SCHEMA = pa.schema([("stars", pa.int8()), ("review", pa.string())])

_LONGEST = 400  # words of a document
_WORD_BYTES = 24  # that a word and what surrounds it takes at most
_NOT = 12  # the number of the word that turns the next one round
_NEUTRAL, _OPINIONS = 60, 6_000  # words are praise or complaint from the one to the other
_CONSONANTS, _VOWELS = "bcdfghklmnprstvz", "aeio"
_ENDINGS = ["", "", "", "n", "r", "s", "t", "l", "ng", "st", "y", "", "", "", "m", "d"]
_RARE_ENDINGS = ["é", "ü", "ß", "ção", "ñ", "ом", "語", "İ"]


@dataclass(frozen=True)
class Chunk:
    """Documents one behind the other. text: (bytes,) uint8, UTF-8; ends: (n + 1,) int64; stars: (n,) int8."""

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]
    stars: NDArray[np.int8]

    def reviews(self) -> list[str]:
        text = self.text.tobytes()
        return [text[a:b].decode() for a, b in pairwise(self.ends.tolist())]

    def table(self) -> pa.Table:
        offsets = pa.py_buffer(self.ends.astype(np.int32))
        review = pa.StringArray.from_buffers(len(self.stars), offsets, pa.py_buffer(self.text))
        return pa.table([pa.array(self.stars), review], schema=SCHEMA)


def chunks(documents: int, seed: int = 0, threads: int = 2) -> Iterator[Chunk]:
    """So many documents, the same for a seed whatever the threads; a few chunks are held at a time."""
    starts = range(0, documents, CHUNK)

    def made(start: int) -> Chunk:
        return _chunk(min(CHUNK, documents - start), seed * 1_000_003 + start // CHUNK)

    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(starts), 2 * threads):
            yield from pool.map(made, starts[first : first + 2 * threads])


def generate(paths: list[Path], documents: int, seed: int = 0, threads: int = 2) -> int:
    """Write the same documents to each path; returns the bytes of their text."""
    written = 0
    with ExitStack() as files:
        writers = [files.enter_context(_WRITERS[path.suffix](path)) for path in paths]
        for chunk in chunks(documents, seed, threads):
            written += len(chunk.text)
            for writer in writers:
                writer.write(chunk)
    return written


class _Lines:
    """A file of text; subclasses say what a chunk is in it."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _JSONLines(_Lines):
    def write(self, chunk: Chunk) -> None:
        for stars, review in zip(chunk.stars.tolist(), chunk.reviews(), strict=True):
            self._file.write(f'{{"stars": {stars}, "review": {json.dumps(review, ensure_ascii=False)}}}\n')


class _CSV(_Lines):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file.write("stars,review\n")

    def write(self, chunk: Chunk) -> None:
        lines = io.StringIO(newline="")
        csv.writer(lines, lineterminator="\n").writerows(
            zip(chunk.stars.tolist(), chunk.reviews(), strict=True)
        )
        self._file.write(lines.getvalue())


class ParquetFile:
    """A row group for each chunk."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, SCHEMA)

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, chunk: Chunk) -> None:
        self._writer.write_table(chunk.table())


_WRITERS: dict[str, Callable[[Path], Any]] = {".jsonl": _JSONLines, ".csv": _CSV, ".parquet": ParquetFile}


# -- the documents -----------------------------------------------------------------------------------------------


@cache
def _words() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All words one behind the other, the frequent ones first and short; (N_WORDS + 1,) where they start."""
    syllables = [consonant + vowel for vowel in _VOWELS for consonant in _CONSONANTS]
    rng = np.random.default_rng(0)
    endings = [_ENDINGS[i] for i in rng.integers(0, len(_ENDINGS), N_WORDS)]
    for i in np.flatnonzero(rng.random(N_WORDS) < 0.04).tolist():
        endings[i] = _RARE_ENDINGS[i % len(_RARE_ENDINGS)]
    found = []
    for k, ending in enumerate(endings):
        if k % 97 == 96:  # a number
            found.append(str(1900 + k).encode())
            continue
        parts = []
        while True:
            parts.append(syllables[k % len(syllables)])
            k = k // len(syllables) - 1
            if k < 0:
                break
        found.append(("".join(parts) + ending).encode())
    return np.frombuffer(b"".join(found), np.uint8), np.cumsum([0, *map(len, found)])


@cache
def _polarity() -> NDArray[np.int8]:
    """(N_WORDS,) 1: praise, -1: complaint, 0: neither."""
    rng = np.random.default_rng(1)
    polarity = rng.choice(np.array([-1, 0, 1], np.int8), N_WORDS, p=[0.13, 0.74, 0.13])
    polarity[:_NEUTRAL] = 0
    polarity[_OPINIONS:] = 0
    return polarity


def _chunk(documents: int, seed: int) -> Chunk:
    text = np.empty(documents * _LONGEST * _WORD_BYTES, np.uint8)  # what is not written takes no memory
    ends, stars = np.zeros(documents + 1, np.int64), np.empty(documents, np.int8)
    _write(np.uint64(seed), *_words(), _polarity(), text, ends, stars)
    return Chunk(text[: ends[-1]].copy(), ends, stars)


_GOLDEN, _M1, _M2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_S11, _S27, _S30, _S31 = (np.uint64(n) for n in (11, 27, 30, 31))
_UNIT = 2.0**-53


@njit(cache=True, nogil=True)
def _mixed(state):  # type: ignore[no-untyped-def]
    """Vigna's SplitMix64."""
    z = (state ^ (state >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True)
def _write(seed, words, starts, polarity, text, ends, stars):  # type: ignore[no-untyped-def]
    """Fill ``text``, ``ends`` and ``stars`` with documents."""
    span = np.log(np.float64(len(starts) - 1))
    state = _mixed((seed + np.uint64(1)) * _GOLDEN)
    q = 0
    for document in range(len(stars)):
        state += _GOLDEN
        good = 1 if _mixed(state) >> _S31 & np.uint64(1) else -1
        state += _GOLDEN
        u = np.float64(_mixed(state) >> _S11) * _UNIT
        length = min(int(20 + 100 * -np.log(1 - u)), _LONGEST)
        word = 0
        left = 0  # words of the sentence
        for i in range(length):
            turned = word == _NOT
            before = np.uint64(word)
            while True:
                state += _GOLDEN
                drawn = _mixed(state)
                u = np.float64(drawn >> _S11) * _UNIT
                if drawn & np.uint64(1):  # what often follows the word before
                    follower = np.uint64(int(np.exp(u * np.log(24.0))))
                    u = np.float64(_mixed(before * _M1 + follower * _GOLDEN) >> _S11) * _UNIT
                word = int(np.exp(u * span)) - 1  # Zipf with exponent 1, by inversion
                means = -polarity[word] if turned else polarity[word]
                if means == -good:
                    state += _GOLDEN
                    if _mixed(state) % np.uint64(100) < np.uint64(80):
                        continue
                break
            state += _GOLDEN
            chance = _mixed(state)
            begins = left == 0
            if begins:
                left = 4 + int(chance >> np.uint64(40)) % 20
            mark = chance % np.uint64(100)
            if mark == np.uint64(0) and i > 0:
                text[q] = 34  # "
                q += 1
            first = q
            for k in range(starts[word], starts[word + 1]):
                text[q] = words[k]
                q += 1
            if (begins or word % 40 == 39) and 97 <= text[first] <= 122:
                text[first] -= 32
            left -= 1
            if mark == np.uint64(0) and i > 0:
                text[q] = 34
                q += 1
            if left == 0 or i == length - 1:
                left = 0
                text[q] = 33 if mark < np.uint64(15) else 46  # ! .
                q += 1
            elif mark < np.uint64(8):
                text[q] = 44  # ,
                q += 1
            elif mark == np.uint64(8):
                text[q] = 39  # 's
                text[q + 1] = 115
                q += 2
            if i < length - 1:
                text[q] = 10 if left == 0 and mark > np.uint64(90) else 32
                q += 1
        stars[document] = 5 if good > 0 else 1
        ends[document + 1] = q


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help=f"ending with {', '.join(_WRITERS)}")
    parser.add_argument("--size", type=size, default=2_000_000_000, help="of the text; default: 2GB")
    parser.add_argument("--seed", type=int, default=0, help="another one: other documents of the same words")
    args = parser.parse_args()
    documents = args.size // BYTES_PER_DOCUMENT
    written = generate(args.paths, documents, args.seed)
    print(f"{', '.join(map(str, args.paths))}: {documents:,} documents, {written / 1e9:.2f} GB of text")


if __name__ == "__main__":
    main()
