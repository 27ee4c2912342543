"""What every release has: tables with their description, manifest, checks, report, and pages."""
