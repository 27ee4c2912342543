"""Published microdata of persons and units as a public truth: read them and make inputs (docs/published.md)."""
