"""What can be known on a device alone, measured there in the order of what it tells:
`python -m benchmarks.device --help`.
"""
