"""Faults of commands."""

MUTANTS = []
