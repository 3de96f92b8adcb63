"""Tables, pages and figures that are made from records. Nothing in this package needs JAX."""

FORMATS = ("markdown", "latex", "csv", "json")  # the formats of a table
