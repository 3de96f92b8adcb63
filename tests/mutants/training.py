"""Faults of training."""

MUTANTS = []
