"""`python -m jaxmatch` is the `jaxmatch` command."""

from jaxmatch.cli import interrupts

if __name__ == "__main__":
    interrupts.end_at_once()  # before the imports of the command
    from jaxmatch.cli.main import command

    raise SystemExit(command())
