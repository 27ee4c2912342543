"""The one language of tables: what a record may be (`histogram`), and what is published of records (`published`)."""
