"""Rows of Parquet files, read with pyarrow."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxmatch import plain_file
from jaxmatch.data.readers.lines import listed, rename_remedy
from jaxmatch.errors import InputError, NotInstalled, first_line

_ROWS_AT_ONCE = 4096


def open_parquet(path: Path) -> Any:
    """Opens a file as a `pyarrow.parquet.ParquetFile`; decompresses a file whose name ends in .gz into memory.

    Raises:
      InputError: pyarrow is not installed, or the file cannot be read as Parquet.
    """
    plain_file.require_plain_file(path)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise NotInstalled("reading Parquet", "pyarrow", "tables", "or save it as CSV", path) from None
    try:
        source = path
        if path.name.lower().endswith(".gz"):
            with gzip.open(path, "rb") as file:
                source = pyarrow.BufferReader(file.read())
        return parquet.ParquetFile(source)
    except (pyarrow.ArrowException, EOFError, zlib.error, OSError) as error:
        raise InputError(f"it is not a readable Parquet file ({first_line(error)})", path=path) from None


def read_parquet(
    path: Path,
    required: Iterable[str],
    wanted: Sequence[str] | None = None,
    parts: Mapping[str, str] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (row counted from 0, column -> value) for each row of a Parquet file.

    Arguments:
      path: the file to read.
      required: the names of columns that the file must have.
      wanted: the names of columns that are read if the file has them; None: all columns.
      parts: as in `read_table`.

    Raises:
      InputError: a required column is missing, or the file is damaged; also as in `open_parquet`.
    """
    file = open_parquet(path)
    names = file.schema_arrow.names
    missing = [name for name in required if name not in names]
    if missing:
        remedy = None if parts is None else rename_remedy(missing, parts)
        raise InputError(f"there is no column {listed(missing)}; there are {listed(names)}", path=path, remedy=remedy)
    row = 0
    batches = file.iter_batches(_ROWS_AT_ONCE, columns=[name for name in names if wanted is None or name in wanted])
    while True:
        try:
            batch = next(batches, None)
            records = [] if batch is None else batch.to_pylist()
        except (ValueError, OSError) as error:  # pyarrow's errors derive from these
            raise InputError(f"the file is damaged ({first_line(error)})", path=path, remedy="copy it again") from None
        if batch is None:
            return
        for record in records:
            yield row, record
            row += 1


def class_names(path: Path, column: str) -> list[str]:
    """Returns the names of a `ClassLabel` column, which Hugging Face's datasets stores in the file's metadata.

    The list is empty if the file stores no names for the column.
    """
    try:
        described = json.loads((open_parquet(path).schema_arrow.metadata or {})[b"huggingface"])
        names = described["info"]["features"][column]["names"]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        return []
    return [str(name) for name in names] if isinstance(names, list) else []
