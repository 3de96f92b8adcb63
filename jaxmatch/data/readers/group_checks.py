"""Checks that a file is not a ranking with a missing or misspelled `group`.

Without its groups, a ranking would silently be trained as a classification.
"""

import difflib
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxmatch.errors import InputError
from jaxmatch.printable import shown


def unexpected_group(what: str, training: str, path: Path, line: int, name: str) -> InputError:
    """Returns the error for a group in a file whose training file has none.

    Arguments:
      what: what has the group, for the message.
      training: its counterpart in the training file, for the message.
      path, line: where the group is.
      name: the name of the column or key of the group.
    """
    return InputError(
        f"{what} has a {shown(name)}, {training} has none",
        path=path,
        line=line,
        remedy="give all pairs a group, or set the task to 'classification' to ignore them",
    )


def check_spelling(names: Iterable[str], path: Path, line: int | None, known: Sequence[str]) -> None:
    """Checks that no name looks like a misspelled `group`, which would silently turn a ranking into a classification.

    Arguments:
      names: the names of the columns or keys.
      path: the file, for error messages.
      line: the line of the names, for error messages.
      known: the names that are read, the group last. If the group is among `names`, no name is refused.

    Raises:
      InputError: a name that is not known looks like `group`.
    """
    if known[-1] in names:
        return
    for name in names:
        if name not in known and _looks_like_group(name):
            raise InputError(
                f"{shown(name)} is not a known name",
                path=path,
                line=line,
                remedy="did you mean 'group'? For a ranking, rename it or give --columns group=NAME; otherwise set the "
                "task to 'classification'",
            )


@functools.lru_cache
def _looks_like_group(name: str) -> bool:
    return bool(difflib.get_close_matches(name.lower(), ("group",), cutoff=0.75))
