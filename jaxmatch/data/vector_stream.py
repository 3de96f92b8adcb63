"""Files of word vectors as lines of bytes: plain text, gzip, or a member of a zip archive."""

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

# The number of bytes that are read at a time.
BLOCK_BYTES = 1 << 22
# A longer line is not a vector: this length has room for 50,000 numbers of 20 characters.
LONGEST_LINE = 1 << 20


def split_path(path: str | Path) -> tuple[Path, str]:
    """Splits a path that may lead into a zip archive. Returns the file on disk, and the member inside it or ''."""
    path = Path(path)
    if not os.path.exists(path):
        for parent in path.parents:
            if parent.suffix.lower() == ".zip" and os.path.isfile(parent):
                return parent, path.relative_to(parent).as_posix()
    return path, ""


def file_of(path: str | Path) -> Path:
    """Returns the file on disk that holds the vectors.

    Raises:
      InputError: the file does not exist, or is not a regular file.
    """
    archive, _ = split_path(path)
    plain_file.require_plain_file(
        archive, missing="there is no such vector file", remedy="name a .txt, .txt.gz or .zip file in GloVe's layout"
    )
    return archive


def file_name(path: str | Path) -> str:
    """Returns a short name for tables: 'glove.840B.300d' for '/data/glove.840B.300d.txt.gz'."""
    name = Path(path).name
    for suffix in (".gz", ".zip", ".txt"):
        name = name.removesuffix(suffix)
    return name


@contextlib.contextmanager
def open_lines(path: Path) -> Iterator[Iterator[bytes]]:
    """Opens a file of word vectors. Yields an iterator over its lines, without line ends.

    Raises:
      InputError: the file does not exist, is not a regular file, or is a damaged archive; or a line is longer than
        1 MiB.
    """
    archive = file_of(path)
    with contextlib.ExitStack() as opened:
        with _convert_errors(archive):
            stream = _open(opened, path)
        yield _lines(stream, path)


@contextlib.contextmanager
def _convert_errors(archive: Path) -> Iterator[None]:
    """Turns errors of reading a file into an InputError that names the file.

    Every exception except MemoryError is converted, because the errors of the decompressors have no common class.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        is_os_error = isinstance(error, OSError) and error.errno is not None
        if is_os_error or isinstance(error, RuntimeError):  # encrypted, or compressed by an unknown method
            reason = error.strerror if is_os_error else error
            raise InputError(f"the word vectors cannot be read ({reason})", path=archive) from error
        raise InputError(f"the archive is damaged ({error})", path=archive, remedy="fetch it again") from error


def _open(opened: contextlib.ExitStack, path: Path) -> BinaryIO:
    """Opens the stream to read; `opened` closes it."""
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
    """Yields lines without their ends. The stream is read in large blocks, because its own line reading can be slow.

    Raises:
      InputError: the stream is damaged, or a line is longer than `LONGEST_LINE`. At most `LONGEST_LINE` bytes and one
        block of such a line are held in memory.
    """
    rest, before = b"", 0
    archive, _ = split_path(path)
    while True:
        with _convert_errors(archive):
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
