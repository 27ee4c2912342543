"""Check a release from its own files."""
