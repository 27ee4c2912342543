"""Marks of synthetic and of public data, and the chunked digest under them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from dhca_inputs import check_mark, mark_synthetic

from tasks.errors import Refused
from tasks.records.marks import MARK_FILE, MARK_FILES, read_mark
from tasks.releases import digests


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "person-records.txt").write_bytes(b"QAGE\n001\n")
    (tmp_path / "GRF-C.txt").write_bytes(b"TABBLKST\n44\n")
    return tmp_path


def test_file_digest_is_the_digest_of_the_chunks_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "CHUNK_BYTES", 4)
    path = tmp_path / "file"
    for content, chunks in [(b"", []), (b"abcd", [b"abcd"]), (b"abcdefghij", [b"abcd", b"efgh", b"ij"])]:
        path.write_bytes(content)
        by_hand = sha256(b"".join(sha256(chunk).digest() for chunk in chunks)).hexdigest()
        assert digests.file_digest(path) == by_hand == digests.combine(map(digests.chunk_digest, chunks))


def test_a_mark_is_read_back_and_verified(data: Path) -> None:
    assert read_mark(data) is None
    written = mark_synthetic(data)
    assert set(written.digests) == {"person-records.txt", "GRF-C.txt"}
    mark = read_mark(data)
    assert mark == written
    check_mark(mark, data)


@pytest.mark.parametrize("name", ["person-records.txt", "GRF-C.txt"])
def test_data_changed_under_its_mark_is_refused(data: Path, name: str) -> None:
    mark = mark_synthetic(data)
    with (data / name).open("ab") as file:
        file.write(b"9")
    with pytest.raises(Refused, match=f"^{name} is not the file"):
        check_mark(mark, data)


def test_a_file_added_beside_the_marked_ones_is_refused(data: Path) -> None:
    mark = mark_synthetic(data)
    (data / "person-records.parquet").write_bytes(b"real persons")
    with pytest.raises(Refused, match=r"does not cover person-records\.parquet"):
        check_mark(mark, data)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", json.dumps({"generator": "x"}), "\udcff"])
def test_a_damaged_mark_is_refused(data: Path, text: str) -> None:
    (data / MARK_FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(Refused, match="is not a mark"):
        read_mark(data)


def test_a_folder_of_the_top_down_algorithm_is_marked_with_what_it_declares(tmp_path: Path) -> None:
    for name in ("persons.parquet", "quarters.csv", "states.csv", "notes.txt"):
        (tmp_path / name).write_bytes(name.encode())
    assert set(mark_synthetic(tmp_path).digests) == {
        "persons.parquet",
        "quarters.csv",
        "states.csv",
    }
    (tmp_path / "GRF-C.txt").write_bytes(b"TABBLKST\n44\n")
    (tmp_path / "units.txt").write_bytes(b"RTYPE\n2\n")
    mark = mark_synthetic(tmp_path)
    assert set(mark.digests) == {"persons.parquet", "units.txt", "quarters.csv", "states.csv", "GRF-C.txt"}
    check_mark(mark, tmp_path)
    (tmp_path / "states.csv").unlink()
    with pytest.raises(Refused, match=r"holds no states\.csv"):
        mark_synthetic(tmp_path)


@pytest.mark.parametrize("missing", ["person-records.txt", "GRF-C.txt"])
def test_only_whole_data_can_be_marked(data: Path, missing: str) -> None:
    (data / missing).unlink()
    with pytest.raises(Refused, match="holds no"):
        mark_synthetic(data)
    assert not (data / MARK_FILE).exists()


def test_data_is_marked_public_or_synthetic_and_never_both(data: Path) -> None:
    written = mark_synthetic(data, source="published by somebody: a.csv")
    assert (written.name, written.file, read_mark(data)) == ("PUBLIC", "PUBLIC.json", written)
    assert not (data / MARK_FILE).exists()
    with (data / "GRF-C.txt").open("ab") as file:
        file.write(b"9")
    with pytest.raises(Refused, match=r"^GRF-C.txt is not the file that PUBLIC.json declares public"):
        check_mark(written, data)
    mark_synthetic(data)
    with pytest.raises(Refused, match=r"two marks, SYNTHETIC.json and PUBLIC.json"):
        read_mark(data)
    (data / MARK_FILE).replace(data / MARK_FILES["PUBLIC"])
    with pytest.raises(Refused, match=r"PUBLIC.json is not a mark: .* seed, source and digests"):
        read_mark(data)
