"""Encode the three files, chunk by chunk, as rows sorted by bucket; check every row of every file.

A bucket holds all rows of its housing units, so buckets are joined separately. Everything here is confidential.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from tasks.errors import PUT_BACK, Refused
from tasks.lifecycle.files import load_object, open_array, remove, save_arrays, save_object
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records.files import unchanged
from tasks.records.findings import Finding, has_errors, keep_findings, refuse
from tasks.records.marks import mark_files, name_if_covered, read_mark
from tasks.records.records import digest_by_workers, join_reports, read_chunk
from tasks.s_dhc.records import KINDS, FileKind, read_rows
from tasks.s_dhc.run import SOURCES, Sources

ENCODED = "prepared/encoded"
SCATTER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: neighbours go to different buckets


def open_sources(data: str) -> tuple[Sources | None, list[Finding]]:
    """Open the files of a data directory; return None if there are findings."""
    files, findings = {}, []
    for name, kind in KINDS.items():
        file, faults = kind.open(data)
        findings += faults
        if file is not None:
            files[name] = file
    if findings:
        return None, findings
    return Sources(files, {name: file.chunks for name, file in files.items()}), []


def encode(run: RunDirectory, workers: Workers, data: str) -> Input:
    """Check every row of every file and encode it: rows/FILE/NUMBER. Return digests and mark.

    A run that has encoded continues from its own copy if the files are unchanged or gone. Raises Refused if a row has a
    fault, or a file cannot be read or changes meanwhile. The findings are in the run's findings.json, never in the
    message.
    """
    sources, findings = open_sources(data)
    if (run / ENCODED).exists():
        encoded = load_object(run / ENCODED, Input)
        if sources is not None and (
            sources != load_object(run / SOURCES, Sources)
            or tuple(digest_by_workers(run, workers, file.path) for file in sources.files.values())
            != encoded.records_digests
        ):
            raise Refused(f"run {run.id} began with other files; {PUT_BACK}")
        return encoded
    if sources is None:
        refuse(run, findings)
    remove(run / "rows", run / "counts", run / "noisy")  # left by an interrupted try
    with unchanged([*(file.path for file in sources.files.values()), *mark_files(data)]):
        encoded = _encode(run, workers, sources, data)
    save_object(run / ENCODED, encoded)
    return encoded


def _encode(run: RunDirectory, workers: Workers, sources: Sources, data: str) -> Input:
    save_object(run / SOURCES, sources)
    pieces = [(name, number) for name, chunks in sources.chunks.items() for number in range(chunks)]
    workers.map("encode", run, encode_chunk, pieces)
    findings: list[Finding] = []
    digests = {}
    for name, file in sources.files.items():
        read = join_reports(run, workers, file, run / f"rows/{name}")
        findings += read.findings
        digests[name] = read.digest
    if has_errors(findings):
        refuse(run, findings)
    keep_findings(run, findings)
    mark = name_if_covered(read_mark(data), {file.name: digests[name] for name, file in sources.files.items()})
    text = "".join(f"{name} {digest}\n" for name, digest in digests.items())
    return Input(sha256(text.encode()).hexdigest(), tuple(digests.values()), mark)


def encode_chunk(run: RunDirectory, name: str, number: int) -> None:
    """Encode one chunk of a file: rows/NAME/NUMBER with `rows`, uint64, by bucket, and `starts` of the buckets."""
    at = run / f"rows/{name}/{number:05d}.report"
    if at.exists():
        return
    sources = load_object(run / SOURCES, Sources)
    kind, file = KINDS[name], sources.files[name]
    rows, report = read_rows(kind, file, read_chunk(file, number))
    unit = rows >> np.uint64(kind.bits)
    bucket = ((unit * SCATTER) >> np.uint64(56)).astype(np.uint8) & np.uint8(sources.buckets - 1)
    order = np.argsort(bucket, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=sources.buckets))])
    save_arrays(run / f"rows/{name}/{number:05d}", {"rows": rows[order], "starts": starts})
    save_object(at, report)


def rows_of(run: RunDirectory, kind: FileKind, bucket: int) -> NDArray[np.uint64]:
    """Return the rows of a file in a bucket, sorted by housing unit."""
    sources = load_object(run / SOURCES, Sources)
    parts = []
    for number in range(sources.chunks[kind.name]):
        folder = run / f"rows/{kind.name}/{number:05d}"
        start, stop = open_array(folder, "starts")[bucket : bucket + 2].tolist()
        parts.append(open_array(folder, "rows")[start:stop].copy())  # so that the file does not stay open
    rows = np.concatenate(parts)
    rows.sort()
    return rows
