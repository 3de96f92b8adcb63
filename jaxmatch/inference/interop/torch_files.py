"""Reads files that `torch.save` wrote, without PyTorch and without executing code in them.

Since PyTorch 1.6 such a file is a zip archive: `data.pkl` is a pickle that refers to tensors, and `data/0`, `data/1`,
... are their storages. An older file is a sequence of pickles, followed by the storages.
"""

import argparse
import collections
import io
import math
import os
import pickle
import pickletools
import struct
import zipfile
from typing import Any, BinaryIO

import jax.numpy as jnp
import numpy as np

from jaxmatch.errors import InputError

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # the first pickles of an older file
_STORAGES = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": jnp.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


class _Unread:
    """A placeholder for NumPy numbers in the pickle, such as a score. They are not needed."""

    def __init__(self, *_: Any):
        pass

    def __setstate__(self, _: Any) -> None:
        pass


def _tensor(storage: np.ndarray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> np.ndarray:
    """Returns a tensor as a view of its storage."""
    numbers = (offset, *shape, *strides)
    if (
        not isinstance(storage, np.ndarray)
        or len(shape) != len(strides)
        or any(type(n) is not int or n < 0 for n in numbers)
    ):
        raise ValueError("a tensor is damaged")
    reach = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 1
    if (0 not in shape and reach > storage.size) or math.prod(shape) > storage.size:
        raise ValueError("a tensor is larger than its storage")
    bytes_apart = [stride * storage.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, bytes_apart, writeable=False)


_KNOWN = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("argparse", "Namespace"): argparse.Namespace,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    ("numpy", "dtype"): _Unread,
    ("numpy.core.multiarray", "scalar"): _Unread,
    ("numpy._core.multiarray", "scalar"): _Unread,
    ("_codecs", "encode"): _Unread,
    **{("torch", name): np.dtype(kind) for name, kind in _STORAGES.items()},
}


class _Unpickler(pickle.Unpickler):
    """An unpickler of tensors, plain containers and settings only. The caller fills `storages`: key -> array."""

    def __init__(self, content: bytes, most_bytes: int):
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self.storages: dict[str, np.ndarray] = {}
        self._left = most_bytes

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _KNOWN[module, name]

    def persistent_load(self, pid: Any) -> np.ndarray:
        what, kind, key, _, count, *view = pid
        if (
            what != "storage"
            or not isinstance(kind, np.dtype)
            or view not in ([], [None])
            or type(count) is not int
            or count < 0
        ):
            raise pickle.UnpicklingError("a storage is damaged")
        if key not in self.storages:
            self._left -= count * kind.itemsize
            if self._left < 0:  # checked before memory is allocated
                raise pickle.UnpicklingError("the file is too short for its storages")
            self.storages[key] = np.zeros(count, kind)
        if self.storages[key].dtype != kind or self.storages[key].size != count:
            raise pickle.UnpicklingError("a storage has two sizes")
        return self.storages[key]


def _pickled(file: BinaryIO) -> bytes:
    """Reads the bytes of the next pickle of a file."""
    start = file.tell()
    for operation, argument, position in pickletools.genops(file):
        if operation.name == "LONG_BINPUT" and argument > position:  # Python would allocate that many entries
            raise ValueError("the pickle is damaged")
    end = file.tell()
    file.seek(start)
    return file.read(end - start)


def _fill(storage: np.ndarray, content: bytes, order: str) -> None:
    if len(content) != storage.nbytes:
        raise ValueError(f"a storage has {len(content):,} bytes, not {storage.nbytes:,}")
    storage.view(np.uint8)[:] = np.frombuffer(content, np.uint8)
    if order == "big":
        storage.byteswap(inplace=True)


def _from_zip(file: BinaryIO, size: int) -> Any:
    with zipfile.ZipFile(file) as archive:
        (folder,) = [name.removesuffix("data.pkl") for name in archive.namelist() if name.endswith("/data.pkl")]

        def member(name: str) -> bytes:
            info = archive.getinfo(folder + name)
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
                raise ValueError(f"{name} is not as PyTorch writes it")
            return archive.read(info)

        order = member("byteorder").decode() if folder + "byteorder" in archive.namelist() else "little"
        unpickler = _Unpickler(_pickled(io.BytesIO(member("data.pkl"))), size)
        value = unpickler.load()
        for key, storage in unpickler.storages.items():
            _fill(storage, member(f"data/{key}"), order)
    return value


def _from_sequence(file: BinaryIO, size: int) -> Any:
    magic, protocol, system, value = (_Unpickler(_pickled(file), size) for _ in range(4))
    if (magic.load(), protocol.load()) != (_MAGIC, _PROTOCOL):
        raise ValueError("it is not a PyTorch file")
    order = "little" if system.load()["little_endian"] else "big"
    found, keys = value.load(), _Unpickler(_pickled(file), size).load()
    if set(keys) != value.storages.keys():
        raise ValueError("its storages are not those it names")
    for key in keys:
        storage = value.storages[key]
        (count,) = struct.unpack("<q", file.read(8))
        if count != storage.size:
            raise ValueError(f"a storage has {count:,} numbers, not {storage.size:,}")
        _fill(storage, file.read(storage.nbytes), order)
    return found


def load(path: str | os.PathLike) -> Any:
    """Reads a file that `torch.save` wrote.

    Returns:
      The saved object. It consists of tensors (as read-only arrays), dicts, lists, tuples, plain values and
      `argparse.Namespace`.

    Raises:
      InputError: the file is missing or damaged, or contains anything else, such as a whole module.
    """
    if not os.path.isfile(path):
        raise InputError("there is no such file", path=path)
    try:
        with open(path, "rb") as file:
            size, start = os.fstat(file.fileno()).st_size, file.read(4)
            file.seek(0)
            return (_from_zip if start == b"PK\3\4" else _from_sequence)(file, size)
    except Exception as error:  # a damaged pickle can fail in any way
        reason = f"{type(error).__name__}: {error}"[:200]
        remedy = "copy it again; it must hold a state dict and settings, nothing else"
        raise InputError(f"this file of PyTorch cannot be read ({reason})", path=path, remedy=remedy) from error
