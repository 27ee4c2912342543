import hashlib
import hmac
import pickle
import traceback

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.noise.randomness import NOISE_SCHEME_VERSION, Keystream, RunSecret, query_key

KEY = bytes(range(32))
LIMIT = 1 << 63
cheap = settings(max_examples=25, derandomize=True, deadline=None)


def counter_mode(nonce, words):
    """The stream from its beginning, by `cryptography`'s own counter mode, read word by word."""
    stream = (
        Cipher(algorithms.AES(KEY), modes.CTR(nonce.to_bytes(8, "big") + bytes(8))).encryptor().update(bytes(8 * words))
    )
    return [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(words)]


@pytest.mark.parametrize("nonce", [0, 1, 12345678901234567890])
def test_words_are_counter_mode(nonce):
    words = Keystream(KEY, nonce).words(0, 1001)
    assert words.dtype == np.uint64
    assert words.tolist() == counter_mode(nonce, 1001)


def test_a_known_answer():
    """AES-256 of the zero block under the key 00 01 ... 1f, byte by byte: the order of bytes in a word is fixed."""
    block = bytes.fromhex("f29000b62a499fd0a9f39a6add2e7780")
    assert Keystream(KEY).words(0, 2).astype("<u8").tobytes() == block


@cheap
@given(start=st.integers(0, 500), count=st.integers(0, 200))
def test_words_anywhere_are_the_same_words(start, count):
    expected = counter_mode(0, 700)
    assert Keystream(KEY).words(start, count).tolist() == expected[start : start + count]


@cheap
@given(
    rows=st.lists(st.integers(0, 40), max_size=30),
    width=st.integers(1, 47),
    nonce=st.integers(0, 2**64 - 1),
    part=st.floats(0, 1),
)
def test_rows_are_the_words_at_their_addresses(rows, width, nonce, part):
    expected = Keystream(KEY, nonce).words(0, 41 * 47)
    table = Keystream(KEY, nonce).rows(np.array(rows, np.int64), width)
    assert table.shape == (len(rows), width)
    assert table.dtype == np.uint64
    for row, words in zip(rows, table, strict=True):
        np.testing.assert_array_equal(words, expected[row * width : row * width + width])
    stop = max(1, int(part * width))
    np.testing.assert_array_equal(Keystream(KEY, nonce).rows(np.array(rows, np.int64), width, stop), table[:, :stop])


@pytest.mark.parametrize("width", [1, 2, 3, 46])
def test_far_out(width):
    last = LIMIT // width - 1
    rows = np.array([last, last - 1, 2**32 // width, 2**33 // width + 1], np.int64)
    table = Keystream(KEY).rows(rows, width)
    for row, words in zip(rows.tolist(), table, strict=True):
        np.testing.assert_array_equal(words, Keystream(KEY).words(row * width, width))


def test_small_integer_rows_do_not_overflow():
    rows = np.array([2**31 - 1], np.int32)
    np.testing.assert_array_equal(Keystream(KEY).rows(rows, 46)[0], Keystream(KEY).words((2**31 - 1) * 46, 46))


def test_limits():
    stream = Keystream(KEY)
    assert len(stream.words(LIMIT - 3, 3)) == 3
    for start, count in ((LIMIT - 2, 3), (-1, 2), (0, -1), (LIMIT, 1)):
        with pytest.raises(ValueError, match=r"2\^63"):
            stream.words(start, count)
    for row, width in ((-1, 1), (LIMIT // 46, 46), (LIMIT - 1, 2)):
        with pytest.raises(ValueError, match=r"2\^63"):
            stream.rows(np.array([0, row]), width)
    for bounds in ((0,), (3, 0), (3, 4)):
        with pytest.raises(ValueError, match="at least one word"):
            stream.rows(np.array([0]), *bounds)
    with pytest.raises(ValueError, match="32 bytes"):
        Keystream(b"short")
    with pytest.raises(ValueError, match="nonce"):
        Keystream(KEY, nonce=1 << 64)
    with pytest.raises(TypeError):
        stream.rows(np.array([0.5]), 1)


def hkdf(secret, info):
    """RFC 5869 with SHA-256, no salt, 32 bytes: by hand."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def test_query_key_is_hkdf_of_fields_with_their_lengths():
    key = query_key(RunSecret(KEY), input_digest="ab", configuration_digest="cd", query="USA 1 totals", width=46)
    fields = ["das-flows", str(NOISE_SCHEME_VERSION), "noise", "ab", "cd", "USA 1 totals", "46"]
    assert key == hkdf(KEY, b"".join(len(f).to_bytes(8, "big") + f.encode() for f in fields))


def test_everything_separates_the_streams():
    fields = {"input_digest": "a", "configuration_digest": "b", "query": "c"}
    keys = [
        query_key(RunSecret(KEY), **fields),
        query_key(RunSecret(bytes(32)), **fields),
        query_key(RunSecret(KEY), **fields, purpose="refinement"),
        query_key(RunSecret(KEY), **fields, version=NOISE_SCHEME_VERSION + 1),
        query_key(RunSecret(KEY), **fields, width=2),
        query_key(RunSecret(KEY), **fields | {"input_digest": "b"}),
        query_key(RunSecret(KEY), **fields | {"configuration_digest": "c"}),
        query_key(RunSecret(KEY), **fields | {"query": "d"}),
        # the same text, cut elsewhere
        query_key(RunSecret(KEY), input_digest="ab", configuration_digest="", query="c"),
        query_key(RunSecret(KEY), input_digest="", configuration_digest="ab", query="c"),
        query_key(RunSecret(KEY), input_digest="a", configuration_digest="bc", query=""),
    ]
    assert len(set(keys)) == len(keys)
    streams = np.array([Keystream(key).words(0, 64) for key in keys])
    assert len(np.unique(streams)) == streams.size


def test_a_secret_comes_from_the_system_and_shows_nothing():
    secrets = [RunSecret.generate() for _ in range(8)]
    assert len({secret.expose() for secret in secrets}) == 8
    assert {len(secret.expose()) for secret in secrets} == {32}
    secret = secrets[0]
    for text in (repr(secret), str(secret), f"{secret}", repr(Keystream(secret.expose()))):
        assert secret.expose().hex() not in text
        assert repr(secret.expose())[2:-1] not in text
    with pytest.raises(TypeError, match="cannot be pickled") as caught:
        pickle.dumps(secret)
    assert secret.expose().hex() not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ValueError, match="32 bytes") as refused:
        RunSecret(b"too short a secret")
    assert "too short" not in str(refused.value)


def test_digest_of_a_secret():
    label = b"".join(len(f).to_bytes(8, "big") + f for f in (b"das-flows", b"run secret digest"))
    assert RunSecret(KEY).digest() == hashlib.sha256(label + KEY).hexdigest()
    assert RunSecret(KEY).digest() != hashlib.sha256(KEY).hexdigest()
