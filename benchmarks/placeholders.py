"""The command of a benchmark as its results show it: without the user's folders."""

from collections.abc import Callable, Mapping
from pathlib import Path

_NAMES = {
    "--data-directory": "DATA",
    "--vectors": "VECTORS",
    "--peer": "PEER",
    "--peer-python": "PEER_PYTHON",
    "--results": "RESULTS",
    "--workdir": "WORKDIR",
}


def with_placeholders(words: list[str], shown: Mapping[str, Callable[[Path], str]] | None = None) -> list[str]:
    """Returns the words of a command with a placeholder for each folder or file.

    Arguments:
      words: the words of the command.
      shown: option -> a function of its file that returns what to show instead of the placeholder.
    """
    names = {option: (lambda _, name=name: name) for option, name in _NAMES.items()} | dict(shown or {})
    found = []
    for before, word in zip(["", *words], words, strict=False):
        option, equals, value = word.partition("=")
        if before in names:
            found.append(names[before](Path(word)))
        else:
            found.append(f"{option}={names[option](Path(value))}" if equals and option in names else word)
    return found
