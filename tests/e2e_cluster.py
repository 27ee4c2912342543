"""A Dask cluster as an operator starts one: a scheduler and two workers, processes of their own, TLS between them."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    `options` let `das run` in, `log` is what scheduler and workers said, `mode` a file that the preload may read.
    """

    options: tuple[str, ...]
    scheduler: subprocess.Popen[bytes]
    log: Path
    mode: Path


@contextmanager
def tls_cluster(folder: Path, preload: Path) -> Iterator[Cluster]:
    """A scheduler and two workers on loopback, with certificates of this test alone; workers run a script first."""
    write_certificates(folder)
    mode = folder / "mode"
    mode.touch()
    files = {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key")}
    tls = ["--tls-ca-file", files["ca"], "--tls-cert", files["cert"], "--tls-key", files["key"]]
    scratch = str(folder / "scratch")
    found, log = folder / "scheduler.json", folder / "log"
    with ExitStack() as stack:
        output = stack.enter_context(open(log, "wb"))

        def start(*words: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, *tls, "--no-dashboard", "--scheduler-file", str(found)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"DAS_TEST_MODE": str(mode)},
            )
            stack.callback(_end, process)
            return process

        scheduler = start("scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", "0")
        start("worker", "--nworkers", "2", "--nthreads", "1", "--local-directory", scratch, "--preload", str(preload))
        while not found.exists():
            assert scheduler.poll() is None, log.read_text()
            time.sleep(0.05)
        address = json.loads(found.read_text())["address"]
        options = (
            "--scheduler",
            address,
            "--tls-ca",
            files["ca"],
            "--tls-cert",
            files["cert"],
            "--tls-key",
            files["key"],
        )
        yield Cluster(tuple(options), scheduler, log, mode)


def _end(process: subprocess.Popen[Any]) -> None:
    """End a process, the hard way if need be."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def write_certificates(folder: Path) -> None:
    """A certificate authority that lives only here, and one certificate for both sides: ca.pem, cert.pem, key.pem."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test cluster")])
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])

    def signed(name: x509.Name, owner: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(owner.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=True)
            .sign(authority, SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    (folder / "ca.pem").write_bytes(signed(issuer, authority, x509.BasicConstraints(ca=True, path_length=None)))
    (folder / "cert.pem").write_bytes(signed(subject, key, loopback))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
