"""Opens a file of word vectors as lines of bytes: plain text, gzip, or a member of a zip archive."""

import codecs
import contextlib
import gzip
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from jaxmatch import plain_file
from jaxmatch.data.readers.lines import listed
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

# So much of the file is held at a time while it is read.
BLOCK_BYTES = 1 << 22
# A longer line is no vector: it has room for 50,000 numbers of 20 characters.
LONGEST_LINE = 1 << 20


def split_path(path: str | Path) -> tuple[Path, str]:
    """(the file on disk, the member meant inside it or ''), for a path that may lead into a zip archive."""
    path = Path(path)
    if not os.path.exists(path):
        for parent in path.parents:
            if parent.suffix.lower() == ".zip" and os.path.isfile(parent):
                return parent, path.relative_to(parent).as_posix()
    return path, ""


def file_of(path: str | Path) -> Path:
    """The file on disk that holds the vectors.

    Raises:
      InputError: it is not there, or is no regular file.
    """
    archive, _ = split_path(path)
    plain_file.require_plain_file(
        archive, missing="there is no such vector file", remedy="name a .txt, .txt.gz or .zip file in GloVe's layout"
    )
    return archive


def file_name(path: str | Path) -> str:
    """A short name for tables: 'glove.840B.300d' for '/data/glove.840B.300d.txt.gz'."""
    name = Path(path).name
    for suffix in (".gz", ".zip", ".txt"):
        name = name.removesuffix(suffix)
    return name


@contextlib.contextmanager
def open_lines(path: Path) -> Iterator[Iterator[bytes]]:
    """The lines of a file of word vectors, without their ends.

    Raises:
      InputError: no such file, no regular file, a damaged archive, or a line longer than 1 MiB.
    """
    archive = file_of(path)
    with contextlib.ExitStack() as opened:
        with _naming(archive):
            stream = _open(opened, path)
        yield _lines(stream, path)


@contextlib.contextmanager
def _naming(archive: Path) -> Iterator[None]:
    """Has whatever reading a file raises name it: the errors of the decompressors have no class in common."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        of_the_system = isinstance(error, OSError) and error.errno is not None
        if of_the_system or isinstance(error, RuntimeError):  # encrypted, or packed by an unknown method
            reason = error.strerror if of_the_system else error
            raise InputError(f"the word vectors cannot be read ({reason})", path=archive) from error
        raise InputError(f"the archive is damaged ({error})", path=archive, remedy="fetch it again") from error


def _open(opened: contextlib.ExitStack, path: Path) -> BinaryIO:
    """The stream to read; `opened` closes it."""
    archive, member = split_path(path)
    if archive.suffix.lower() == ".zip":
        contents = opened.enter_context(zipfile.ZipFile(archive))
        return opened.enter_context(contents.open(_member(contents, archive, member)))
    if archive.suffix.lower() == ".gz":
        return opened.enter_context(gzip.open(archive, "rb"))
    return opened.enter_context(open(archive, "rb"))


def _member(archive: zipfile.ZipFile, path: Path, wanted: str) -> str:
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    names = [name for name in names if not name.startswith("__MACOSX/")]
    if wanted:
        if wanted in names:
            return wanted
        raise InputError(f"the archive holds no {shown(wanted)}", path=path, remedy=f"it holds {listed(names)}")
    names = [name for name in names if name.endswith(".txt")] or names
    if len(names) != 1:
        problem = f"the archive holds {len(names)} files" + (f": {listed(names)}" if names else "")
        remedy = (
            f"name one of them behind the archive, as in {shown(f'{path.name}/{names[0]}', 200)}"
            if names
            else "fetch it again"
        )
        raise InputError(problem, path=path, remedy=remedy)
    return names[0]


def _lines(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    """Lines without their ends; every stream is read in large blocks, whatever its own line reading costs.

    Raises:
      InputError: the stream is damaged, or a line is longer than `LONGEST_LINE`; of such a line no more than a block
        is held.
    """
    rest, before = b"", 0
    archive, _ = split_path(path)
    while True:
        with _naming(archive):
            block = stream.read(BLOCK_BYTES)
        if not block:
            break
        if not before and not rest:
            block = block.removeprefix(codecs.BOM_UTF8)
        lines = (rest + block).split(b"\n")
        if max(map(len, lines)) > LONGEST_LINE:
            number = before + 1 + next(place for place, line in enumerate(lines) if len(line) > LONGEST_LINE)
            raise InputError(
                f"the line is longer than {LONGEST_LINE >> 20} MiB",
                path=path,
                line=number,
                remedy="a line is a word and its numbers",
            )
        rest = lines.pop()
        before += len(lines)
        yield from lines
    if rest:
        yield rest
