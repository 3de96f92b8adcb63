"""Faults of data."""

MUTANTS = []
