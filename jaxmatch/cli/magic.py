"""`%jaxmatch` in a notebook: the command, in the notebook's own process.

    %load_ext jaxmatch
    %jaxmatch sweep sweeps/quickstart.py --workdir runs/quickstart

A process of its own would start and compile everything again for each command, and would find the accelerator's memory
taken by the notebook. Progress is printed as lines, and Stop interrupts as Ctrl-C does in a shell.
"""

import shlex
from typing import Any

from jaxmatch.cli.main import main
from jaxmatch.printable import printable


def register(shell: Any) -> None:
    """Adds `%jaxmatch` to an IPython shell."""
    shell.register_magic_function(run, magic_kind="line", magic_name="jaxmatch")


def run(line: str) -> None:
    """Runs `jaxmatch` with the words after `%jaxmatch`, which are split as in a shell.

    Raises:
      UsageError: the line cannot be split, or the command failed and has printed why. IPython prints the error as one
        line and runs no further cell.
    """
    from IPython.core.error import UsageError  # the caller has IPython; no other code needs it

    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(printable(f"jaxmatch: {error}: {line}")) from None
    try:
        status = main(words)
    except SystemExit as end:  # argparse exits this way, also after --help
        status = end.code
    if status:
        raise UsageError(f"jaxmatch ended with status {status}")
