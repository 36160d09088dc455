"""Text columns in tables: trained on, scored and converted beside categories and numbers, in every format."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.data import open_source, table_options
from llsvm.errors import BudgetError, DataError, ModelError, UsageError
from llsvm.features.text import counting
from llsvm.features.text.vectorizer import DocumentColumns
from llsvm.memory.budget import MemoryBudget
from llsvm.models.model import Model
from llsvm.models.tables import names_of
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.spill.workspace import Workspace
from llsvm.stream.stream import Stream
from llsvm.training import texts
from llsvm.training.training import Training

WORDS = [
    "good",
    "bad",
    "fine film",
    "dull\nplot",
    'a "quoted" word',
    "café",
    "naïve, really",
    "x_1 22",
    "ÉTÉ",
]
N = 240


def table():
    rng = np.random.default_rng(7)
    stars = rng.integers(0, 3, N)
    told = [["great", "lovely"], ["awful", "boring"], ["so so"]]
    reviews = [
        " ".join([*rng.choice(WORDS, rng.integers(0, 9)), told[star][rng.integers(len(told[star]))]])
        for star in stars
    ]
    reviews[5] = ""
    return {
        "stars": [["up", "down", "middling"][star] for star in stars],
        "review": reviews,
        "title": [" ".join(rng.choice(WORDS, 2)) for _ in range(N)],
        "age": rng.standard_normal(N).round(2).tolist(),
        "shop": rng.choice(["Rome", "Köln"], N).tolist(),
    }


def written(path, columns, encoding="utf-8"):
    """Empty text is null, where there is such."""
    kind = path.suffix
    missing = {name: [None if v == "" else v for v in values] for name, values in columns.items()}
    if kind == ".csv":
        out = io.StringIO(newline="")
        rows = csv.writer(out)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
        path.write_bytes(out.getvalue().encode(encoding))
    elif kind == ".jsonl":
        rows = zip(*missing.values(), strict=True)
        lines = [json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows]
        path.write_bytes("\n".join([*lines, ""]).encode(encoding))
    elif kind == ".parquet":
        pq.write_table(pa.table(missing), path, row_group_size=70)
    else:
        feather.write_feather(pa.table(missing), path, chunksize=50)
    return str(path)


def trained(path, **options):
    options = {"label": "stars", "text": ["review"], "threads": 1, "memory_limit": "4GB"} | options
    return llsvm.train(path, **options)


def same(a, b):
    arrays = {name for name, value in a.extra.items() if isinstance(value, np.ndarray)}
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.intercept_, b.intercept_)
    assert arrays == {name for name, value in b.extra.items() if isinstance(value, np.ndarray)}
    for name in arrays:
        np.testing.assert_array_equal(a.extra[name], b.extra[name])
    assert a.extra["text"] == b.extra["text"]


def test_every_format_gives_the_same_model_bit_for_bit(tmp_path):
    columns = table()
    models = [
        trained(written(tmp_path / f"reviews{suffix}", columns), text=["review", "title"], ngrams="1-2")
        for suffix in (".csv", ".jsonl", ".parquet", ".feather")
    ]
    assert models[0].coef_.shape[1] > 100
    for other in models[1:]:
        same(models[0], other)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_numbers_then_n_grams_as_scikit_learn_has_them_then_categories(tmp_path, threads):
    columns = table()
    settings = Settings(
        text=("review", "title"), label="stars", ngrams="1-2", min_df=2, strip_accents="unicode"
    )
    path = written(tmp_path / "reviews.parquet", columns)
    source = open_source(path, options=table_options(settings), threads=threads)
    with Training(source, settings) as training:
        training.read()
    blocks = list(source.blocks(20_000))
    assert len(blocks) > 1
    X = sp.vstack(
        [
            sp.csr_matrix((b.X.data, b.X.indices, b.X.indptr), shape=(b.n_rows, source.info().n_features))
            for b in blocks
        ]
    ).toarray()
    encoder = source.info().encoder
    names = encoder.names_of(range(encoder.n_features))
    assert names[0] == "age"
    assert names[-2:] == [f"shop={name}" for name in dict.fromkeys(columns["shop"])]
    np.testing.assert_allclose(X[:, 0], columns["age"], rtol=1e-6)
    np.testing.assert_array_equal(X[:, -2], [name == columns["shop"][0] for name in columns["shop"]])
    at = 1
    for column in ("review", "title"):
        expected = TfidfVectorizer(ngram_range=(1, 2), min_df=2, strip_accents="unicode")
        rows = expected.fit_transform(columns[column])
        width = rows.shape[1]
        own = [name.removeprefix(f"{column}:") for name in names[at : at + width]]
        order = [expected.vocabulary_[name] for name in own]
        np.testing.assert_allclose(X[:, at : at + width], rows[:, order].toarray(), rtol=1e-6)
        at += width
    assert at == len(names) - 2


def test_predictions_read_text_as_training_did_from_files_and_frames(tmp_path):
    columns = table()
    path = written(tmp_path / "reviews.csv", columns)
    model = trained(path, ngrams="1-2", term_weight="sublinear", output=tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    same(model, loaded)
    other = {name: columns[name][::-1] for name in ("age", "review", "shop", "stars", "title")}
    expected = llsvm.predict(model, path)
    assert np.mean(expected == np.array(columns["stars"])) > 0.9
    for suffix in (".jsonl", ".parquet", ".feather", ".csv"):
        found = llsvm.predict(loaded, written(tmp_path / f"other{suffix}", other))
        np.testing.assert_array_equal(found, expected[::-1])
    np.testing.assert_array_equal(loaded.predict(pa.table(other)), expected[::-1])
    assert llsvm.evaluate(tmp_path / "m", path)["accuracy"] == np.mean(expected == np.array(columns["stars"]))


def test_hashed_text_takes_one_reading_and_no_vocabulary(tmp_path):
    columns = table()
    path = written(tmp_path / "reviews.parquet", columns)
    model = trained(path, hash_bits=12, exclude=["shop"], output=tmp_path / "m")
    assert (
        model.coef_.shape[1] == 2 + (1 << 12) + len(set(columns["title"])) - 1
        or model.coef_.shape[1] > 1 << 12
    )
    assert "text_0_keys" not in model.extra
    np.testing.assert_array_equal(llsvm.predict(tmp_path / "m", path), model.predict(pa.table(columns)))
    # categories may be hashed, and n-grams not
    both = trained(path, hash_bits=4, vocabulary="exact")
    assert len(both.extra["text_0_keys"]) == CountVectorizer().fit_transform(columns["review"]).shape[1]


def test_counting_out_of_core_changes_nothing(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    words = ["".join(rng.choice(list("abcdefghij"), 5)) for _ in range(9000)]
    columns = {
        "label": [i % 2 for i in range(N)],
        "words": [" ".join(rng.choice(words, 150)) for _ in range(N)],
    }
    path = written(tmp_path / "many.parquet", columns)
    models, claimed = [], []
    claim = texts.Workspace.claim
    monkeypatch.setattr(texts.Workspace, "claim", lambda self, n: (claimed.append(n), claim(self, n))[1])
    for share in (3, 3_000_000):
        monkeypatch.setattr(texts, "TABLE_SHARE", share)
        models.append(trained(path, label="label", text=["words"], ngrams="1-2", spill_dir=tmp_path / "."))
        assert bool(claimed) == (share > 3)
    same(*models)
    assert not list(tmp_path.glob("llsvm-*"))


def test_threads_that_spill_at_the_same_time_share_a_folder(tmp_path):
    made = []

    def workspace():
        if not made:
            time.sleep(0.05)
            made.append(Workspace(tmp_path))
        return made[0]

    files = texts.RunFiles(workspace, 0)
    with Threads(4) as threads:
        paths = threads.map(files.new, [10] * 8)
    assert len(set(paths)) == 8
    assert len(made) == 1
    assert made[0].used_bytes == 80
    files.close()
    assert made[0].used_bytes == 0


def test_the_ledger_has_the_vocabulary_and_inspect_tells_the_plan(tmp_path):
    path = written(tmp_path / "reviews.parquet", table())
    settings = Settings(text=("review",), label="stars")
    source = open_source(path, options=table_options(settings))
    before = source.info()
    unlearned_bytes = before.encoder.documents.nbytes
    with Training(source, settings) as training:
        training.read()
        held = training.stream.source.info()
    learned_bytes = held.encoder.documents.nbytes - unlearned_bytes
    assert learned_bytes > 0
    assert held.library_bytes >= before.library_bytes + learned_bytes
    done = CliRunner().invoke(app, ["inspect", path, "--label", "stars", "--text", "review", "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 0
    assert told["features"] > 20
    assert {c["name"]: c["use"] for c in told["columns"]}["review"] == "document"
    assert told["plan"]["enough"]


def test_names_of_hashed_columns_take_the_place_of_what_they_were_sampled_in(tmp_path):
    path = written(tmp_path / "reviews.parquet", table())
    settings = Settings(text=("review",), label="stars", hash_bits=12)
    with Training(open_source(path, options=table_options(settings)), settings) as training:
        training.read()
        documents = training.stream.source.info().encoder.documents
    assert documents.column_names
    named_bytes = documents.nbytes + documents.work_bytes
    documents.column_names = None
    assert documents.nbytes + documents.work_bytes == named_bytes


def test_inspect_refuses_texts_whose_n_grams_cannot_be_counted(tmp_path):
    path = written(tmp_path / "reviews.csv", table())

    def inspected(limit):
        command = [sys.executable, "-m", "llsvm", "inspect", path, "--label", "stars", "--text", "review"]
        return subprocess.run(
            [*command, "--memory-limit", limit], capture_output=True, text=True, check=False
        )

    named = re.search(r"pass --memory-limit (\d+MB) or rather more", inspected("60MB").stderr)
    done = inspected(named[1])
    assert done.returncode == 4, done.stderr
    assert "counting n-grams" in done.stderr


def test_a_vocabulary_that_does_not_fit_is_hashed_or_refused_with_its_number(tmp_path, monkeypatch):
    path = written(tmp_path / "reviews.parquet", table())
    monkeypatch.setattr(texts, "most_columns", lambda nbytes, column_bytes: 0)
    monkeypatch.setattr(texts, "HASHED_BITS", (10, 10))
    with pytest.warns(UserWarning, match=r"n-grams, which would take .*hashed into 2\^10 columns") as told:
        model = trained(path)
    assert len(told) == 1
    assert model.extra["text"]["options"]["hash_bits"] == 10
    n = CountVectorizer().fit_transform(table()["review"]).shape[1]
    with pytest.raises(BudgetError, match=f"vocabulary of {n} n-grams") as refused:
        trained(path, vocabulary="exact")
    assert "min_df" in str(refused.value)
    assert "hash_bits" in str(refused.value)


@pytest.mark.parametrize("asked", [llsvm.predict, llsvm.evaluate])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_another_encoding_than_the_models_has_a_remedy_that_the_command_has(tmp_path, suffix, asked):
    """``--encoding`` is an option of training alone."""
    columns = table()
    columns["review"] = [f"{text} élan" for text in columns["review"]]
    plain = trained(written(tmp_path / "plain.csv", columns))
    files = {}
    for encoding in ("latin-1", "utf-16", "utf-8-sig"):
        path = tmp_path / f"{encoding}{suffix}"
        if suffix == ".parquet":
            texts = [text.encode(encoding) for text in columns["review"]]
            pq.write_table(pa.table({**columns, "review": texts}), path)
            files[encoding] = str(path)
        else:
            files[encoding] = written(path, columns, encoding)
    for encoding in ("latin-1", "utf-16"):
        with pytest.raises(DataError, match=r"write it as UTF-8, as the training data were") as refused:
            asked(plain, files[encoding])
        assert "--encoding" not in str(refused.value)
        model = trained(files[encoding], encoding=encoding)
        for other in files.keys() - {encoding}:
            if encoding == "latin-1" and (suffix == ".parquet" or other == "utf-16"):
                continue  # any bytes are Latin-1
            with pytest.raises(DataError, match=r"write it .*, as the training data were") as refused:
                asked(model, files[other])
            assert "--encoding" not in str(refused.value)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_encodings_are_read_as_utf_8(tmp_path, suffix):
    columns = table()
    plain = trained(written(tmp_path / f"utf8{suffix}", columns))
    path = written(tmp_path / f"latin{suffix}", columns, "latin-1")
    with pytest.raises(
        DataError, match=r"latin\.\w+:\d+.* not UTF-8.*encoding latin-1\), or cp1251, .*what else"
    ):
        trained(path)
    model = trained(path, encoding="latin-1", output=tmp_path / "m")
    same(plain, model)
    labels = llsvm.predict(tmp_path / "m", path)  # which the model remembers
    np.testing.assert_array_equal(labels, plain.predict(pa.table(columns)))
    path = written(tmp_path / f"wide{suffix}", columns, "utf-16")
    with pytest.raises(DataError, match=r"write it as UTF-8, or, to train on it, name.*encoding utf-16"):
        trained(path)
    same(plain, trained(path, encoding="utf-16"))


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "latin-1"]
)
def test_the_encoding_that_is_named_reads_the_file(encoding, tmp_path):
    path = written(tmp_path / "t.csv", table(), encoding)
    with pytest.raises(DataError, match="write it as UTF-8") as error:
        trained(path)
    (named,) = re.findall(r"--encoding ([\w-]+)", str(error.value)) or re.findall(
        r"\(encoding ([\w-]+)\)", str(error.value)
    )
    assert named == encoding
    same(trained(path, encoding=named), trained(written(tmp_path / "utf8.csv", table())))


def test_columns_of_bytes_are_text_in_their_encoding(tmp_path):
    columns = table()
    plain = trained(written(tmp_path / "plain.parquet", columns))
    bytes_ = columns | {"review": [text.encode("latin-1") for text in columns["review"]]}
    path = str(tmp_path / "bytes.parquet")
    pq.write_table(pa.table(bytes_), path)
    same(plain, trained(path, encoding="latin-1"))
    row = next(i for i, text in enumerate(columns["review"]) if not text.isascii())
    with pytest.raises(
        DataError, match=rf"row {row + 1}: column review: byte \d+ of the text is not utf-8"
    ) as found:
        trained(path)
    assert "latin-1" in str(found.value)


def test_a_document_of_parquet_that_is_not_utf_8_is_refused_with_its_row(tmp_path):
    columns = table()
    columns["review"][5] = "a very xyzzy film"
    path = tmp_path / "reviews.parquet"
    pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"xyzzy", b"xyz\xffy"))
    with pytest.raises(DataError, match=r"row 6: column review: byte 11 of the text is not utf-8") as found:
        trained(path, hash_bits=7)
    assert "latin-1" in str(found.value)
    with pytest.raises(DataError, match=r"row group 0.*not UTF-8"):  # an expression looks at it before that
        trained(path, hash_bits=7, where="review != 'x'")


def test_what_is_no_text_is_refused(tmp_path):
    columns = table()
    path = written(tmp_path / "reviews.parquet", columns)
    with pytest.raises(DataError, match="column age has type double, which is no text"):
        trained(path, text=["age"])
    with pytest.raises(DataError, match="no column 'reviews'"):
        trained(path, text=["reviews"])
    with pytest.raises(DataError, match="cannot be both text and categorical"):
        trained(path, categorical=["review"])
    with pytest.raises(UsageError, match="ngrams has no meaning here: pass text"):
        trained(path, text=[], ngrams="1-2")
    with pytest.raises(UsageError, match="stop_words"):
        trained(path, stop_words=tmp_path / "none.txt")
    svm = tmp_path / "rows.svm"
    svm.write_text("1 1:1\n2 1:2\n")
    with pytest.raises(UsageError, match="text"):
        trained(str(svm), label=None)
    model = trained(path)
    numbers = columns | {"review": list(range(N))}
    with pytest.raises(DataError, match=r"column review has type .*, but the model was trained on text"):
        llsvm.predict(model, written(tmp_path / "numbers.parquet", numbers))


def test_stop_words_and_limits_are_those_asked_for(tmp_path):
    columns = table()
    path = written(tmp_path / "reviews.jsonl", columns)
    stops = tmp_path / "stops.txt"
    stops.write_text("good bad\ncafé\n", encoding="utf-8")
    done = CliRunner().invoke(
        app,
        [
            *(
                "train",
                path,
                "--model",
                str(tmp_path / "m"),
                "--label",
                "stars",
                "--text",
                "review",
                "--ngrams",
                "1-2",
            ),
            *("--stop-words", str(stops), "--min-df", "3", "--max-df", "0.5", "--term-weight", "count"),
        ],
    )
    assert done.exit_code == 0, done.output
    expected = CountVectorizer(ngram_range=(1, 2), stop_words=["good", "bad", "café"], min_df=3, max_df=0.5)
    expected.fit(columns["review"])
    model = Model.load(tmp_path / "m")
    own = [name for name in names_of(model, range(model.n_features_in_)) if name.startswith("review:")]
    assert sorted(name.removeprefix("review:") for name in own) == sorted(expected.vocabulary_)


def test_inspect_shows_the_strongest_n_grams_of_each_class(tmp_path):
    path = written(tmp_path / "reviews.csv", table())
    trained(path, output=tmp_path / "m")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "m"), "--json"])
    strongest = {row["class"]: row["features"] for row in json.loads(done.stdout)["strongest"]}
    assert strongest["up"][0]["feature"] in ("review:great", "review:lovely")
    assert strongest["down"][0]["feature"] in ("review:awful", "review:boring")
    assert {"review:great", "review:lovely"} <= {each["feature"] for each in strongest["up"][:3]}
    text = CliRunner().invoke(app, ["inspect", str(tmp_path / "m")]).stdout
    assert "review:awful" in text


def test_text_becomes_features_in_other_formats(tmp_path):
    columns = {name: values for name, values in table().items() if name in ("stars", "review")}
    path = written(tmp_path / "reviews.csv", columns)
    expected = TfidfVectorizer().fit_transform(columns["review"])
    for name in ("rows.svm", "rows.parquet"):
        done = CliRunner().invoke(
            app, ["convert", path, str(tmp_path / name), "--label", "stars", "--text", "review"]
        )
        assert done.exit_code == 0, done.output
        back = open_source(str(tmp_path / name))
        blocks = list(back.blocks(1 << 20))
        data = np.concatenate([block.X.data for block in blocks])
        assert len(data) == expected.nnz
        np.testing.assert_allclose(np.sort(data), np.sort(expected.data), rtol=1e-6)
        np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), columns["stars"])


def test_a_few_rows_of_standard_input_do_not_get_all_columns_that_there_is_room_for(tmp_path, monkeypatch):
    columns = {"stars": ["1", "2"] * 20, "review": ["a good film", "a bad plot"] * 20}
    with open(written(tmp_path / "r.csv", columns), "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.warns(
            UserWarning, match=r"hashed into 2\^20 columns.*; hash_bits or a file may give each"
        ):
            model = trained("-", format="csv", memory_limit="8GB")
    assert model.n_features_in_ == 1 << 20


def test_standard_input_is_hashed_since_it_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "HASHED_BITS", (12, 12))
    columns = {name: values for name, values in table().items() if name in ("stars", "review")}
    path = written(tmp_path / "r.csv", columns)
    for vocabulary in ("auto", "exact"):
        with open(path, "rb") as file:
            monkeypatch.setattr(sys, "stdin", file)
            if vocabulary == "auto":
                with pytest.warns(UserWarning, match=r"read only once.*hashed into 2\^12 columns"):
                    model = trained("-", format="csv")
            else:
                with pytest.raises(UsageError, match=r"can be read only once .* pass hash_bits 20"):
                    trained("-", format="csv", vocabulary="exact")
    np.testing.assert_array_equal(model.coef_, trained(path, hash_bits=12).coef_)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("keys", lambda a: a[::-1].copy()),
        ("keys", lambda a: a[:-1]),
        ("columns", lambda a: a + 1),
        ("columns", np.zeros_like),
        ("lengths", lambda a: a + 1),
        ("lengths", lambda a: a.astype(np.int64)),
        ("names", lambda a: np.full_like(a, 0xFF)),
    ],
)
def test_a_damaged_vocabulary_is_refused(tmp_path, part, change):
    model = trained(written(tmp_path / "reviews.parquet", table()))
    model.extra[f"text_0_{part}"] = change(model.extra[f"text_0_{part}"])
    model.save(tmp_path / "m")
    with pytest.raises(ModelError, match="vocabulary"):
        llsvm.predict(tmp_path / "m", str(tmp_path / "reviews.parquet"))


def test_the_vocabulary_is_counted_once_for_training_and_smallest_limit(tmp_path, monkeypatch):
    path = written(tmp_path / "reviews.parquet", table())
    settings = Settings(text=("review",), label="stars")
    source = open_source(path, options=table_options(settings))
    made = []
    finish = counting.VocabularyCounter.finish
    monkeypatch.setattr(
        counting.VocabularyCounter, "finish", lambda self, *a: (made.append(1), finish(self, *a))[1]
    )
    with Training(source, settings) as training:
        training.plan()
        training.smallest_limit(1)
        assert isinstance(training.stream, Stream)
    assert made == [1]


@pytest.mark.slow
@pytest.mark.parametrize(("ngrams", "limit"), [("1", 390_000_000), ("1-2", 410_000_000)])
def test_a_file_larger_than_the_limit_is_counted_and_trained_on_under_it(tmp_path, ngrams, limit):
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, length)) for length in rng.integers(2, 10, 60_000)])
    shares = 1 / np.arange(1, len(words) + 1)
    shares /= shares.sum()
    lines = []
    for i in range(10_000):
        told = [["bad", "good"][i % 2]] if rng.random() < 0.7 else []
        lines.append(f"{i % 2},{' '.join([*rng.choice(words, 150, p=shares), *told])}\n")
    text = "".join(lines)
    path = tmp_path / "documents.csv"
    with open(path, "w") as file:
        file.write("label,words\n")
        for _ in range(limit // len(text) + 2):
            file.write(text)
    assert path.stat().st_size > limit
    command = [sys.executable, "-m", "llsvm", "train", str(path), "--text", "words", "--ngrams", ngrams]
    command += ["--memory", str(limit), "--model", str(tmp_path / "m"), "--spill-dir", str(tmp_path)]
    command += ["--tol", "0.1", "--json"]
    nothing_compiled = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=nothing_compiled)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["converged"]
    assert answer["peak_rss_bytes"] <= limit
    hashed = Model.load(tmp_path / "m").extra["text"]["options"]["hash_bits"]
    assert (hashed is None) == (ngrams == "1")
    assert not list(tmp_path.glob("llsvm-*"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"text": ["stars"], "label": "stars"}, "column stars is the label, and cannot be text too"),
        (
            {"text": ["review"], "label": "stars", "features": ["stars"]},
            r"stars is the label, .* features too",
        ),
        ({"text": ["n"], "label": "stars", "weight": "n"}, r"column n is the sample weight, .* text too"),
    ],
)
def test_a_column_is_not_the_label_and_text_too(tmp_path, options, said):
    path = tmp_path / "reviews.csv"
    path.write_text("stars,review,n\n1,good film,1\n0,bad film,2\n")
    with pytest.raises(DataError, match=said):
        llsvm.train(path, **options)


def test_text_in_hdf5_is_refused_by_its_name(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "reviews.h5"
    with h5py.File(path, "w") as file:
        file["review"], file["y"] = np.array(["good film", "bad film"], object), [1, 0]
    with pytest.raises(UsageError, match="text review: of hdf5 files arrays of numbers"):
        llsvm.train(path, label="y", text=["review"])
    for features in ((), ("review",)):
        with pytest.raises(DataError, match=r"review is text, .* as Parquet.* text review"):
            llsvm.train(path, label="y", features=features)


@pytest.mark.parametrize("options", [{"hash_bits": 12}, {"vocabulary": "exact"}])
def test_a_document_too_long_is_refused_with_its_row_or_the_limit_that_it_needs(tmp_path, options):
    columns = {"stars": [i % 2 for i in range(40)], "review": ["good film", "bad film"] * 20}
    settings = Settings(label="stars", text=("review",), threads=1, **options)

    def training(long, limit_bytes=150_000_000):
        columns["review"][7] = "word " * (long // 5)
        path = written(tmp_path / "long.parquet", columns)
        source = open_source(path, options=table_options(settings))
        return Training(source, settings, budget=MemoryBudget(limit_bytes, 10_000_000))

    said = r"long\.parquet: row 8: column review: a text of 5\.0 MB"
    with pytest.raises(DataError, match=said), training(5_000_000) as run:
        run.read()
    said = r"a text of 3\.0 MB in column review: .* pass memory_limit \d+MB or rather more"
    with pytest.raises(BudgetError, match=said) as refused, training(3_000_000) as run:
        run.read()
    with training(3_000_000, refused.value.smallest_bytes) as run:
        assert run.read().n_rows == 40
    with training(200_000) as run:
        assert run.read().n_rows == 40


def test_a_csv_column_that_is_named_text_is_so_whatever_its_cells_look_like(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("y,review,note\n" + "1,10 5,\n0,7,\n" * 100_000 + "1,fine 10,word\n")
    model = trained(str(path), label="y", text=("review", "note"))
    assert [words_of_column(model, each) for each in (0, 1)] == [["10", "fine"], ["word"]]
    path.write_text("y,review\n1,55\n0,77\n")
    assert sorted(words_of_column(trained(str(path), label="y"), 0)) == ["55", "77"]


def words_of_column(model, number):
    return DocumentColumns.from_extra(model.extra).vocabularies[number].words()


def test_that_no_n_gram_is_kept_is_said(tmp_path):
    columns = {"stars": [1, 0], "review": ["good film", "bad one"]}
    path = written(tmp_path / "reviews.csv", columns)
    with pytest.raises(DataError, match="no feature: text: no n-gram of column review is kept"):
        trained(path, min_df=2)
    path = written(tmp_path / "more.csv", columns | {"price": [2, 3]})
    with pytest.warns(UserWarning, match="no n-gram of column review is kept: .*min_df") as told:
        trained(path, min_df=2, output=tmp_path / "m")
    assert len(told) == 1
    llsvm.predict(tmp_path / "m", path)  # and once only


def test_the_only_list_of_stop_words_with_a_name_is_told(tmp_path):
    path = written(tmp_path / "reviews.parquet", table())
    with pytest.raises(
        UsageError, match=r"stop_words german: .*; give english, the only list with a name, or"
    ):
        trained(path, stop_words="german")
