"""Received releases with faults: one value of a manifest, or one part of a table, changed at a time."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.releases.digests import file_digest
from tasks.releases.manifest import MANIFEST

HOSTILE = ("1e999999999", "1/0", "9" * 990, "1/" + "9" * 990, "-1", "nan", "../../x", "x" * 5000, float("nan"), 1e999)
HOSTILE = (*HOSTILE, -1, 10**30, None, [], {}, [[]], True, "", {"decimal": 1})


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value of a manifest; for many of a kind, only the first's."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for name, each in list(below)[: 1 if path and path[-1] in ("levels", "files", "noise") else None]:
        yield (*path, name)
        yield from leaves(each, (*path, name))


STEERING = "\x1b[2J\x1b[31m\x07\x9b1A\r\u202e[red]:fire:\x7f"  # what a terminal, or rich, would obey
HOSTILE_TEXTS = (STEERING, "\ud800", "*", "a\nb", "/proc/self/mem", 0.5, [1, "x"], {"a": [None]}, "0/1", "1" * 5000)
DOCUMENTS = (
    b"",
    b"{",
    b"\x00\xff",
    b"[" * 100_000,
    b'{"files": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b"9" * 5000,
    b'{"release": "x", "run": "\\ud800", "files": {}}',
)


def copy_of(release: Path, folder: Path) -> Path:
    """A copy of a release whose files may be replaced, but not written."""
    return Path(shutil.copytree(release, folder, copy_function=os.link))


def replace(path: Path, content: bytes) -> None:
    """Put another file in the place of one."""
    path.unlink()
    path.write_bytes(content)


def forge(release: Path) -> None:
    """Write the digests of the files as they are now into the manifest."""
    manifest = json.loads((release / MANIFEST).read_bytes())
    manifest["files"] = {name: file_digest(release / name) for name in manifest["files"] if (release / name).is_file()}
    replace(release / MANIFEST, json.dumps(manifest).encode())


def change_manifest(release: Path, draw: random.Random) -> str:
    """Replace or remove one value of the manifest, or the whole; return what was done."""
    if draw.random() < 0.05:
        document = draw.choice(DOCUMENTS)
        replace(release / MANIFEST, document)
        return f"manifest {document[:30]!r}"
    manifest = parent = json.loads((release / MANIFEST).read_bytes())
    path = draw.choice([path for path in leaves(manifest) if path[0] != "files"] + [("files",)])
    for name in path[:-1]:
        parent = parent[name]
    value = draw.choice((*HOSTILE, *HOSTILE_TEXTS))
    if draw.random() < 0.2:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    replace(release / MANIFEST, json.dumps(manifest).encode())
    return f"manifest {path} {value!r:.40}"


CHANGES: dict[str, Callable[[pa.ChunkedArray], Any]] = {
    "binary": lambda column: pa.array([b"\xff\x00"] * len(column)),
    "text": lambda column: pa.array([STEERING] * len(column)),
    "digits": lambda column: pa.array(["9" * 4000] * len(column)),
    "floats": lambda column: pa.array([float("nan")] * len(column)),
    "infinite": lambda column: pa.array([float("-inf")] * len(column)),
    "large": lambda column: pa.array([2**63 - 1] * len(column)),
    "nothing": lambda column: pa.nulls(len(column)),
    "nulls": lambda column: pa.nulls(len(column), column.type),
    "lists": lambda column: pa.array([[1]] * len(column)),
    "structs": lambda column: pa.array([{"a": 1}] * len(column)),
    "times": lambda column: pa.array([0] * len(column), pa.timestamp("s")),
    "truth": lambda column: pa.array([True] * len(column)),
}


def change_table(release: Path, draw: random.Random) -> str:
    """Change one column or file of the release's tables, with the digest that fits; return what was done."""
    path = draw.choice(sorted(release.rglob("*.parquet")) + sorted(release.glob("tabulated/*")))
    said = str(path.relative_to(release))
    if path.suffix != ".parquet" or draw.random() < 0.1:
        content = path.read_bytes()
        wrong = (
            b"",
            content[: len(content) // 2],
            b"\x00\xff" * 99,
            content.replace(b"|", b"\x1b|"),
            b"a|b\n" + b"|" * 99,
        )
        replace(path, draw.choice(wrong))
    else:
        table, change = pq.read_table(path), draw.choice([*CHANGES, "drop", "rename", "empty", "twice"])
        name = draw.choice(table.column_names)
        at, said = table.column_names.index(name), f"{said} {name} {change}"
        if change in CHANGES:
            table = table.set_column(at, name, CHANGES[change](table[name]))
        elif change == "drop":
            table = table.drop_columns([name])
        elif change == "rename":
            table = table.rename_columns([STEERING if one == name else one for one in table.column_names])
        else:
            table = table.slice(0, 0) if change == "empty" else pa.concat_tables([table, table])
        path.unlink()
        pq.write_table(table, path)
    forge(release)
    return said
