"""Documents become the n-grams and the rows that scikit-learn's vectorizers make of them, in memory and out of
core, by one thread or several."""

import itertools
import string
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from llsvm.features.text.analysis import Analyzer, Documents, NotUTF8
from llsvm.features.text.counting import VocabularyCounter
from llsvm.features.text.options import TextOptions
from llsvm.features.text.vectorizer import Vectorizer, shares
from llsvm.kernels.text import PADDING_BYTES, combined, hash_of
from llsvm.process.threads import Threads, row_ranges

DOCUMENTS = [
    *(
        "Hello World hello a bb  ccc_1",
        "",
        " ",
        "ÀÉ été naïve CAFÉ Straße ΣΑΣ ὈΔΥΣΣΕΎΣ",
        "İstanbul ﬁne ½ x² 你好 世界 世",
    ),
    *(
        "a\n\nb \t c  d",
        "\u00a0nb sp\u00a0\u00a0 x",
        "𝚺𝚺 math 𝒜𝒜 𐐀𐐀",
        "  lead trail  ",
        "12 3 4_5 __ _ ٣٤ x1y2",
    ),
    *("ﷺ" * 3, "e\u0301te\u0301 e\u0301\u0301", "don't e-mail: a.b@c.de", "\ud7ff\ue000\ufffd \U0010ffff"),
]
# what people write, and what is rare but folds, joins or ends words
LETTERS = st.sampled_from(
    string.ascii_letters[:8] + "AÉéßΣσςİıﬁ½²_01٣你 \u00a0\u2003\t\n.,-'\u0301\u200d𝚺𐐀ﷺ\u1e9e"
)
TEXTS = st.lists(st.text(LETTERS, max_size=24) | st.text(max_size=8), min_size=1, max_size=6)
OPTIONS = st.builds(
    TextOptions,
    analyzer=st.sampled_from(["word", "char", "char_wb"]),
    ngrams=st.sampled_from([(1, 1), (1, 2), (2, 2), (2, 3), (1, 4), (3, 5)]),
    lowercase=st.booleans(),
    strip_accents=st.sampled_from(["", "unicode", "ascii"]),
)


def counted(texts, options, parts=1):
    """The n-grams of each document and how often each is there, as ours."""
    documents = Documents.of(pa.array(texts, pa.large_string()))
    analyzer, found = Analyzer(options), []
    for first, stop in row_ranges(len(texts), parts):
        grams = analyzer.grams(documents, first, stop)
        for i in range(stop - first):
            counts = {}
            for _, place, rest in grams.grams[grams.first[i] : grams.first[i + 1]].tolist():
                gram = grams.text[place : place + (rest & 0xFFFFFFFF)].tobytes().decode()
                assert gram not in counts
                counts[gram] = rest >> 32
            found.append(counts)
    return found


def counted_by_scikit_learn(texts, options):
    stops = list(options.stop_words) or None
    vectorizer = CountVectorizer(
        analyzer=options.analyzer,
        ngram_range=options.ngrams,
        lowercase=options.lowercase,
        strip_accents=options.strip_accents or None,
        stop_words=stops,
    )
    analyze = vectorizer.build_analyzer()
    return [Counter(analyze(text)) for text in texts]


class Scratch:
    """ScratchFiles in a folder."""

    def __init__(self, folder):
        self.folder, self.numbers, self.claimed = folder, itertools.count(), 0

    def new(self, nbytes):
        self.claim(nbytes)
        return self.new_array()

    def new_array(self):
        return self.folder / str(next(self.numbers))

    def claim(self, nbytes):
        self.claimed += nbytes

    def release(self, nbytes):
        self.claimed -= nbytes


