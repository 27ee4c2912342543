"""The two faces of `das tune`: terminal tables and an offline page."""
