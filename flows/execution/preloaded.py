"""What the workers of every run have imported when they start: the fork server imports this, and ends with the run."""

import gc
import os
import signal
from functools import partial

gc.disable()  # imports make objects that all stay

import distributed.nanny  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pyarrow.parquet  # noqa: E402, F401
import scipy.sparse  # noqa: E402, F401

import tasks.lifecycle.workers  # noqa: E402, F401
from tasks.lifecycle.process import end_with_parent  # noqa: E402

RUN = os.getppid()
LOOK_SECONDS = 1


def _end_after_run(*_: object) -> None:
    if os.getppid() != RUN:
        os._exit(0)


# A worker in a long kernel would not hear from Dask that its run was killed before the kernel ends. So the fork server,
# which has nothing else to do, looks for the run, and its workers end with it. A timer, for it must have no threads.
signal.signal(signal.SIGALRM, _end_after_run)
signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
os.register_at_fork(after_in_child=partial(end_with_parent, signal.SIGKILL))

gc.freeze()  # workers share their pages for as long as nobody writes to them
gc.enable()
