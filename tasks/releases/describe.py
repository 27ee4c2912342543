"""The end of every release: tables/, README.txt, datapackage.json, dictionary.csv and manifest.json of its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tasks.memory import return_memory
from tasks.releases.datapackage import write_package
from tasks.releases.description import Description
from tasks.releases.manifest import file_names, write_manifest
from tasks.releases.readme import README, readme
from tasks.releases.tidy import TidyFile, tidy_files
from tasks.releases.tidy_rows import write_tidy


def write_descriptions(
    out: Path,
    description: Description,
    manifest: dict[str, Any],
    write_all: Callable[[Sequence[TidyFile]], object] | None = None,
) -> None:
    """Write tables/ of a release in OUT, README.txt, what describes its tables, and then OUT/manifest.json.

    write_all: writes tables/ where workers do so; by default this process does, one after the other.
    """
    made = tidy_files(out, description)
    if write_all:
        write_all(made)
    else:
        for each in made:
            write_tidy(out, each, out / each.parquet, out / each.text)
        return_memory()  # of their rows
    files = file_names(out)
    tables = write_package(out, description, manifest, files)
    (out / README).write_text(readme(manifest, tables, files), "utf-8")
    write_manifest(out, manifest)
