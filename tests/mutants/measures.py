"""Faults of measures."""

MUTANTS = []
