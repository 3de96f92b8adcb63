"""The `jaxmatch` command, which `python -m jaxmatch` also runs."""

from jaxmatch.cli import interrupts


def command() -> int:
    """Runs the `jaxmatch` command in its own process."""
    interrupts.exit_on_interrupt()  # before the imports of the command
    from jaxmatch.cli.main import command

    return command()


if __name__ == "__main__":
    raise SystemExit(command())
