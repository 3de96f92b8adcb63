"""What is made of records: tables, pages, figures. Nothing here needs JAX."""

FORMATS = ("markdown", "latex", "csv", "json")  # of a table
