"""The command `jaxmatch`, which ends with the process that started it: one left behind would hold the device."""

from benchmarks import fresh
from jaxmatch.cli.main import command

if __name__ == "__main__":
    fresh.end_with_parent()
    raise SystemExit(command())
