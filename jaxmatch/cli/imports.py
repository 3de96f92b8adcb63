"""`--import FILE_OR_MODULE`: an option of every command, which loads extensions of the package (jaxmatch/extend.py)."""

import os
from collections.abc import Sequence

from jaxmatch.errors import InputError

OPTION = "--import"
HELP = f"{OPTION} FILE_OR_MODULE, with any command: load models, scores, data sets or hyperparameters of your own first"


def take_imports(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Takes all `--import` options out of a command line. Words after `--` are not taken.

    Returns:
      The words that are left, and the files and modules to import.

    Raises:
      InputError: an option has no value, or names a Python file that does not exist.
    """
    rest: list[str] = []
    names: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            rest += [word, *left]
        elif word == OPTION or word.startswith(f"{OPTION}="):
            name = word.partition("=")[2] if "=" in word else next(left, "")
            if name.endswith(".py") and not os.path.lexists(name):
                raise InputError("there is no such file", path=name, remedy="give a Python file or a module")
            if not name:
                raise InputError(f"{OPTION} has no value", remedy="give it a file that ends in .py, or a module")
            names.append(name)
        else:
            rest.append(word)
    return rest, names