def vectorized(texts, options, threads=1, room=1 << 30, blocks=3, folder=None):
    """(rows, names), the vocabulary counted in blocks; of hashed columns the names are None."""
    with Threads(threads) as pool:
        vocabulary = None
        if options.hash_bits is None:
            counter = VocabularyCounter(options, pool, room, Scratch(folder))
            analyzers = [Analyzer(options) for _ in range(threads)]
            for first, stop in row_ranges(len(texts), blocks):
                documents = Documents.of(pa.array(texts[first:stop], pa.string()))
                counter.add(
                    pool.over_rows(documents.number, lambda t, a, b, d=documents: analyzers[t].grams(d, a, b))
                )
            vocabulary = counter.finish()
        vectorizer = Vectorizer(options, vocabulary, pool)
        rows = vectorizer.rows(Documents.of(pa.array(texts, pa.string())))
        X = sp.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(len(texts), vectorizer.n_columns))
        assert X.has_canonical_format
        return X, None if vocabulary is None else vocabulary.words()


def assert_as_scikit_learn(texts, options, vectorizer, **how):
    X, names = vectorized(texts, options, **how)
    expected = vectorizer.fit_transform(texts)
    assert sorted(names) == sorted(vectorizer.vocabulary_)
    order = [vectorizer.vocabulary_[name] for name in names]
    np.testing.assert_allclose(X.toarray(), expected[:, order].toarray(), rtol=1e-6)


@given(TEXTS, OPTIONS)
@example(DOCUMENTS, TextOptions(ngrams=(1, 2), strip_accents="unicode"))
@example(DOCUMENTS, TextOptions(analyzer="char_wb", ngrams=(2, 4), strip_accents="ascii"))
@example(DOCUMENTS, TextOptions(analyzer="char", ngrams=(1, 3)))
@settings(deadline=None, max_examples=50)
def test_n_grams_are_those_of_scikit_learn(texts, options):
    assert counted(texts, options) == counted_by_scikit_learn(texts, options)


def test_every_character_folds_and_joins_words_as_in_scikit_learn():
    codes = [code for code in range(0x34000) if not 0xD800 <= code < 0xE000]
    texts = [
        "".join(f"a{chr(code)}b {chr(code)} " for code in codes[i : i + 997])
        for i in range(0, len(codes), 997)
    ]
    for accents in ("", "unicode", "ascii"):
        options = TextOptions(strip_accents=accents)
        assert counted(texts, options) == counted_by_scikit_learn(texts, options)


@pytest.mark.parametrize("letter", ["é", "語", "\u201c", "𝒜", "-"])
def test_words_of_every_length_with_other_letters_in_every_place(letter):
    words = [
        string.ascii_lowercase[:place] + letter + string.ascii_lowercase[place:length]
        for length in range(1, 26)
        for place in range(length + 1)
    ]
    texts = [" ".join(words), *words, "  ".join(words), f"{letter} ".join(words)]
    for options in (TextOptions(ngrams=(1, 2)), TextOptions(strip_accents="ascii")):
        assert counted(texts, options) == counted_by_scikit_learn(texts, options)


