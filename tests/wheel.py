"""Build the source distribution and, from what it holds, the wheel: tests/wheel.py FOLDER."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def built(kind: str, source: Path, folder: Path) -> Path:
    """Return the distribution of a kind ("sdist", "wheel") that setuptools made of a source tree."""
    words = [sys.executable, "-c", BUILD, f"build_{kind}", str(folder)]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return folder / done.stdout.splitlines()[-1]


def build(folder: Path) -> tuple[Path, Path]:
    """Return the source distribution and the wheel in a folder, where the newest take the place of older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        sdist = built("sdist", ROOT, folder.absolute())
        with tarfile.open(sdist) as archive:
            archive.extractall(made, filter="data")
        (source,) = Path(made).iterdir()
        return sdist, built("wheel", source, folder.absolute())


if __name__ == "__main__":
    for path in build(Path(sys.argv[1])):
        print(f"{os.path.getsize(path) / 1e6:.1f} MB  {path}")
