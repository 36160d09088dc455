"""Pages of Parquet files, whose sizes are told before they are read."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llsvm.data import open_source, table_options
from llsvm.data.parquet_pages import largest_page_bytes
from llsvm.settings.settings import Settings

SHORT = [f"a text of some words, number {i}" for i in range(3000)]


def written(path, texts, **options):
    labels = [i % 2 for i in range(len(texts))]
    pq.write_table(pa.table({"y": labels, "text": texts}), path, **options)
    return path


def sizes(path, known=0, most=1000, group=0, change=lambda raw: raw):
    metadata = pq.ParquetFile(path).metadata
    return largest_page_bytes(
        io.BytesIO(change(path.read_bytes())), metadata.row_group(group).column(1), known, most
    )


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_the_largest_page_is_found_wherever_it_is(tmp_path, compression, version, dictionary):
    for place in (10, 1500, 2990):
        texts = [*SHORT[:place], "long " * 200_000, *SHORT[place:]]
        path = written(
            tmp_path / "rows.parquet",
            texts,
            compression=compression,
            data_page_version=version,
            use_dictionary=dictionary,
            data_page_size=4096,
            write_batch_size=16,
            dictionary_pagesize_limit=20_000,
        )
        found, looked_at = sizes(path)
        assert 1_000_000 < found < 1_010_000
        assert looked_at >= 1
        assert sizes(path, known=1 << 30) == (1 << 30, 0)
        assert 1 <= sizes(path, most=2)[1] <= 2


def test_pages_with_long_statistics_are_passed_over(tmp_path):
    texts = [f"{'x' * 3000}{i:04d}" for i in range(300)] + ["long " * 100_000]
    path = written(
        tmp_path / "rows.parquet", texts, data_page_size=4096, write_batch_size=4, use_dictionary=False
    )
    assert 500_000 < sizes(path)[0] < 510_000


def test_damage_ends_the_search(tmp_path):
    path = written(
        tmp_path / "rows.parquet", SHORT, use_dictionary=False, data_page_size=4096, write_batch_size=16
    )
    rng = np.random.default_rng(0)

    def damaged(raw):
        changed = bytearray(raw)
        for place in rng.integers(4, len(raw), 300):
            changed[place] = rng.integers(256)
        return bytes(changed)

    for _ in range(30):
        found, looked_at = sizes(path, change=damaged)
        assert found >= 0
        assert looked_at <= 1000
    assert sizes(path, change=lambda raw: b"") == (0, 0)


def test_what_is_signed_for_grows_with_a_long_text(tmp_path):
    settings = Settings(label="y", text=("text",))
    held = []
    for long in (2_000_000, 4_000_000):
        path = written(tmp_path / f"{long}.parquet", [*SHORT, "long " * long], row_group_size=500)
        source = open_source(path, options=table_options(settings))
        held.append(source.info().reader_bytes)
    assert held[1] - held[0] > 2 * 10_000_000


def test_columns_are_looked_up_in_schemas_that_are_made_once(tmp_path, monkeypatch):
    path, made = tmp_path / "wide.parquet", []
    pq.write_table(pa.table({"y": [0, 1], **{f"c{j}": [0.5, j] for j in range(60)}}), path)
    whole = pq.ParquetFile.schema_arrow

    def counted(file):
        made.append(file)
        return whole.fget(file)

    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", property(counted))
    assert open_source(path, options=table_options(Settings(label="y"))).info().reader_bytes > 0
    assert len(made) < 10