def test_words_fill_the_room_behind_the_text():
    """Documents of words without anything between them, which are looked at eight bytes at a time."""
    for length in range(2, 20):
        texts = ["é" * (length // 2 + 1), "a" * length, "b" * length]
        assert counted(texts, TextOptions()) == [{text: 1} for text in texts]


@pytest.mark.parametrize("letter", ["x", "é", "\u201c"])
def test_words_that_begin_and_end_anywhere_in_64_bytes(letter):
    """Which are looked at together: words, and what parts them, at every place of them and beyond them."""
    lengths = (1, 2, 7, 8, 9, 16, 62, 63, 64, 65, 127, 128, 129, 200)
    texts = [" " * before + letter + "a" * (n - 1) for before in range(66) for n in lengths]
    texts += [text + "  " + letter * 2 + "-bb" for text in texts]
    options = TextOptions(ngrams=(1, 2))
    expected = counted_by_scikit_learn(texts, options)
    assert counted(texts, options) == expected
    X, _ = vectorized(texts, TextOptions(ngrams=(1, 2), weight="count", hash_bits=30), threads=2)
    assert X.sum(axis=1).A1.tolist() == [sum(counts.values()) for counts in expected]


@pytest.mark.parametrize("bits", [4, 20])
def test_values_of_n_grams_that_are_there_however_often(bits):
    times = [1, 2, 3, 15, 16, 17, 40, 300]
    texts = [" ".join(f"w{n} " * n for n in times[:last]) for last in range(1, len(times) + 1)]
    counts, _ = vectorized(texts, TextOptions(weight="count", hash_bits=bits))
    X, _ = vectorized(texts, TextOptions(weight="tf", hash_bits=bits))
    length = np.sqrt(counts.multiply(counts).sum(axis=1).A1.astype(np.float64))
    expected = (counts.data / np.repeat(length, np.diff(counts.indptr))).astype(np.float32)
    np.testing.assert_array_equal(X.data, expected)
    binary, _ = vectorized(texts, TextOptions(weight="binary", hash_bits=bits))
    assert np.all(binary.data == 1)


def test_stop_words_are_left_out_before_n_grams_are_made():
    options = TextOptions(ngrams=(1, 2), stop_words=("the", "été", "of"))
    texts = ["The end of the été story", "THE the", "Of THE"]
    assert counted(texts, options) == counted_by_scikit_learn(texts, options)
    assert "end story" in counted(texts, options)[0]


def test_parts_of_the_documents_are_analysed_as_all_of_them():
    options = TextOptions(ngrams=(1, 3))
    assert counted(DOCUMENTS, options, parts=5) == counted(DOCUMENTS, options)


def test_a_sliced_column_and_missing_texts():
    column = pa.array(["zero", "one two", None, "three"])[1:]
    documents = Documents.of(column)
    grams = Analyzer(TextOptions()).grams(documents, 0, documents.number)
    assert np.diff(grams.first).tolist() == [2, 0, 1]


def spilled_cases():
    rng = np.random.default_rng(5)
    words = ["".join(rng.choice(list("abcdefé 1_ü"), size=rng.integers(1, 7))) for _ in range(2500)]
    return [" ".join(rng.choice(words, size=rng.integers(0, 40))) for _ in range(500)]


CASES = [
    (TextOptions(), TfidfVectorizer()),
    (
        TextOptions(ngrams=(1, 2), min_df=2, max_df=0.3),
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_df=0.3),
    ),
    (TextOptions(weight="count", unit=True, min_df=0.01, max_df=60), CountVectorizer(min_df=0.01, max_df=60)),
    (
        TextOptions(analyzer="char_wb", ngrams=(2, 4), weight="sublinear"),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    ),
    (
        TextOptions(weight="binary", stop_words=("ab", "ae"), strip_accents="unicode"),
        CountVectorizer(binary=True, stop_words=["ab", "ae"], strip_accents="unicode"),
    ),
    (TextOptions(unit=False, ngrams=(2, 2)), TfidfVectorizer(norm=None, ngram_range=(2, 2))),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_rows_are_those_of_scikit_learn_in_memory_and_spilled(case, tmp_path):
    options, vectorizer = CASES[case]
    texts = spilled_cases()
    if isinstance(vectorizer, CountVectorizer) and options.unit_rows:
        vectorizer = _UnitRows(vectorizer)
    for threads, room in ((2, 1 << 30), (1, 1 << 17)):
        assert_as_scikit_learn(
            texts, options, vectorizer, threads=threads, room=room, blocks=7, folder=tmp_path
        )
    if options.ngrams != (1, 1):
        assert list(tmp_path.iterdir()), "nothing was spilled"


class _UnitRows:
    """A CountVectorizer whose rows have the length 1."""

    def __init__(self, inner):
        self._inner = inner

    def fit_transform(self, texts):
        X = self._inner.fit_transform(texts).astype(np.float64)
        self.vocabulary_ = self._inner.vocabulary_
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sp.diags(1 / np.where(lengths == 0, 1, lengths)).tocsr() @ X


@given(TEXTS, OPTIONS)
@settings(deadline=None, max_examples=50)
def test_tfidf_of_any_documents(texts, options):
    if not any(counted_by_scikit_learn(texts, options)):
        X, names = vectorized(texts, options)
        assert names == []  # scikit-learn refuses an empty vocabulary
        assert X.nnz == 0
        return
    vectorizer = TfidfVectorizer(
        analyzer=options.analyzer,
        ngram_range=options.ngrams,
        lowercase=options.lowercase,
        strip_accents=options.strip_accents or None,
    )
    assert_as_scikit_learn(texts, options, vectorizer)


def test_max_features_keeps_those_that_occur_most_often(tmp_path):
    texts = spilled_cases()
    everything = CountVectorizer().fit(texts)
    occurrences = np.asarray(everything.transform(texts).sum(axis=0)).ravel()
    _, names = vectorized(texts, TextOptions(max_features=50), room=1 << 17, folder=tmp_path)
    kept = [occurrences[everything.vocabulary_[name]] for name in names]
    assert sorted(kept) == sorted(occurrences)[-50:]


@pytest.mark.parametrize("weight", ["count", "binary"])
@pytest.mark.parametrize("most", [1, 7, 60, 250, 1500])
def test_max_features_keeps_those_of_scikit_learn(tmp_path, weight, most):
    """It ranks n-grams by what their columns sum to, and among equals its names are in alphabetical order (so far
    as NumPy's sort, which it uses, keeps equals in order)."""
    texts = [*spilled_cases(), "a\x00b a\x00b", "école"]
    expected = CountVectorizer(analyzer="char", ngram_range=(1, 3), binary=weight == "binary")
    sums = np.asarray(expected.fit_transform(texts).sum(axis=0)).ravel()
    names = expected.get_feature_names_out()
    options = TextOptions(analyzer="char", ngrams=(1, 3), weight=weight, max_features=most)
    for room in (1 << 17, 1 << 30):
        _, kept = vectorized(texts, options, room=room, folder=tmp_path)
        assert sorted(kept) == sorted(names[np.argsort(-sums, kind="stable")][:most])


def test_the_order_of_columns_depends_on_neither_memory_nor_threads(tmp_path):
    texts, options = spilled_cases(), TextOptions(ngrams=(1, 2), min_df=2)
    X, names = vectorized(texts, options)
    again, same = vectorized(texts, options, threads=2, room=1 << 18, blocks=11, folder=tmp_path)
    assert names == same
    assert (again != X).nnz == 0


@given(TEXTS, OPTIONS, st.sampled_from([2, 10, 20]))
@settings(deadline=None, max_examples=50)
def test_hashed_columns_are_the_high_bits_of_an_n_grams_hash(texts, options, bits):
    hashed = TextOptions(
        analyzer=options.analyzer,
        ngrams=(1, 1),
        strip_accents=options.strip_accents,
        weight="count",
        hash_bits=bits,
    )
    X, _ = vectorized(texts, hashed, threads=2)
    expected = np.zeros((len(texts), 1 << bits)) if bits < 20 else sp.lil_matrix((len(texts), 1 << bits))
    for row, counts in enumerate(counted(texts, hashed)):
        for gram, n in counts.items():
            padded = np.frombuffer(gram.encode() + bytes(PADDING_BYTES), np.uint8)
            expected[row, int(hash_of(padded, 0, len(gram.encode()))) >> (64 - bits)] += n
    assert abs(X - sp.csr_matrix(expected)).sum() == 0


@pytest.mark.parametrize("bits", [3, 8, 9, 16, 17, 20, 24, 25, 30])
def test_columns_of_long_rows_ascend_and_are_added_up(bits):
    rng = np.random.default_rng(bits)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 3000, size)) for size in (0, 1, 23, 24, 25, 300, 9000)]
    X, _ = vectorized(texts, TextOptions(weight="count", hash_bits=bits, ngrams=(1, 2)))
    for row, counts in zip(X, counted(texts, TextOptions(ngrams=(1, 2))), strict=True):
        expected = Counter()
        for gram, n in counts.items():
            expected[_key(gram) >> (64 - bits)] += n
        assert dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) == expected


