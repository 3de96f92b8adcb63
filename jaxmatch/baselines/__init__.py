"""Floors: baselines for the models of a table to beat. They use the same tokens, vectors and splits, and no seeds."""
