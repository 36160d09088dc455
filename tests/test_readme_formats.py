"""The commands in README's table of formats run as they stand there."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from format_files import rows, write
from test_remote import needs_moto, s3, upload  # noqa: F401 (a fixture)

README = Path(__file__).parents[1] / "README.md"
X, Y = rows()


def commands():
    text = README.read_text().partition("## Data as you have it")[2].partition("\n\n`predict`")[0]
    table = [line for line in text.split("\n") if line.startswith("|")][2:]
    return [
        command.replace("\\|", "|") for line in table for command in re.findall("`([^`]*llsvm[^`]*)`", line)
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that README's commands name, and with ``llsvm`` in its bin."""
    monkeypatch.chdir(tmp_path)
    for i, part in enumerate((slice(0, 100), slice(100, 300))):
        write(tmp_path, "svm.gz", X[part], Y[part]).rename(f"part-{i}.svm.gz")
    kinds = ["normal.", "smurf.", "neptune."]
    lines = [f"{x:.3f},{['tcp', 'udp'][i % 2]},{i % 7},{kinds[i % 3]}\n" for i, x in enumerate(X[:, 1])]
    Path("kddcup.data_10_percent.gz").write_bytes(gzip.compress("".join(lines).encode()))
    names = {f"x{j}": X[:, j] for j in range(7)}
    pq.write_to_dataset(
        pa.table(names | {"id": np.arange(300), "w": np.ones(300), "churned": Y, "year": np.arange(300) % 2}),
        "sales",
        partition_cols=["year"],
    )
    table = pa.table(names | {"y": Y})
    with pa.ipc.new_file("rows.feather", table.schema) as out:
        out.write_table(table)
    pq.write_table(table, "rows.parquet")
    _anndata()
    write(tmp_path, "npy", X, Y)
    np.save("labels.npy", Y)
    np.savez("X.npz", X=X)
    Path("rows.gz").write_bytes(
        gzip.compress(b"".join(b"%d,%d,%d\n" % (i % 5, i % 3, i % 2) for i in range(99)))
    )
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "llsvm"
    script.write_text(f"#!{sys.executable}\nfrom llsvm.cli import main\nmain()\n")
    script.chmod(0o755)
    return tmp_path


def _anndata():
    import h5py

    with h5py.File("cells.h5ad", "w") as file:
        file["X"] = X
        group = file.create_group("obs/cell_type")
        group["codes"], group["categories"] = Y.astype(np.int8), ["B", "T"]


def run(command, folder):
    code = f'PATH="{folder}/bin:$PATH"; {command}'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=folder)
    # 5: the model is there, but these made-up rows may not converge on unscaled columns
    assert done.returncode in (0, 5), done.stderr
    assert (folder / "m").exists()


def test_there_are_commands_for_every_format():
    text = " ".join(commands())
    for word in (".svm.gz", ".feather", ".h5ad", ".npy", ".npz", "--format csv", "s3://", "sales/"):
        assert word in text


@pytest.mark.parametrize("command", [c for c in commands() if "s3://" not in c])
def test_the_command_runs(folder, command):
    run(command, folder)


@needs_moto
@pytest.mark.parametrize("command", [c for c in commands() if "s3://" in c])
def test_the_remote_command_runs(s3, folder, command):  # noqa: F811
    upload(s3, "rows.parquet", folder / "rows.parquet")
    run(command, folder)
