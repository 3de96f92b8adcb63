"""The measurements that need a device, the most informative first: `python -m benchmarks.device --help`."""
