"""The settings behind the rows of the papers' tables, and the numbers that the papers printed."""
