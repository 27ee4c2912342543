"""The container of deploy/Dockerfile: built by deploy/container.sh where Debian's tools are, and not run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("buildah", "debootstrap")
Inside = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def inside() -> Iterator[Inside]:
    """What runs a shell's line in the container, as the image's user."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"no {', '.join(missing)}: apt-get install {' '.join(TOOLS)}")  # CI builds where the tools are
    if os.geteuid() != 0:
        pytest.skip("only root may build a file system")
    with tempfile.TemporaryDirectory(prefix="das-container-") as folder:
        build = [ROOT / "deploy/container.sh", folder]
        built = subprocess.run(build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
        assert built.returncode == 0, built.stdout[-3000:]
        buildah = ["buildah", "--root", f"{folder}/store", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]
        subprocess.run([*buildah, "from", "--name", "das", "das-flows"], check=True, capture_output=True)

        def run(line: str) -> subprocess.CompletedProcess[str]:
            words = [*buildah, "run", "--isolation", "chroot", "das", "--", "sh", "-c", line]
            return subprocess.run(words, capture_output=True, text=True, timeout=300)

        yield run


def test_its_user_is_not_root_and_cannot_change_the_program(inside: Inside) -> None:
    assert inside("id -un").stdout == "das\n"
    assert inside("touch /opt/das-flows/flows/run.py").returncode != 0
    assert inside("touch /opt/venv/bin/das").returncode != 0


def test_it_holds_nothing_that_only_developers_use(inside: Inside) -> None:
    assert inside("ls -A /opt/das-flows/.git /opt/das-flows/tests").stdout == ""
    assert inside("python -c 'import pytest'").returncode != 0


def test_it_has_kernels_and_a_database_for_its_user(inside: Inside) -> None:
    made = inside("cd /opt/venv/share/das-flows && cat prefect/*.db kernels/*/*/*.nbc | wc -c")
    assert int(made.stdout) > 3_000_000, made.stderr


def test_a_run_in_it_is_released_and_its_release_checked(inside: Inside) -> None:
    ended = inside("das synth ~/ex && das run ~/ex/params ~/ex/data ~/out && das check ~/out/us && das check ~/out/pr")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert inside("stat -c %U:%a ~/out/us/manifest.json").stdout == "das:644\n"
