"""Faults of workdir."""

MUTANTS = []
