"""`das deployment`: write out the files of deploy/, for an installation without a checkout."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from flows.reports.terminal import show
from tasks.errors import Refused
from tasks.lifecycle.process import HOME

CHECKOUT = "/opt/das-flows"  # where the files of deploy/ expect das-flows
OF_A_CHECKOUT = ("Dockerfile", "Dockerfile.dockerignore", "container.sh")  # build an image of it


def deployment(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
) -> None:
    """Write the deployment files: Prefect's deployments, service units, policy, clusters.

    They name this installation and FOLDER where those of a checkout name /opt/das-flows; README.md among them says how
    they are used. `prefect deploy` runs in the folder that `environment` calls DAS_HOME.

    **Example:** `das deployment /etc/das-flows/deploy`
    """
    folder = folder.absolute()
    if folder.exists():
        raise Refused(f"{folder} exists: name a new folder")
    places = {f"{CHECKOUT}/.venv": sys.prefix, f"{CHECKOUT}/deploy": str(folder), CHECKOUT: str(HOME)}
    written = [each for each in _files() if each.name not in OF_A_CHECKOUT]
    for each in written:
        text = each.read_text(encoding="utf-8")
        for place, here in places.items():
            text = text.replace(place, here)
        target = folder / each.relative_to(_source())
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    words = Text(f"{len(written)} files in {folder}; next: README.md there", no_wrap=True, overflow="ignore")
    show({"folder": folder, "files": len(written)}, lambda: words)


def _source() -> Path:
    """Return the folder of the files: package data, which a checkout has as deploy/."""
    return Path(str(files("flows"))) / "deploy"


def _files() -> list[Path]:
    return sorted(path for path in [*_source().glob("*"), *_source().glob("clusters/*")] if path.is_file())
