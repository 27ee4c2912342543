"""Inputs on object storage: pyarrow's own drivers for S3, Google Cloud Storage and Azure, for fsspec's URLs.

No other library is needed: the drivers are locked with pyarrow. Credentials come from the environment, as the stores'
own tools expect them (deploy/README.md#inputs-on-object-storage), never from an option, which Prefect would store.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper


class Objects(ArrowFSWrapper):  # type: ignore[misc]  # fsspec has no types
    """Objects of one kind of store by URL, PROTOCOL://BUCKET/NAME."""

    protocols: ClassVar[tuple[str, ...]]

    def __init__(self, **options: Any) -> None:
        super().__init__(self.connect(), **options)

    @staticmethod
    def connect() -> Any:
        """Return the store's file system, as the environment configures it."""
        raise NotImplementedError

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
        return path.partition("://")[2] if path.startswith(cls.protocols) else path


class S3(Objects):
    """AWS S3 and compatible stores: AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL, …"""

    protocols = ("s3://",)

    @staticmethod
    def connect() -> Any:
        """Return the store's file system."""
        from pyarrow.fs import S3FileSystem

        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return S3FileSystem(endpoint_override=endpoint)


class GoogleCloudStorage(Objects):
    """Google Cloud Storage: GOOGLE_APPLICATION_CREDENTIALS."""

    protocols = ("gs://", "gcs://")

    @staticmethod
    def connect() -> Any:
        """Return the store's file system."""
        from pyarrow.fs import GcsFileSystem

        return GcsFileSystem()


class Azure(Objects):
    """Azure Blob Storage, containers of AZURE_STORAGE_ACCOUNT_NAME: AZURE_CLIENT_ID, AZURE_TENANT_ID, …"""

    protocols = ("az://", "abfs://")

    @staticmethod
    def connect() -> Any:
        """Return the store's file system."""
        from pyarrow.fs import AzureFileSystem

        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
        if not account:
            raise ValueError("AZURE_STORAGE_ACCOUNT_NAME is not set: it names the account of the container")
        return AzureFileSystem(account, account_key=os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"))


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Give errors of a store the `errno` that every file system's errors have; pyarrow's have none."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise OSError(errno.EIO, f"its store answers: {str(error).splitlines()[0][:300]}", path) from None


def register() -> None:
    """Have fsspec open the URLs of these stores with the drivers of this file."""
    for store in (S3, GoogleCloudStorage, Azure):
        for protocol in store.protocols:
            fsspec.register_implementation(protocol.removesuffix("://"), store, clobber=True)
