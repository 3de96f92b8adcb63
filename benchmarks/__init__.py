"""Benchmarks of speed and memory: `python -m benchmarks --help`. They are not part of the installed package."""
