"""The process of a temporary Prefect server: what it is set to, and its database.

Its settings are its own, whatever the environment, the profiles and the files (.env, prefect.toml, pyproject.toml) of
its command say: they may name a user's database or an office's. So is its home, which is removed when it ends.

The database begins as a copy of a template, empty and migrated, since migrations take as long as a small run. There is
one for each version of Prefect.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import sys
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from tasks.lifecycle.errors import Refused
from tasks.lifecycle.process import end_with_parent

LISTENING = 3  # the number of the file that the process answers on
PASSWORD = "PREFECT_SERVER_API_AUTH_STRING"  # a variable, since arguments are shown to every user of the machine
DATABASE = "prefect.db"  # where Prefect has it in its home
TEMPLATES = "prefect"  # the folder with the installation, or below the state folder
# No automations, no stream of events to watchers, no blocks, no record of tasks: nobody but the flow talks to this
# server, and that asks for nothing but the states of the flow run.
SETTINGS = {
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_API_EVENTS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_ENABLED": "false",
}


def serve(parent: str, home: str, state: str) -> NoReturn:
    """Be the server until a signal or the end of the parent, then remove its home and exit.

    Parameters
    ----------
    parent
        the process that started this one.
    home
        an empty folder of the server's own, open to its owner only.
    state
        the state folder, where the database's template is kept unless it is with the installation.
    """
    try:
        signal.signal(signal.SIGTERM, _end)
        end_with_parent(signal.SIGTERM)
        if os.getppid() == int(parent):
            _take_own_settings(home)
            _prepare_database(Path(home, DATABASE), Path(state))
            _answer()
    except SystemExit:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        shutil.rmtree(home, ignore_errors=True)
        os._exit(0)  # without waiting for threads


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one, at the parent's death, is not to keep its home
    sys.exit()


def _take_own_settings(home: str) -> None:
    """Forget what the command's environment and its folder say of Prefect."""
    password = os.environ[PASSWORD]
    for name in [name for name in os.environ if name.upper().startswith("PREFECT_")]:
        del os.environ[name]
    os.environ |= SETTINGS | {"PREFECT_HOME": home, PASSWORD: password}
    os.chdir(home)
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()  # a forked process has read the command's


def _answer() -> None:
    gc.disable()  # imports make a million objects, all of which stay
    import uvicorn
    from prefect.server.api.server import create_app

    config = uvicorn.Config(partial(create_app, ephemeral=True), factory=True, log_level="error", lifespan="on")
    config.load()
    gc.freeze()
    gc.enable()
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=LISTENING)])


def _prepare_database(database: Path, state: Path) -> None:
    """Make an empty, migrated database from a template; where there is none, migrate, and keep one if possible."""
    import prefect

    from tasks.lifecycle.files import atomic_path
    from tasks.lifecycle.private_folder import make_private
    from tasks.lifecycle.process import cache_folders

    templates = [folder / f"{prefect.__version__}.db" for folder in cache_folders(TEMPLATES, state)]
    for template in templates:
        with suppress(OSError):
            shutil.copyfile(template, database)
            return
    from prefect.server.database import provide_database_interface

    asyncio.run(provide_database_interface().create_db())
    if database.with_name(f"{DATABASE}-wal").exists():  # a write-ahead log: the file is not all
        return
    for template in templates:
        with suppress(OSError, Refused):
            if template.parent == state / TEMPLATES:
                make_private(state, may_be_link=True)
            with atomic_path(template, durable=True) as copy:
                shutil.copyfile(database, copy)
            return
