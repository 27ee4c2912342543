"""Each system is one record: what it names is there, and its releases and runs are known by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.execution.settings import keep_settings, load_settings
from flows.execution.systems import SYSTEMS, released_by
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.run_directory import SETTINGS
from tests.flows.conftest import Das

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_record_names_what_is_there(name: str) -> None:
    system = SYSTEMS[name]
    assert system.settings.SYSTEM == system.name == name
    assert all(callable(system.part(part)) for part in ("flow", "stages", "check", "release_checks", "page"))
    flow = system.part("flow")
    assert flow.name == name
    room = "/".join(system.release_checks.split(".")[:2])
    written = [path.read_text() for path in (ROOT / room).rglob("*.py")]
    assert sum(f'"release": "{system.title}"' in source for source in written) == 1
    assert released_by(system.title) is system


def test_a_run_that_began_under_the_version_before_is_refused_in_a_line(
    das: Das, state_home: Path, tmp_path: Path
) -> None:
    settings = SYSTEMS["detailed-dhca"].settings.new(
        params="p", data="d", out=str(tmp_path), jurisdiction="us", run_id="old"
    )
    run = settings.directory
    run.create()
    keep_settings(run, settings)
    assert load_settings(run) == settings
    for name in ("run.json", "bottom-up.json", "top-down.json"):
        (run / SETTINGS).rename(run / name)
        code, _, err = das("run", "--resume", "old", "--state", state_home)
        assert (code, err.count("\n")) == (1, 1)
        assert "run old began under das-flows 0.1" in err
        with pytest.raises(Refused, match="began under das-flows"):
            keep_settings(run, settings)
        assert das("runs", "list", "--state", state_home)[0] == 0
        (run / name).rename(run / SETTINGS)
    (run / SETTINGS).rename(run / "run.json")
    assert das("runs", "discard", "old", "--state", state_home)[0] == 0
    assert not run.path.exists()
