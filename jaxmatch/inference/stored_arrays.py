"""Reads float32 arrays from untrusted files. Names, types, shapes and sizes are checked before the numbers are read.

Read the shapes first, which reads the headers only, and read the arrays only if the shapes are right. A compressed
array may take a thousand times the memory of its file. No code in a file is executed. A damaged file raises ValueError.
"""

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.numpy

Shape = tuple[int, ...]

# The header that numpy.save writes for an array of numbers.
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    r"\{'descr': '([^']{1,9})', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,18}, )*\d{1,18}|\d{1,18},|)\), \} *\n"
)
_MAX_HEADER_BYTES = 1 << 24  # bytes, more than the names and shapes of any model's arrays take
_BROKEN_ARCHIVE = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    struct.error,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
)


def npy_shape(file: BinaryIO, size: int, name: str = "it") -> Shape:
    """Reads the shape of the array in an .npy file of `size` bytes; `name` is for error messages."""
    return _npy_header(file, size, name)[0]


def read_npy(content: bytes, name: str = "it") -> np.ndarray:
    """Returns the array in the bytes of an .npy file; it shares their memory."""
    shape, order, start = _npy_header(io.BytesIO(content), len(content), name)
    return np.frombuffer(content, "<f4", offset=start).reshape(shape, order=order)


def _npy_header(file: BinaryIO, size: int, name: str) -> tuple[Shape, str, int]:
    """Reads the shape, the order ('C' or 'F') and the offset of the numbers in bytes."""
    if file.read(8) != _NPY_MAGIC:
        raise ValueError(f"{name} is not an array that NumPy wrote")
    length = int.from_bytes(file.read(2), "little")
    found = _NPY_HEADER.fullmatch(file.read(length).decode("latin-1"))
    if not found:
        raise ValueError(f"{name} is not an array of numbers that NumPy wrote")
    _check_type(found[1], "<f4", name)
    shape, start = tuple(int(extent) for extent in re.findall(r"\d+", found[3])), 10 + length
    if start + 4 * math.prod(shape) != size:
        raise ValueError(f"{name} has shape {shape}, which does not fit {size} bytes")
    return shape, "F" if found[2] == "True" else "C", start


def _check_type(found: str, wanted: str, name: str) -> None:
    if found != wanted:
        raise ValueError(f"{name} holds numbers of type {found}, and a model's are float32")


def safetensors_shapes(path: Path) -> dict[str, Shape]:
    """Reads the shapes of the arrays in a safetensors file: name -> shape."""
    with open(path, "rb") as file:
        if int.from_bytes(file.read(8), "little") > _MAX_HEADER_BYTES:
            raise ValueError("it is not a safetensors file")
    shapes = {}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            for name in list(file.keys()):
                stored = file.get_slice(name)
                _check_type(stored.get_dtype(), "F32", name)
                shapes[name] = tuple(stored.get_shape())
    except safetensors.SafetensorError as error:
        raise ValueError(f"it is not a safetensors file: {error}") from error
    return shapes


def read_safetensors(content: bytes) -> dict[str, np.ndarray]:
    """Reads the arrays in the bytes of a safetensors file: name -> array."""
    try:
        return safetensors.numpy.load(content)
    except safetensors.SafetensorError as error:
        raise ValueError(f"it is not a safetensors file: {error}") from error


def npz_shapes(path: Path) -> dict[str, Shape]:
    """Reads the shapes of the arrays in an .npz file: name -> shape."""
    with open(path, "rb") as file:
        return _read_members(
            file, lambda archive, member, name: npy_shape(archive.open(member), member.file_size, name)
        )


def read_npz(content: bytes) -> dict[str, np.ndarray]:
    """Reads the arrays in the bytes of an .npz file: name -> array."""
    return _read_members(io.BytesIO(content), lambda archive, member, name: read_npy(archive.read(member), name))


def _read_members(file: BinaryIO, read: Callable[[zipfile.ZipFile, zipfile.ZipInfo, str], Any]) -> dict[str, Any]:
    """Applies `read` to each array of an .npz file: name of the array -> `read(archive, member, name)`."""
    found = {}
    try:
        _check_directory(file)
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name in found or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(f"{name} occurs twice, or is compressed as NumPy compresses no array")
                found[name] = read(archive, member, name)
    except _BROKEN_ARCHIVE as error:
        raise ValueError(f"it is not an archive of arrays: {error}") from error
    return found


def _check_directory(file: BinaryIO) -> None:
    """Checks the size of the list of members, which `zipfile` reads at once. NumPy writes no comment after the list."""
    file.seek(0, io.SEEK_END)
    size = file.tell()
    file.seek(max(size - 42, 0))
    end = file.read(42)
    bytes_of_list = int.from_bytes(end[-10:-6], "little")
    if end[-22:-18] != b"PK\5\6" or end[:4] == b"PK\6\7" or bytes_of_list > _MAX_HEADER_BYTES:
        raise ValueError("its list of members is missing or too long")
    file.seek(0)
