"""Batches are cut by the bytes of their texts, whatever Arrow type carries them."""

import pyarrow as pa
import pytest

from llsvm.data.table_rows import pieces

WORDS = ["a", "long enough for no view to hold it " * 40, None, "", "ü" * 700] * 40
TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("coded", [False, True])
def test_texts_count_by_their_bytes(type_, start, coded):
    texts = pa.array(WORDS, pa.string()).cast(type_).slice(start)
    if coded:
        codes = pa.array(
            [None if word is None else WORDS[:5].index(word) for word in WORDS[start:]], pa.int32()
        )
        texts = pa.DictionaryArray.from_arrays(
            codes, pa.array(["" if w is None else w for w in WORDS[:5]]).cast(type_)
        )
    cut = list(pieces(pa.record_batch({"t": texts}), (), 4000, "t", 0))
    assert [each.num_rows for each in cut] == expected(WORDS[start:], 4000)


def expected(words, most):
    """Rows of each piece, counted one by one."""
    found, held = [0], 0
    for word in words:
        own = len((word or "").encode())
        if found[-1] and held + own > most:
            found, held = [*found, 0], 0
        found[-1] += 1
        held += own
    return found
