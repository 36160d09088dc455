"""The files that README and guides name, small, and a folder in which their commands find ``llsvm``."""

import csv
import gzip
import json
import os
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from format_files import rows, write
from guide_texts import ROOT, blocks
from sklearn.datasets import dump_svmlight_file, load_digits

X, Y = rows()
RUN_FILES = ROOT / "llsvm" / "guide" / "run-files.md"
PROGRAMS = {"llsvm": "-m llsvm", "python": ""}


def make_files(folder):
    """Write them all to the folder, and the two programs to its bin."""
    _svmlight(folder)
    _tables(folder)
    _arrays(folder)
    [shown] = [block.code for block in blocks(RUN_FILES) if block.kind == "toml"]
    (folder / "nightly.toml").write_text(shown)
    (folder / "bin").mkdir()
    for name, words in PROGRAMS.items():
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        script.chmod(0o755)


def environment(folder):
    """As a user has it who has installed the package, with the programs first on the path."""
    root = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": root}


def _svmlight(folder):
    for i, part in enumerate((slice(0, 100), slice(100, 300))):
        write(folder, "svm.gz", X[part], Y[part]).rename(folder / f"part-{i}.svm.gz")
    (folder / "plain.svm").unlink()
    first, last = slice(0, 200), slice(200, 300)
    for name, part in (("clicks", first), ("clicks-test", last), ("normal", first), ("new", last)):
        dump_svmlight_file(
            X[part].astype(float), 2 * Y[part] - 1, str(folder / f"{name}.svm"), zero_based=False
        )
    images, digits = load_digits(return_X_y=True)
    dump_svmlight_file(images[:200], digits[:200], str(folder / "digits.svm"), zero_based=False)


def _tables(folder):
    sizes = enumerate(100 + 20 * X[:, 1])
    lines = [f"{size:.1f},{['Oslo', 'Lima'][i % 2]},{50_000 + 2_000 * size:.0f}\n" for i, size in sizes]
    (folder / "houses.csv").write_text("".join(["size,town,price\n", *lines]))
    visits = [
        f"{i % 30},{x:.3f},{z:.3f},{y}\n" for i, (x, z, y) in enumerate(zip(X[:, 1], X[:, 2], Y, strict=True))
    ]
    (folder / "visits.csv").write_text("".join(["patient,x,z,label\n", *visits]))
    kinds = ["normal.", "smurf.", "neptune."]
    lines = [f"{x:.3f},{['tcp', 'udp'][i % 2]},{i % 7},{kinds[i % 3]}\n" for i, x in enumerate(X[:, 1])]
    (folder / "kddcup.data_10_percent.gz").write_bytes(gzip.compress("".join(lines).encode()))
    names = {f"x{j}": X[:, j] for j in range(7)}
    pq.write_to_dataset(
        pa.table(names | {"id": np.arange(300), "w": np.ones(300), "churned": Y, "year": np.arange(300) % 2}),
        str(folder / "sales"),
        partition_cols=["year"],
    )
    table = pa.table(names | {"y": Y})
    with pa.ipc.new_file(str(folder / "rows.feather"), table.schema) as out:
        out.write_table(table)
    pq.write_table(table, folder / "rows.parquet")
    events = [
        {"id": i, "clicked": bool(y), "user": {"x": float(x), "country": "FR"}}
        for i, (x, y) in enumerate(zip(X[:, 1], Y, strict=True))
    ]
    with pa.CompressedOutputStream(pa.OSFile(str(folder / "events.jsonl.zst"), "wb"), "zstd") as out:
        out.write("".join(json.dumps(event) + "\n" for event in events).encode())
    cooking = (
        f"__label__{'no' if y else 'yes'} {'boil' if y else 'fry'} the egg {i}\n" for i, y in enumerate(Y)
    )
    (folder / "cooking.train").write_text("".join(cooking))
    ads = (
        f"{2 * y - 1:.0f} |user x:{x:.3f} |ad id={i % 9}\n"
        for i, (x, y) in enumerate(zip(X[:, 1], Y, strict=True))
    )
    (folder / "ads.vw.gz").write_bytes(gzip.compress("".join(ads).encode()))
    towns = ["Oslo", "Lima", "Cairo"]
    people = [
        [20 + i % 50, towns[i % 3], "" if i % 9 == 0 else 100 * i, ["low", "high"][i > 60]] for i in range(99)
    ]
    with open(folder / "people.csv", "w", newline="") as file:
        csv.writer(file).writerows([["age", "town", "savings", "income"], *people])
    few = b"".join(b"%d,%d,%d\n" % (i % 5, i % 3, i % 2) for i in range(99))
    (folder / "rows.gz").write_bytes(gzip.compress(few))


def _arrays(folder):
    with h5py.File(folder / "cells.h5ad", "w") as file:
        file["X"] = X
        group = file.create_group("obs/cell_type")
        group["codes"], group["categories"] = Y.astype(np.int8), ["B", "T"]
    write(folder, "npy", X, Y)
    np.save(folder / "labels.npy", Y)
    np.savez(folder / "X.npz", X=X)
