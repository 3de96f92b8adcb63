"""Faults of model."""

MUTANTS = []
