"""Run the commands that the pages show and write what they print: `make docs`.

A ```console block holds shell commands, each after "$ ", and below each what it prints. The commands of a page run in
one empty folder, in order. A ```python NAME.py block is first written to that folder as the file NAME.py. Where the
output depends on noise or on the clock, the block says `console noisy`: its numbers are not compared.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGES = [DOCS / f"{name}.md" for name in ("tutorial", "elsewhere", "published")]
README = DOCS.parent / "README.md"  # by `make pictures`, which shows what its commands release

FENCE = re.compile(r"^```(console(?: noisy)?|python \S+\.py)\n(.*?)^```$", re.M | re.S)
BAR = re.compile(r"━.*\d:\d\d:\d\d *$|^(Run|Truth|Validating|Accuracy|Estimate|Areas)( of)?( [\w-]+)? *$")  # progress
USER = f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"  # as `das ledger show` has it
# A name of a run that was given none: when it began, and four digits.
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


def run(page: str, only: str = "") -> str:
    """Return the page with the present output of its commands, or of the blocks that name `only`."""
    with tempfile.TemporaryDirectory(prefix="das-docs-") as folder:
        return run_in(folder, page, only)


def run_in(folder: str, page: str, only: str = "") -> str:
    """Return the page as `run` does; its commands run, and leave what they make, in an empty folder."""

    def block(match: re.Match[str]) -> str:
        kind, text = match[1], match[2]
        if kind.startswith("python"):
            Path(folder, kind.split()[1]).write_text(text, "utf-8")
            return match[0]
        commands = re.findall(r"^\$ (.*)$", text, flags=re.M)
        if not any(only in line for line in commands):
            return match[0]
        return f"```{kind}\n" + "".join(f"$ {line}\n{_output(line, folder)}" for line in commands) + "```"

    return FENCE.sub(block, page)


def _output(line: str, folder: str) -> str:
    """Run one line of shell; return what it prints, without progress bars and without the folder's name."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "GITHUB_"))} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": f"{folder}/.state",
        "COLUMNS": "110",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    printed: list[str] = []
    at_bar = False
    for text in done.stdout.splitlines():
        at_bar = bool(BAR.search(text)) or (at_bar and not text.strip())  # the empty lines below a bar go with it
        if not at_bar:
            printed.append(text.rstrip())
    text = "\n".join(printed).strip("\n")
    text = re.sub(rf"{re.escape(folder)}/([^\s│]* *)(?=│)", lambda cell: cell[1] + " " * (len(folder) + 1), text)
    text = text.replace(f"{folder}/", "").replace(folder, ".")
    text = text.replace(USER, f"{'das@census':<{len(USER)}}")
    return RUN_ID.sub("20261121-090000-1a2b", text) + "\n" if text else ""


def alike(block: str) -> str:
    """Return a noisy block as it is compared: digests and numbers, with a star or without, as 0, runs of spaces and of
    lines as one.
    """
    numbers = re.sub(r"\b[0-9a-f]{32,}\b|[-+]?\d[\d.,:+T-]*(e[-+]?\d+)?\*?", "0", block)
    return re.sub(r"\s+", " ", re.sub(r"[─━┄]+", "─", numbers))  # a title may fit its table's width or not


def differences(page: str) -> list[str]:
    """Return the blocks of a page that its commands no longer print."""
    shown, printed = (list(FENCE.finditer(text)) for text in (page, run(page)))
    return [
        new[0]
        for old, new in zip(shown, printed, strict=True)
        if (alike(old[2]) != alike(new[2]) if "noisy" in old[1] else old[2] != new[2])
    ]


def main() -> None:
    """Write the pages that are named, or all, anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--only", default="", help="only blocks with a command that contains this, as `das tune`")
    options = parser.parse_args()
    for page in options.pages:
        page.write_text(run(page.read_text("utf-8"), options.only), "utf-8")


if __name__ == "__main__":
    main()
