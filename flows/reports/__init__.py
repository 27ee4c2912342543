"""The output for readers: terminal tables, charts, the tuning page and its workbook, the pages of `das show`."""
