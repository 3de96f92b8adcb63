"""What can be known on a device alone, measured there, the most informative first:
`python -m benchmarks.device --help`.
"""
