"""What the workers of every run have imported when they start: the fork server imports this."""

import gc

gc.disable()  # imports make objects that all stay

import distributed.nanny  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pyarrow.parquet  # noqa: E402, F401
import scipy.sparse  # noqa: E402, F401

import tasks.lifecycle.workers  # noqa: E402, F401

gc.freeze()  # workers share their pages for as long as nobody writes to them
gc.enable()
