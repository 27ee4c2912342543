"""Published microdata of persons and units as a public truth: read it, and make inputs of it (docs/published.md)."""
