"""Analyses of trained models and of records."""
