"""A TopDown release, as the page shows it: by geography and table, for its three kinds of geounit."""
