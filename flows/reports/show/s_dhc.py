"""The pages of an S-DHC release: those of its tables."""

from __future__ import annotations

from flows.reports.show.release_pages import ReleasePages
from tasks.s_dhc.description import states_of_nation


class SDhcPages(ReleasePages):
    """The views of an S-DHC release."""

    states_of_nation = staticmethod(states_of_nation)
