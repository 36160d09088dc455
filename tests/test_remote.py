"""Remote files: a local S3 server (moto), and pyarrow's ``file://`` for what does not need one."""

import importlib.util
import os
import subprocess
import sys
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
from format_files import OPTIONS, WRITERS, rows, write
from source_suite import SourceSuite
from test_formats import dense_of
from typer.testing import CliRunner

from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import DataError, UsageError
from llsvm.files import remote
from llsvm.files.expansion import expand
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.train import load, train
from llsvm.training.training import Training

X, Y = rows(2000)
needs_moto = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("moto", "flask", "flask_cors")),
    reason="needs a local S3 server: pip install moto flask flask-cors",
)


@pytest.fixture(scope="module")
def s3():
    """An S3 server with an empty bucket ``bucket``, in the environment; the bucket's file system."""
    import logging

    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    logging.getLogger("werkzeug").disabled = True
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        remote._file_system.cache_clear()
        made = fs.S3FileSystem(
            scheme="http",
            endpoint_override=f"{host}:{port}",
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        made.create_dir("bucket")
        yield fs.SubTreeFileSystem("bucket", made)
    remote._file_system.cache_clear()
    server.stop()


def upload(s3, key, path):
    with s3.open_output_stream(key, compression=None) as out:
        out.write(path.read_bytes())
    return f"s3://bucket/{key}"


def llsvm(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def llsvm_command(*words, **environment):
    code = "from llsvm.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@needs_moto
@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_is_read_from_a_server(s3, tmp_path, kind):
    address = upload(s3, f"one/{kind}/rows.{kind}", write(tmp_path, kind, X[:500], Y[:500]))
    source = open_source(address, options=OPTIONS.get(kind, {}))
    for _ in range(2):
        found, y = dense_of(source)
        np.testing.assert_array_equal(found, X[:500])
        np.testing.assert_array_equal(y, Y[:500])
    assert 0 < source.bytes_read <= 2 * source.info().n_bytes


@needs_moto
class TestRemoteCSV(SourceSuite):
    def make_source(self, tmp_path):
        return open_source(f"file://{write(tmp_path, 'csv', X[:60], Y[:60])}")

    @pytest.fixture
    def source(self, s3, tmp_path):
        return open_source(upload(s3, "suite/rows.csv.gz", write(tmp_path, "csv.gz", X[:60], Y[:60])))


@needs_moto
@pytest.mark.parametrize("kind", ["csv", "vector.parquet", "svm.gz", "h5"])
def test_rereading_without_a_cache(s3, tmp_path, kind):
    """Every pass reads from the server again, and the optimum is that of local rows."""
    big, y = rows(80_000)
    address = upload(s3, f"again/rows.{kind}", write(tmp_path, kind, big, y))
    settings = Settings(bias=1.0, scale="none", cache="never", spill_dir=str(tmp_path))
    source = open_source(address)
    info = source.info
    source.info = lambda: replace(info(), reader_bytes=0)  # so that the limit is one on the rows
    with Training(source, settings, budget=MemoryBudget(3_400_000, 0)) as training:
        places = {training.stream.place for report in training if report.kind == "pass"}
        assert places == {"source"}
        assert training.model.converged
        assert source.bytes_read > 2 * source.info().n_bytes
        ours = training.model.certificate.total_primal
    theirs = train(big, y, bias=1.0).certificate
    assert theirs.total_dual <= ours <= theirs.total_primal * 1.001


@needs_moto
def test_several_files_folders_and_patterns(s3, tmp_path):
    for i, part in enumerate((slice(0, 700), slice(700, 701), slice(701, 2000))):
        for kind in ("parquet", "svm.gz"):
            upload(s3, f"many/part={i}/{kind}/a b+{i}.{kind}", write(tmp_path, kind, X[part], Y[part]))
    upload(s3, "many/_SUCCESS", tmp_path / "plain.svm")
    upload(s3, "many/.hidden.parquet", tmp_path / "plain.svm")
    for data in (
        "s3://bucket/many/part=*/parquet/*.parquet",
        "s3://bucket/many/**/*.parquet",
        "s3://bucket/many/part=[0-2]/svm.gz/*",
        "s3://bucket/many/part=*/parquet/*.parquet?region=us-east-1",
    ):
        assert len(expand([data]).files) == 3
        options = {"exclude": ("part",)} if "parquet" in data else {}
        found, y = dense_of(open_source(data, options=options))
        np.testing.assert_array_equal(found, X)
        np.testing.assert_array_equal(y, Y)


@needs_moto
def test_training_prediction_and_conversion(s3, tmp_path):
    address = upload(s3, "cli/rows.csv", write(tmp_path, "csv", X, Y))
    model, output = "s3://bucket/cli/m.llsvm", "s3://bucket/cli/labels.txt"
    run = llsvm("train", address, "--model", model, "--bias", 1, "--quiet")
    assert run.exit_code == 0, run.stderr
    assert load(model).converged
    assert "A linear model" in llsvm("inspect", model).stdout
    for target in ("h5", "parquet", "feather", "svm"):
        converted = f"s3://bucket/cli/out.{target}"
        run = llsvm("convert", address, converted)
        assert run.exit_code == 0, run.stderr
        found, y = dense_of(open_source(converted))
        np.testing.assert_array_equal(found, X)
        np.testing.assert_array_equal(y, Y)
    run = llsvm("predict", model, "s3://bucket/cli/out.parquet", "--output", output)
    assert run.exit_code == 0, run.stderr
    labels = s3.open_input_stream("cli/labels.txt").read().split()
    assert np.mean(np.array(labels, float) == Y) > 0.75


@pytest.mark.parametrize(
    ("address", "shown", "opened"),
    [
        ("s3://KEY:SECRET@bucket/a.csv", "s3://bucket/a.csv", "s3://KEY:SECRET@bucket/a.csv"),
        ("s3://KEY:SEC/R+T@bucket/a", "s3://bucket/a", "s3://KEY:SEC%2FR%2BT@bucket/a"),
        (
            "s3://KEY:SEC%2FRT@bucket/a?region=x",
            "s3://bucket/a?region=x",
            "s3://KEY:SEC%2FRT@bucket/a?region=x",
        ),
        ("abfs://:SECRET@account.net/c", "abfs://account.net/c", "abfs://:SECRET@account.net/c"),
        ("x://h/a?client_secret=SECRET&b=1", "x://h/a?b=1", "x://h/a?b=1&client_secret=SECRET"),
        ("gs://anonymous@bucket/a", "gs://anonymous@bucket/a", None),
        ("hdfs://host:8020/user/me@home:x", "hdfs://host:8020/user/me@home:x", None),
        ("s3://bucket/a?region=x", "s3://bucket/a?region=x", None),
        ("rows.csv", "rows.csv", None),
    ],
)
def test_credentials_are_put_aside(address, shown, opened, monkeypatch):
    monkeypatch.setattr(remote, "_credentials", {})
    assert remote.without_credentials(address) == shown
    if "://" in shown:
        assert remote.with_credentials(shown) == (opened or shown)


def test_each_address_finds_its_own_credentials(monkeypatch):
    monkeypatch.setattr(remote, "_credentials", {})
    for address in ("s3://A:1@b/in/part-*", "s3://B:2@b/out/m", "s3://C:3@other/x"):
        remote.without_credentials(address)
    for plain, full in (("b/in/part-7", "A:1@b/in/part-7"), ("b/out/m.log", "B:2@b/out/m.log")):
        assert remote.with_credentials(f"s3://{plain}") == f"s3://{full}"
    assert remote.with_credentials("s3://third/x") == "s3://third/x"


def test_no_message_holds_credentials():
    address = "x3://KEYKEY:SECRETSECRET@somewhere/rows.csv"  # pyarrow's own message repeats the whole address
    for words in (
        ["train", address, "--model", "m"],
        ["train", "rows.csv", f"--model={address}"],
        ["export", address, "a", address],
    ):
        run = llsvm_command(*words, LLSVM_DEBUG="1")
        assert run.returncode in (2, 3)
        assert "x3://somewhere/rows.csv" in run.stderr
        assert "KEYKEY" not in run.stdout + run.stderr
        assert "SECRET" not in run.stdout + run.stderr


@needs_moto
def test_credentials_in_addresses_work_and_are_kept_nowhere(s3, tmp_path, monkeypatch):
    upload(s3, "own/rows.csv", write(tmp_path, "csv", X, Y))
    upload(s3, "own/labels.npy", write(tmp_path, "npy", X, Y))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    own = "s3://KEYKEY:SECRETSECRET@bucket/own"
    run = llsvm_command("train", f"{own}/*.csv", "--model", f"{own}/m", "--json")
    assert run.returncode == 0, run.stderr
    copy = tmp_path / "copy"
    copy.write_bytes(s3.open_input_stream("own/m").read())
    told = llsvm_command("inspect", f"{own}/rows.csv", "--json").stdout
    told += (
        llsvm_command("inspect", f"{own}/m").stdout
        + llsvm_command("predict", f"{own}/m", f"{own}/rows.csv").stdout
    )
    assert "s3://bucket/own/rows.csv" in told
    assert "SECRET" not in told + run.stdout + run.stderr + str(load(copy))
    assert Settings(label=f"{own}/labels.npy").label == "s3://bucket/own/labels.npy"


@needs_moto
def test_nothing_is_sent_after_an_error(s3):
    def stop():
        with remote.replacing("s3://bucket/half") as out:
            out.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stop()
    assert not s3.get_file_info("half").is_file


class _Breaking:
    """A file that cannot be read to its end."""

    def __init__(self, error):
        self.pieces, self.error = [b"half"], error

    def read(self, n):
        if self.pieces:
            return self.pieces.pop()
        raise self.error


@pytest.mark.parametrize("where", [pytest.param("s3", marks=needs_moto), "file"])
@pytest.mark.parametrize("error", [OSError(5, "a disk that fails"), KeyboardInterrupt()])
def test_what_was_there_stays_when_sending_fails(where, error, tmp_path, request):
    from pyarrow import fs

    system, inner = fs.LocalFileSystem(), str(tmp_path / "model")
    if where == "s3":
        request.getfixturevalue("s3")
        system, inner = remote.file_system("s3://bucket/sent/model")
    with system.open_output_stream(inner) as out:
        out.write(b"the older, good one")
    with pytest.raises(type(error)):
        remote._send(_Breaking(error), system, inner)
    with system.open_input_file(inner) as file:
        assert file.read() == b"the older, good one"
    assert len(system.get_file_info(fs.FileSelector(os.path.dirname(inner)))) == 1


def test_a_file_by_its_address_is_replaced_as_a_whole(tmp_path):
    address = f"file://{tmp_path / 'out'}"
    for text in (b"first", b"second"):
        with remote.replacing(address) as out:
            out.write(text)
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [text]


REFUSED = {
    "s3://bucket/none.csv": "there is no such file",
    "s3://none/rows.csv": "there is no such file",
    "s3://bucket/none-*.csv": "there is no file there",
    "s3://none/rows-*.csv": "there is no file there",
    "s3:///rows.csv": "Missing bucket name",
}


@needs_moto
@pytest.mark.parametrize("address", REFUSED)
def test_what_is_not_there(s3, address):
    with pytest.raises(DataError, match=REFUSED[address]) as error:
        open_source(address)
    assert str(error.value).startswith(address.partition("*")[0].rpartition("/")[0])
    assert "check" in str(error.value)
    assert "\n" not in str(error.value)


@needs_moto
def test_no_bucket_to_write_to(s3):
    run = llsvm_command("convert", "s3://bucket/none.csv", "s3://none/out.parquet")
    assert run.returncode == 2
    assert "there is no none to write to" in run.stderr


def _accept_anyone_for(requests):
    """Let the server look at credentials after so many requests."""
    reset = os.environ["AWS_ENDPOINT_URL"] + "/moto-api/reset-auth"
    kind = {"Content-Type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(reset, str(requests).encode(), kind, method="POST"))


@needs_moto
def test_credentials_that_do_not_hold(s3, tmp_path):
    address = upload(s3, "secret/rows.csv", write(tmp_path, "csv", X, Y))
    _accept_anyone_for(0)
    try:
        run = llsvm_command("train", address, "--model", tmp_path / "m")
    finally:
        _accept_anyone_for(1_000_000)
    assert run.returncode == 3
    assert run.stderr.startswith(f"llsvm: error: {address}: cannot be read: ")
    assert "AWS_SECRET_ACCESS_KEY" in run.stderr
    assert run.stderr.count("\n") == 1


def test_no_server():
    run = llsvm_command(
        "inspect",
        "s3://bucket/rows.csv",
        AWS_ENDPOINT_URL="http://127.0.0.1:9",
        AWS_ACCESS_KEY_ID="key",
        AWS_SECRET_ACCESS_KEY="secret",
        AWS_DEFAULT_REGION="us-east-1",
    )
    assert run.returncode == 3
    assert "s3://bucket/rows.csv: cannot be read: " in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("address", ["nosuch://host/rows.csv", "hdfs://localhost:1/rows.csv"])
def test_file_systems_that_are_not_there(address):
    with pytest.raises(DataError) as error:
        open_source(address)
    assert str(error.value).startswith(f"{address}: no file system for this address")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("address", ["https://host/rows.csv", "http://host/"])
def test_what_is_on_the_web_is_to_be_downloaded(address):
    with pytest.raises(DataError, match=r"download it first, or pipe it: curl -s ADDRESS \| llsvm train -"):
        open_source(address)


@pytest.mark.parametrize("address", ["s3://bucket*", "s3://*", "s3://b?/rows-*.csv"])
def test_a_pattern_names_no_bucket(address):
    with pytest.raises(DataError, match="a pattern cannot stand for the name of a bucket, or of a host"):
        expand([address])


def test_a_folder_is_no_output():
    with pytest.raises(UsageError, match="is a folder"):
        remote.require_folder("s3://bucket/")
