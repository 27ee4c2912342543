"""The three forms of `das tune`: terminal tables, an offline page, a workbook with live formulas."""
