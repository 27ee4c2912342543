"""Maps of a release as SVG that the server draws: points or shapes, in classes, and outlines, in a projection."""
