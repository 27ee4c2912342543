"""A publisher's keys, and signatures of manifests and of acts in the ledger's journal.

The keys are PEM files, as written by `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`. A private key
stays in its file: settings hold its path.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from privacy.accounting.signatures import Signer
from tasks.errors import Refused


def signer(key: Path) -> Signer:
    """Return the signer with a private key; the same bytes get the same signature.

    Raises Refused unless the file is an unencrypted private key of Ed25519. The message quotes nothing of the file.
    """
    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
    except OSError as error:
        raise Refused(f"--sign {key}: {error.strerror}") from None
    except Exception:  # the library's message may quote the key
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise Refused(f"--sign {key}: it is not a private Ed25519 key in PEM without a passphrase")
    return Signer(private.public_key().public_bytes_raw().hex(), lambda content: private.sign(content).hex())


def read_publisher(path: Path) -> str:
    """Return the public key in a file, in hexadecimal. Raises Refused unless the file is a public key of Ed25519."""
    try:
        public = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise Refused(f"--publisher {path}: {error.strerror}") from None
    except Exception:
        public = None
    if not isinstance(public, Ed25519PublicKey):
        raise Refused(f"--publisher {path}: it is not a public Ed25519 key in PEM")
    return public.public_bytes_raw().hex()
