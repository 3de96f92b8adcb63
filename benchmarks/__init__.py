"""Speed and memory, measured: `python -m benchmarks --help`. Not part of the installed package."""
