"""A Dask cluster as an operator starts one: a scheduler and a worker on each host, TLS between them (deploy/README.md).

The hosts are loopback addresses, or network namespaces of this machine that share nothing but its files. The tests of a
run on several hosts use it.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

PRELOAD_FILE = "DAS_PRELOAD_FILE"
DASK_CONFIG = Path(__file__).resolve().parents[1] / "deploy/dask.yaml"


@dataclass(frozen=True)
class Host:
    """A host: its address, and the words before a command that run it there."""

    address: str
    enter: tuple[str, ...] = ()


LOOPBACK = (Host("127.0.0.1"), Host("127.0.0.2"))


class NoNamespacesError(Exception):
    """Network namespaces cannot be made here; the message says why."""


@contextmanager
def namespaces() -> Iterator[tuple[Host, Host]]:
    """Two network namespaces with a cable between them, and no way to anywhere else; gone when the block ends.

    Needs root and Debian's iproute2. Raises NoNamespacesError.
    """
    if os.geteuid():
        raise NoNamespacesError("network namespaces need root")
    if not shutil.which("ip"):
        raise NoNamespacesError("network namespaces need the command ip (Debian's iproute2)")
    names = [f"das-{os.getpid()}-{letter}" for letter in "ab"]
    addresses = ["10.83.0.1", "10.83.0.2"]
    with ExitStack() as stack:
        for name in names:
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
        _ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, addresses, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                _ip("-n", name, "link", "set", device, "up")
        first, second = (
            Host(address, ("ip", "netns", "exec", name)) for name, address in zip(names, addresses, strict=True)
        )
        yield first, second


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise NoNamespacesError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    `options` let `das run` in, `log` is what scheduler and workers said, `note` a file that the preloaded script finds
    in DAS_PRELOAD_FILE; `workers` are the processes that keep the worker of each host; `join` starts one more.
    """

    options: tuple[str, ...]
    scheduler: subprocess.Popen[bytes]
    workers: tuple[subprocess.Popen[bytes], ...]
    log: Path
    note: Path
    join: Callable[[Host], subprocess.Popen[bytes]]

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a flow's cluster that say what `options` do."""
        _, address, *certificates = self.options
        pairs = (word.split("=") for word in certificates)
        return {"scheduler": address} | {name.removeprefix("--").replace("-", "_"): path for name, path in pairs}


@contextmanager
def tls_cluster(folder: Path, preload: Path, hosts: Sequence[Host] = LOOPBACK) -> Iterator[Cluster]:
    """A scheduler on the first host and a worker of one thread on each, with certificates of their own.

    Workers run the script `preload` first. Whatever lies in `folder` is theirs.
    """
    write_certificates(folder, [host.address for host in hosts])
    files = {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key")}
    tls = ["--tls-ca-file", files["ca"], "--tls-cert", files["cert"], "--tls-key", files["key"]]
    scheduler_file, log, note = folder / "scheduler.json", folder / "log", folder / "note"
    note.touch()
    with ExitStack() as stack:
        output = stack.enter_context(open(log, "wb"))

        def start(host: Host, *words: str) -> subprocess.Popen[bytes]:
            command = [*host.enter, sys.executable, "-m", "dask", *words, "--host", host.address, *tls]
            process = subprocess.Popen(
                [*command, "--no-dashboard", "--scheduler-file", str(scheduler_file)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"DASK_CONFIG": str(DASK_CONFIG), PRELOAD_FILE: str(note)},
            )
            stack.callback(_end, process)
            return process

        any_port = ("--port", "0", "--dashboard-address", f"{hosts[0].address}:0")
        scheduler = start(hosts[0], "scheduler", "--protocol", "tls", *any_port)

        def join(host: Host) -> subprocess.Popen[bytes]:
            scratch = folder / f"scratch-{host.address}"
            return start(
                host, "worker", "--nthreads", "1", "--local-directory", str(scratch), "--preload", str(preload)
            )

        workers = tuple(map(join, hosts))
        while not (address := _address(scheduler_file)):
            if scheduler.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        certificates = (f"--tls-{name}={path}" for name, path in files.items())
        yield Cluster(("--scheduler", address, *certificates), scheduler, workers, log, note, join)


def _address(file: Path) -> str | None:
    """The address in a scheduler file, once it is there as a whole: Dask does not rename it into place."""
    try:
        return str(json.loads(file.read_text())["address"])
    except (FileNotFoundError, ValueError):
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody needs a goodbye from; a worker without a scheduler would take its time for one."""
    process.kill()
    process.wait()


def write_certificates(folder: Path, addresses: Sequence[str]) -> None:
    """A certificate authority that lives only here, and one certificate for all sides: ca.pem, cert.pem, key.pem."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test cluster")])
    places = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address)) for address in addresses])

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
    (folder / "cert.pem").write_bytes(signed(subject, key, places))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
