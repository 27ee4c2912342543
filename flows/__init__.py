"""Everything that users start: the Prefect flows, their parameters, the cluster they use, the command line."""

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from das_flows import check_packages

check_packages()  # for processes that do not start with `das`, such as Prefect's worker

# Quiet, offline and patient by default; prefect and distributed read these variables when they are imported.
for _name, _value in (
    ("PREFECT_SERVER_ANALYTICS_ENABLED", "false"),
    ("DO_NOT_TRACK", "1"),
    ("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120"),  # the default, 20, is too short on a busy machine
    ("DASK_DISTRIBUTED__VERSION__CHECK", "false"),
):
    os.environ.setdefault(_name, _value)

# Numpy and Arrow read these when they are imported. A process with threads must not be forked, so they start none. They
# are set in processes of `das` alone: in another program the threads are its own.
LIBRARIES = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # as numpy's: what one has freed, the other may use
}

# A run without a Prefect server needs no folder in HOME.
warnings.filterwarnings("ignore", "Failed to create the Prefect home directory")


@contextmanager
def importing() -> Iterator[None]:
    """Import large modules in this block: the garbage collector never visits their objects, which are never freed."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
