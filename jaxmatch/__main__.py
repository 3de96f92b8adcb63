"""The `jaxmatch` command, which `python -m jaxmatch` also runs."""

import sys


def command() -> int:
    """Runs the `jaxmatch` command in its own process."""
    try:
        from jaxmatch.cli.main import command

        return command()
    except KeyboardInterrupt:  # before or after the command can handle it
        print("jaxmatch: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(command())
