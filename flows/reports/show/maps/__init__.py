"""Maps of a release as SVG that the server draws: points or shapes, classes, and what lies under both, a projection."""
