"""A process that has persons or the run's secret in its memory leaves no image of it when it dies."""

from __future__ import annotations

import resource


def no_core_dumps() -> None:
    """Allow this process, and what it starts, no core dump.

    A handler that the kernel pipes dumps to (systemd-coredump, apport) is told of the limit and keeps nothing either.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
