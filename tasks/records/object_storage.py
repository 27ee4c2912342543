"""Inputs on object storage: pyarrow's own drivers for S3, Google Cloud Storage and Azure, for fsspec's URLs.

No other library is needed: the drivers are locked with pyarrow. Credentials come from the environment, as the stores'
own tools expect them (deploy/README.md#inputs-on-object-storage), never from an option, which Prefect would store.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper

STORES = ("s3", "gs", "gcs", "az", "abfs")  # by the protocols of their URLs


def connect(store: str) -> Any:
    """Return the file system of a store, as the environment configures it."""
    import pyarrow.fs

    if store == "s3":  # and stores compatible with it
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return pyarrow.fs.S3FileSystem(endpoint_override=endpoint)
    if store in ("gs", "gcs"):
        return pyarrow.fs.GcsFileSystem()
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise ValueError("AZURE_STORAGE_ACCOUNT_NAME is not set: it names the account of the container")
    return pyarrow.fs.AzureFileSystem(account, account_key=os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"))


class Objects(ArrowFSWrapper):  # type: ignore[misc]  # fsspec has no types
    """Objects of a store by URL, STORE://BUCKET/NAME."""

    protocol = STORES

    def __init__(self, store: str, **options: Any) -> None:
        super().__init__(connect(store), **options)

    @staticmethod
    def _get_kwargs_from_urls(url: str) -> dict[str, str]:
        return {"store": url.partition("://")[0]}

    def info(self, path: str, **options: Any) -> Any:
        """Return the store's description of an object."""
        with _named(path):
            return super().info(path, **options)

    def _open(self, path: str, mode: str = "rb", *rest: Any, **options: Any) -> Any:
        with _named(path):
            return super()._open(path, mode, *rest, **options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> Any:
        """Return bytes of an object; fsspec's own method needs streams that report their position."""
        return super().cat_file(path, start, end, seekable=True, **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.partition("://")[2] or path


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Give errors of a store the `errno` that every file system's errors have; pyarrow's lack it."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise OSError(errno.EIO, f"its store answers: {str(error).splitlines()[0][:300]}", path) from None


def register() -> None:
    """Have fsspec open the URLs of these stores with the drivers of this file."""
    for store in STORES:
        fsspec.register_implementation(store, Objects, clobber=True)
