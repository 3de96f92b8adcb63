"""The `jaxmatch` command, also as `python -m jaxmatch`."""

from jaxmatch.cli import interrupts


def command() -> int:
    """`jaxmatch` as a process of its own."""
    interrupts.end_at_once()  # before the imports of the command
    from jaxmatch.cli.main import command

    return command()


if __name__ == "__main__":
    raise SystemExit(command())