def _key(gram):
    first, *others = (
        int(hash_of(np.frombuffer(word.encode() + bytes(PADDING_BYTES), np.uint8), 0, len(word.encode())))
        for word in gram.split(" ")
    )
    for other in others:
        first = int(combined(np.uint64(first), np.uint64(other)))
    return first


def test_hashed_rows_are_as_long_as_those_of_the_hashing_vectorizer():
    """Which column is whose differs by the hash; where none is shared, the sorted values of a row do not."""
    X, _ = vectorized(DOCUMENTS, TextOptions(ngrams=(1, 2), weight="count", unit=True, hash_bits=26))
    expected = HashingVectorizer(ngram_range=(1, 2), n_features=1 << 26, alternate_sign=False).transform(
        DOCUMENTS
    )
    for ours, theirs in zip(X, expected, strict=True):
        np.testing.assert_allclose(np.sort(ours.data), np.sort(theirs.data), rtol=1e-6)


def test_predictions_take_the_frequencies_of_the_training_data():
    texts = ["red green", "red blue", "red"]
    with Threads(1) as pool:
        counter = VocabularyCounter(TextOptions(), pool, 1 << 20, None)
        documents = Documents.of(pa.array(texts))
        counter.add([Analyzer(TextOptions()).grams(documents, 0, 3)])
        vectorizer = Vectorizer(TextOptions(), counter.finish(), pool)
        rows = vectorizer.rows(Documents.of(pa.array(["green pink", "pink", "red green green"])))
    expected = TfidfVectorizer().fit(texts).transform(["green pink", "pink", "red green green"])
    for row in range(3):
        ours = rows.data[rows.indptr[row] : rows.indptr[row + 1]]
        np.testing.assert_allclose(np.sort(ours), np.sort(expected[row].data), rtol=1e-6)


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
@pytest.mark.parametrize(
    "bad",
    [
        b"caf\xe9",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"\x80",
        b"\xff\xfe",
        b"ok \xc3",
    ],
)
def test_text_that_is_not_utf_8_is_refused_with_its_place(analyzer, bad):
    texts = [b"one", "été".encode(), bad, b"after"]
    text = np.frombuffer(b"".join(texts), np.uint8)
    documents = Documents(text, np.cumsum([0, *map(len, texts)]))
    with pytest.raises(NotUTF8) as found:
        Analyzer(TextOptions(analyzer=analyzer)).grams(documents, 1, 4)
    with pytest.raises(UnicodeDecodeError) as python:
        bad.decode()
    assert (found.value.document, found.value.byte) == (2, python.value.start)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n_bytes", [3_000, 200_000, 390_000, 1_000_000])
def test_threads_have_as_much_text(threads, n_bytes):
    lengths = np.full(n_bytes // 600, 600) + np.arange(n_bytes // 600) % 7
    documents = Documents(np.zeros(lengths.sum(), np.uint8), np.r_[0, np.cumsum(lengths)])
    edges = shares(documents, threads)
    sizes = [int(documents.offsets[stop] - documents.offsets[start]) for start, stop in edges]
    assert sum(sizes) == lengths.sum()
    assert len(sizes) == threads
    assert max(sizes) < 1.15 * lengths.sum() / threads + 700
    nothing = Documents(np.zeros(0, np.uint8), np.zeros(3, np.int64))
    assert sum(stop - start for start, stop in shares(nothing, threads)) == 2
