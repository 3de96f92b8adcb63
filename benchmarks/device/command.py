"""The command `jaxmatch`. It ends with its parent process, because a leftover process would hold the device."""

from benchmarks import fresh
from jaxmatch.cli.main import command

if __name__ == "__main__":
    fresh.end_with_parent()
    raise SystemExit(command())
