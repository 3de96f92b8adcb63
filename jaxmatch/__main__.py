"""`python -m jaxmatch` is the `jaxmatch` command."""

from jaxmatch.cli.main import command

if __name__ == "__main__":
    raise SystemExit(command())
