"""Inputs on object storage: a run from a bucket gives the same bytes as one from a folder."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dhca_inputs import HERE
from e2e_runs import das_process, digest, directory, go, prepared

from tasks.errors import Refused
from tasks.lifecycle.authorization import SECRET
from tasks.records.files import digest_file, exists, identity, locate, open_file, read_bytes, read_lines, why

pytestmark = pytest.mark.slow
BUCKET = "census"


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """A local S3 server with a bucket; gives its client."""
    server_of = pytest.importorskip("moto.server", reason="no moto: pip install 'moto[s3]' flask flask-cors")
    boto3 = pytest.importorskip("boto3")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    environment = {
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.get_host_and_port()[1]}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client
    server.stop()


def upload(store: Any, folder: Path, to: str) -> str:
    for path in folder.iterdir():
        store.put_object(Bucket=BUCKET, Key=f"{to}/{path.name}", Body=path.read_bytes())
    return f"s3://{BUCKET}/{to}"


def test_a_store_can_be_sent_to_a_worker(store: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    filesystem, name = locate(f"{upload(store, tmp_path, 'sent')}/a.txt")
    text = pickle.dumps(filesystem)
    type(filesystem).clear_instance_cache()
    assert pickle.loads(text).cat_file(name) == b"hello"


def test_an_object_is_read_as_a_file_is(store: Any, tmp_path: Path) -> None:
    path = tmp_path / "a b+é.txt"
    path.write_bytes(b"hello\nworld\n" * 1000)
    url = f"{upload(store, tmp_path, 'files')}/{path.name}"
    assert digest_file(url) == digest_file(str(path))
    for start, stop in ((None, None), (0, 6), (5, 8), (11_990, 99_999)):
        assert read_bytes(url, start, stop) == read_bytes(path, start, stop)
    assert read_lines(url, 1, 4096) == read_lines(str(path), 1, 4096)
    pq.write_table(pa.table({"n": range(1000)}), tmp_path / "table.parquet")
    upload(store, tmp_path, "files")
    with open_file(f"s3://{BUCKET}/files/table.parquet") as stream:
        assert pq.ParquetFile(stream).read_row_group(0).num_rows == 1000
    known = identity(url)
    assert known is not None
    assert known["size"] == 12_000
    store.put_object(Bucket=BUCKET, Key=f"files/{path.name}", Body=b"other\n" * 2000)
    assert identity(url) != known or digest_file(url) != digest_file(str(path))


def test_what_is_not_there_is_missing(store: Any) -> None:
    assert not exists(f"s3://{BUCKET}/none")
    with pytest.raises(FileNotFoundError):
        read_bytes(f"s3://{BUCKET}/none")


def test_what_a_store_answers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidding(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(403)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Forbidding) as server:
        Thread(target=server.serve_forever).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        with pytest.raises(OSError, match="its store answers") as refused:
            read_bytes(f"s3://{BUCKET}/data")
        server.shutdown()
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert "AWS Error ACCESS_DENIED" in why(refused.value)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(Refused, match="AZURE_STORAGE_ACCOUNT_NAME is not set"):
        read_bytes("az://container/name")


def test_a_run_from_a_bucket_gives_the_same_bytes(store: Any, example: Path, tmp_path: Path) -> None:
    settings, expected = prepared(example, tmp_path, "bucket-pr")
    there = upload(store, Path(settings.data), "data")
    again = settings.model_copy(
        update={"data": there, "out": str(tmp_path / "again"), "runs_folder": str(tmp_path / "other")}
    )
    directory(again).create()
    (directory(again) / SECRET).write_bytes(bytes(range(32)))
    place = go(again, HERE)
    assert place is not None
    assert digest(place) == expected


def test_a_run_on_workers_reads_a_bucket(store: Any, example: Path, tmp_path: Path) -> None:
    settings, _ = prepared(example, tmp_path, "other-pr")
    params, data = upload(store, Path(settings.params), "params"), upload(store, Path(settings.data), "data")
    out, words = tmp_path / "bucket", ("--runs-folder", tmp_path / "bucket-state", "--workers", 1)
    assert run(params, data, out, *words)[0] == 0
    assert "SYNTHETIC" in json.loads((out / "pr/manifest.json").read_text())
    code, result = run(params, data, f"s3://{BUCKET}/out", *words)
    assert code == 1
    assert "is a URL; give a path, on this machine" in " ".join(result.split())


def run(*words: object) -> tuple[int, str]:
    """`das run` under a temporary server."""
    process = das_process("run", *words, environment={**os.environ, "PREFECT_API_URL": ""})
    result, _ = process.communicate(timeout=240)
    return process.returncode, result
