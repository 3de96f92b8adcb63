"""Floors: what a table's models are to beat. They see the same tokens, vectors and splits, and have no seeds."""
