"""The certificate of a cluster on this machine: made for it alone, in memory, and gone with it."""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from distributed.security import Security

ALWAYS = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def own_security() -> Security:
    """Return a key and a certificate for all sides of one cluster, as Dask's `Security.temporary` does.

    Dask's is valid from the second in which it is made: once the clock is set back, no worker connects any more. This
    one's dates say nothing, since the key ends with the cluster.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dask-internal")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ALWAYS[0])
        .not_valid_after(ALWAYS[1])
        .sign(key, SHA256())
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM).decode()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    sides = ("client", "scheduler", "worker")
    each = {f"tls_{side}_cert": shown for side in sides} | {f"tls_{side}_key": secret for side in sides}
    return Security(require_encryption=True, tls_ca_file=shown, **each)
