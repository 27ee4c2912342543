"""The modules that the workers of every run need: the fork server imports this file, and ends with the run."""

import gc
import os
import signal
from functools import partial
from importlib import import_module

gc.disable()  # imports make objects that are never freed

from flows.execution.fork_server import COMMON  # noqa: E402
from tasks.lifecycle.process import end_with_parent  # noqa: E402

for name in COMMON:
    import_module(name)

RUN = os.getppid()
LOOK_SECONDS = 1


def _end_after_run(*_: object) -> None:
    if os.getppid() != RUN:
        raise SystemExit  # which removes the folder of the run's sockets


# A worker in a long kernel would not notice that its run was killed until the kernel ends. So the fork server, which is
# otherwise idle, checks for the run, and its workers end with it. It uses a timer because it must have no threads.
signal.signal(signal.SIGALRM, _end_after_run)
signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
os.register_at_fork(after_in_child=partial(end_with_parent, signal.SIGKILL))

gc.freeze()  # workers share these pages until one writes to them
gc.enable()
