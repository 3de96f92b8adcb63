"""Writes files in the two layouts of `torch.save`, as PyTorch does, without PyTorch."""

import argparse
import collections
import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np

_KINDS = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
}


class Storage:
    """Values that several tensors may share; `count` is the number of values that the file states."""

    def __init__(self, values, count=None):
        self.values = np.ascontiguousarray(values).reshape(-1)
        self.count = self.values.size if count is None else count


class Tensor:
    """A view of a storage, with its own offset, shape and strides, counted in elements."""

    def __init__(self, storage, offset, shape, strides):
        self.view = storage, offset, tuple(shape), tuple(strides)

    @classmethod
    def of(cls, array):
        """Returns a tensor with its own storage."""
        array = np.asarray(array, order="C")
        return cls(Storage(array), 0, array.shape, [stride // array.itemsize for stride in array.strides])

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, (*self.view, False, collections.OrderedDict())


class ShellCommand:
    """An object that would run a command if Python's `pickle` loaded it."""

    def __reduce__(self):
        import os

        return os.system, ("touch ran",)


def checkpoint(state, settings):
    """Returns what the authors' code saves of a network."""
    tensors = collections.OrderedDict((name, Tensor.of(value)) for name, value in state.items())
    tensors._metadata = collections.OrderedDict([("", {"version": 1})])  # as in every state dict of PyTorch
    return {
        "state_dict": {"model": tensors, "updates": 7},
        "args": argparse.Namespace(**settings),
        "score": np.float64(0.5),
        "random": (Tensor.of(np.arange(3, dtype=np.float16)),),
    }


class _Pickler(pickle.Pickler):
    def __init__(self, file, more):
        super().__init__(file, protocol=2)
        self.storages, self._more = [], more

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        if value not in self.storages:
            self.storages.append(value)
        kind = getattr(sys.modules["torch"], _KINDS[value.values.dtype.name])
        return "storage", kind, str(self.storages.index(value)), "cpu", value.count, *self._more


def _pickled(value, *more):
    """Returns the pickle, in which types have their PyTorch names, and the values of the storages that it names."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in _KINDS.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2():
        pass

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2, torch._utils = _rebuild_tensor_v2, utils
    kept = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules |= {"torch": torch, "torch._utils": utils}
    try:
        file = io.BytesIO()
        pickler = _Pickler(file, more)
        pickler.dump(value)
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return file.getvalue(), [storage.values for storage in pickler.storages]


def zip_layout(value, order="little"):
    """Returns the file content in the layout since PyTorch 1.6."""
    pickled, storages = _pickled(value)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("best/data.pkl", pickled)
        archive.writestr("best/byteorder", order)
        for number, values in enumerate(storages):
            archive.writestr(f"best/data/{number}", (values.byteswap() if order == "big" else values).tobytes())
        archive.writestr("best/version", "3\n")
    return file.getvalue()


def legacy_layout(value):
    """Returns the file content in the layout before PyTorch 1.6."""
    pickled, storages = _pickled(value, None)
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    first = [pickle.dumps(each, protocol=2) for each in (0x1950A86A20F9469CFC6C, 1001, system)]
    keys = pickle.dumps([str(number) for number in range(len(storages))], protocol=2)
    return b"".join(
        [*first, pickled, keys, *(struct.pack("<q", values.size) + values.tobytes() for values in storages)]
    )
