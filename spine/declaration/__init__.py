"""The TopDown Algorithm of a declaration: any hierarchy, table, workload and declared figures.

    form            what the file says, in its own keys         declaration     product, allocation and passes of it
    product         axes, recodes and zeros                     hierarchy       a spine of the table of leaves
    figures         what is declared, and whether it can be     released        the same of a wide table's release
    published       tables besides those of the queries
    shipped/        the declarations that come with the program; those of the redistricting data are the runs of 2020

Pure functions: no files, no noise, no records. Every fault names its key. docs/declarations.md has the format.
"""
