"""What a person starts: the Prefect flows, their parameters, the cluster they use, the command line."""

import os

# Quiet and offline, unless the environment says otherwise; read when prefect and distributed are imported.
for _name, _value in (
    ("PREFECT_SERVER_ANALYTICS_ENABLED", "false"),
    ("DO_NOT_TRACK", "1"),
    ("DASK_DISTRIBUTED__VERSION__CHECK", "false"),
):
    os.environ.setdefault(_name, _value)
