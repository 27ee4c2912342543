"""The Detailed DHC-B (SafeTab-H): households by type and by tenure for detailed race and ethnicity groups."""
