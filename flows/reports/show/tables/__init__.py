"""Pages of the tables of any release, by its datapackage.json: to find, filter, sort, sum, map and take away."""
