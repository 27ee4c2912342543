"""Read block tables as the Bureau publishes them, for real geography (docs/spec/files.md#block-tables)."""
