"""Compiled programs, and the seconds of their compilations.

A signature has one training program and one evaluation program. A program is compiled once for every shape it meets
(one per length bucket). The numbers that a grid varies are its arguments, so a wider grid needs no more compilations.

`jax.jit` alone does that, too. A `Program` stores the executables itself to do what `jax.jit` does not do: it reports
when a compilation begins and how long it took, compiles ahead for several shapes side by side, and gives up its
executables if a process cannot keep all those of a long sweep.
"""

import concurrent.futures
import contextlib
import functools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxmatch import devices
from jaxmatch.devices import compiler_options
from jaxmatch.training import hosts

SLOTS = "slots"  # the axis of a mesh
_SPLIT, _COPIED = PartitionSpec(SLOTS), PartitionSpec()
# Compilations run side by side here: a compilation keeps about one core busy. They are few, because a compiler takes
# memory of the host.
threads = concurrent.futures.ThreadPoolExecutor(min(4, devices.cores()))
alive: weakref.WeakSet["Program"] = weakref.WeakSet()
_thread_local = threading.local()


@contextlib.contextmanager
def compilation_callback(callback: Callable[["Program", float | None], None]) -> Iterator[None]:
    """Calls `callback(program, None)` before and `callback(program, seconds)` after each compilation by this thread."""
    _thread_local.callback = callback
    try:
        yield
    finally:
        del _thread_local.callback


def place(tree: Any, mesh: Mesh, *, by_slot: bool) -> Any:
    """Puts a tree on the mesh, with its leading axis spread over the devices or with a whole copy on each."""
    return hosts.place(tree, NamedSharding(mesh, _SPLIT if by_slot else _COPIED))


class Program:
    """A function compiled ahead of time for each combination of static arguments and shapes.

    Arguments:
      function: the function; it takes the static arguments first, then arrays.
      name: the name of the compiled function in JAX's messages.
      by_slot: the number of the first array arguments, whose leading axis is that of the slots.
      devices: the devices. If there are several, every device computes its own slots and never talks to another.
      donated: the positions of the array arguments (counted after the static ones) that may be overwritten.
      runs_once: whether the program runs only once, so that a fast compilation matters more than a fast program.

    Attributes:
      mesh: the devices in a row. The axis of the slots is split over them.
      compiles_ahead: whether `compile_ahead` does anything; False with several processes, whose compilations may wait
        for each other.
      executables: (static arguments, shapes, JAX's default precision) -> the executable compiled for them.
      ahead: the same -> a compilation that `compile_ahead` started and nobody has waited for.
      compile_seconds: the seconds that all compilations so far took.
    """

    def __init__(
        self,
        function: Callable,
        *,
        name: str,
        by_slot: int,
        devices: tuple[jax.Device, ...],
        donated: tuple[int, ...] = (),
        runs_once: bool = False,
    ):
        self._function, self.name, self._by_slot, self._donated = function, name, by_slot, donated
        self.mesh = Mesh(devices, (SLOTS,))
        self.compiles_ahead = not hosts.is_multiprocess()
        self._compiler_options = compiler_options(devices[0].platform, runs_once) or None
        self.executables: dict[Hashable, jax.stages.Compiled] = {}
        self.ahead: dict[Hashable, concurrent.futures.Future[jax.stages.Compiled]] = {}
        self.compile_seconds = 0.0
        alive.add(self)

    def __call__(self, static: tuple, *arrays: Any) -> Any:
        return self.compiled(static, arrays)(*arrays)

    def compiled(self, static: tuple, arrays: tuple) -> jax.stages.Compiled:
        """Returns the executable for these arguments and JAX's current default precision. Compiles it if it is new."""
        key = self._key(static, arrays)
        executable = self.executables.get(key)
        if executable is None:
            start = time.perf_counter()
            if devices.mappings_are_scarce():
                _drop_executables()
            self._report(None)
            if future := self.ahead.pop(key, None):
                # Otherwise, it is compiled alone: the device had too little memory for several, or it was cancelled.
                with contextlib.suppress(jax.errors.JaxRuntimeError, concurrent.futures.CancelledError):
                    executable = future.result()
            executable = executable or self._compile(static, arrays)
            self.executables[key] = executable
            self._report(time.perf_counter() - start)
        return executable

    def compile_ahead(self, calls: Iterable[tuple[tuple, tuple]]) -> None:
        """Starts to compile the new programs of some calls side by side: (static arguments, arrays or their shapes)."""
        precision, device = jax.config.jax_default_matmul_precision, jax.config.jax_default_device  # of this thread

        def compile_one(call: tuple[tuple, tuple]) -> jax.stages.Compiled:
            with jax.default_matmul_precision(precision), jax.default_device(device):
                return self._compile(*call)

        for call in calls if self.compiles_ahead else ():
            key = self._key(*call)
            if key not in self.executables and key not in self.ahead:
                self.ahead[key] = threads.submit(compile_one, call)

    @staticmethod
    def _key(static: tuple, arrays: tuple) -> Hashable:
        shapes = ((leaf.shape, str(jax.dtypes.canonicalize_dtype(leaf.dtype))) for leaf in jax.tree.leaves(arrays))
        return static, tuple(shapes), jax.config.jax_default_matmul_precision

    def _report(self, seconds: float | None) -> None:
        self.compile_seconds += seconds or 0.0
        getattr(_thread_local, "callback", lambda *_: None)(self, seconds)

    def _compile(self, static: tuple, arrays: tuple) -> jax.stages.Compiled:
        # A new jitted function for each compilation: JAX keeps executables as long as their function lives.
        def call(*arrays):
            return self._function(*static, *arrays)

        specs = tuple(_SPLIT if place < self._by_slot else _COPIED for place in range(len(arrays)))
        if self.mesh.size > 1:
            # Devices never talk to each other here, so the check has nothing to find. It would reject a scan that
            # begins with zeros, because these are the same on every device and the results of the scan are not.
            call = jax.shard_map(call, mesh=self.mesh, in_specs=specs, out_specs=_SPLIT, check_vma=False)
        call.__name__ = self.name
        jitted = jax.jit(call, donate_argnums=self._donated, compiler_options=self._compiler_options)

        def shapes(tree: Any, spec: PartitionSpec) -> Any:
            of = functools.partial(jax.ShapeDtypeStruct, sharding=NamedSharding(self.mesh, spec))
            return jax.tree.map(lambda leaf: of(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)), tree)

        return jitted.lower(*map(shapes, arrays, specs)).compile()


def cancel_ahead() -> None:
    """Cancels the compilations that `Program.compile_ahead` has not begun. They happen when they are needed."""
    for program in list(alive):
        for future in list(program.ahead.values()):
            future.cancel()


def _drop_executables() -> None:
    """Gives up all executables of this process. One that is needed again is compiled or loaded again."""
    warn_once()
    for program in list(alive):
        program.executables.clear()


@functools.cache
def warn_once() -> None:
    logging.getLogger(__name__).warning(
        "the compiled programs take most of the memory mappings: they are dropped, and compiled or loaded again when "
        "needed (sysctl vm.max_map_count=262144 allows more mappings)"
    )
