"""The files of a model folder, an index or an export: their checksums, and a vocabulary as lines of text.

A file whose checksum is right holds what was written, and its content is trusted. No code in a file is executed.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from jaxmatch.errors import InputError, shown
from jaxmatch.files import read_json

COPY_AGAIN = "copy the folder again"


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns an OSError in the block into an InputError about the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path=path, remedy=COPY_AGAIN) from error


def read_checked(folder: Path, name: str, checksums: Mapping[str, str], remedy: str = COPY_AGAIN) -> bytes:
    """Reads a file of a folder, and checks its SHA-256 checksum.

    Raises:
      InputError: the file cannot be read, or has another checksum.
    """
    with reading(folder / name):
        content = (folder / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != checksums.get(name):
        raise InputError("is damaged: its checksum differs", path=folder / name, remedy=remedy)
    return content


def check_replaceable(folder: Path, description: str, kind: str) -> None:
    """Checks that a folder holds only the files that its description lists, since replacing it removes all files.

    Arguments:
      folder: the folder to write. It may be missing or empty.
      description: the name of the JSON file in the folder that lists all other files under "sha256".
      kind: the content that the folder is to have, such as "an index", for error messages.

    Raises:
      InputError: the folder has no such description, or holds a file that the description does not list.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    problem, remedy = f"there is something else than {kind}", "name a new folder"
    try:
        listed = [PurePosixPath(name) for name in read_json(folder / description)["sha256"].keys()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(problem, path=folder, remedy=remedy) from error
    known = {PurePosixPath(description), *listed, *(above for name in listed for above in name.parents)}
    present = {PurePosixPath(path.relative_to(folder).as_posix()) for path in folder.rglob("*")}
    if other := sorted(present - known):
        raise InputError(f"{problem}: {shown(str(other[0]))}", path=folder, remedy=remedy)


def encode_words(words: Sequence[str]) -> bytes:
    """Encodes words in UTF-8, one per line. A word that a line cannot store unchanged is written as JSON, in quotes."""
    return "".join(f"{_escaped(word)}\n" for word in words).encode()


def _escaped(word: str) -> str:
    # Line ends, blanks of other scripts and lone surrogates would not be read as they were written.
    return word if word and word.isprintable() and not word.startswith('"') else json.dumps(word)


def decode_words(content: bytes) -> tuple[str, ...]:
    """Decodes the words that `encode_words` encoded."""
    lines = content.split(b"\n")[:-1]
    return tuple(json.loads(line) if line.startswith(b'"') else line.decode() for line in lines)
