"""What a person looks at: terminal tables, charts, the tuning page and its workbook."""
