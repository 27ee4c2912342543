"""Pages of the tables of any release, by its datapackage.json: find, filter, sort, sum, map and download."""
