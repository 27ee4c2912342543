"""Block tables as the public downloads them, for whoever needs real geography (docs/spec/files.md#block-tables)."""
