"""The command `jaxmatch`. It ends with its parent process, because a leftover process would hold the device."""

from benchmarks import fresh_process
from jaxmatch.cli.main import command

if __name__ == "__main__":
    fresh_process.end_with_parent()
    raise SystemExit(command())
