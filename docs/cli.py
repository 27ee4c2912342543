"""Write cli.md, next to this file: every command of `das` with its help. `make site` does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

PAGE = Path(__file__).resolve().with_suffix(".md")
WIDTH = 110  # columns of the page's blocks
HEAD = """# Every command of `das`

What `das COMMAND --help` prints. With `--json` a command prints one JSON document instead of tables. Exit codes: 0
done; 1 refused, with the reason, and nothing written; 2 usage error; 3 stopped: continue with `das run --resume ID`.
"""


def leaves(command: Any, name: str = "das") -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with its full name: all but the groups of commands."""
    groups = getattr(command, "commands", None)
    if groups is None:
        yield name, command
    else:
        for word, below in groups.items():
            yield from leaves(below, f"{name} {word}")


@cache
def das_commands() -> dict[str, Any]:
    """Return the commands of `das` by their full names."""
    from flows.cli import app

    return dict(leaves(typer.main.get_command(app)))


def made() -> str:
    """Return the page."""
    from flows.cli import app

    terminal = CliRunner(env={"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"})
    sections = [HEAD]
    for name in das_commands():
        printed = terminal.invoke(app, [*name.split()[1:], "--help"], prog_name="das").output
        lines = [line.rstrip() for line in printed.strip().splitlines()]
        sections.append("\n".join([f"## {name}\n", f"```console\n$ {name} --help", *lines, "```\n"]))
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(made(), "utf-8")
