"""Compiled programs, and counts of their compilations.

A signature has one training program and one evaluation program. A program is compiled once for every shape it meets
(one per length bucket). The numbers that a grid varies are its arguments, so a wider grid needs no more compilations.

`jax.jit` alone does that, too. A `Program` stores the executables itself to do what `jax.jit` does not do. It reports
when a compilation begins and how long it took. It returns the executable that will run, so that a caller can find out
how much memory it takes. If a process cannot keep all executables of a long sweep, only those that were used longest
ago are given up.
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
from jaxmatch.devices import compiler_options, cores
from jaxmatch.training import hosts

REPLICA = "replica"
# The most programs that threads of all cohorts compile side by side, because a compiler takes memory of the host.
MAX_PARALLEL_COMPILATIONS = 4
_compilation_slots = threading.BoundedSemaphore(MAX_PARALLEL_COMPILATIONS)
alive: weakref.WeakSet["Program"] = weakref.WeakSet()
# Threads compile side by side, but only one at a time changes the stored executables of the programs.
_bookkeeping = threading.Lock()
_thread_local = threading.local()


@contextlib.contextmanager
def compilation_callback(callback: Callable[["Program", float | None], None]) -> Iterator[None]:
    """Calls `callback(program, None)` before and `callback(program, seconds)` after each compilation by this thread."""
    _thread_local.callback = callback
    try:
        yield
    finally:
        del _thread_local.callback


def replica_mesh(devices: tuple[jax.Device, ...]) -> Mesh:
    """Returns a mesh of the devices in a row. The replica axis is split over them."""
    return Mesh(devices, (REPLICA,))


def place(tree: Any, mesh: Mesh, *, by_replica: bool) -> Any:
    """Puts a tree on the mesh, with its leading axis spread over the devices or with a whole copy on each."""
    return hosts.place(tree, NamedSharding(mesh, PartitionSpec(REPLICA) if by_replica else PartitionSpec()))


class Program:
    """A function compiled ahead of time for each combination of static arguments and shapes.

    Arguments:
      function: the function; it takes the static arguments first, then arrays.
      name: the name of the compiled function in JAX's messages.
      by_replica: for each array argument, whether its leading axis is the replica axis.
      mesh: the devices. If there are several, every device computes its own replicas and never talks to another.
      donated: the positions of the array arguments (counted after the static ones) that may be overwritten.
      runs_once: whether the program runs only once, so that a fast compilation matters more than a fast program.

    Attributes:
      compiles_in_parallel: whether `compile_in_parallel` does anything; False on a CPU, whose compiler uses several
        cores for one program.
      executables: (static arguments, shapes, JAX's default precision) -> the executable compiled for them, unless it
        was dropped since.
      used: the time at which each executable was used last, by the clock of `time.perf_counter`.
      compilations: the number of compilations so far, including those of executables that were dropped since.
      compile_seconds: the seconds that these compilations took.
    """

    def __init__(
        self,
        function: Callable,
        *,
        name: str,
        by_replica: tuple[bool, ...],
        mesh: Mesh,
        donated: tuple[int, ...] = (),
        runs_once: bool = False,
    ):
        self._function, self.name, self.mesh, self.donated = function, name, mesh, donated
        self._specs = tuple(PartitionSpec(REPLICA) if split else PartitionSpec() for split in by_replica)
        platform = mesh.devices.flat[0].platform
        self.compiles_in_parallel = platform != "cpu"
        self._compiler_options = compiler_options(platform, runs_once) or None
        self.executables: dict[Hashable, jax.stages.Compiled] = {}
        self.used: dict[Hashable, float] = {}
        self.compilations, self.compile_seconds = 0, 0.0
        with _bookkeeping:
            alive.add(self)

    def compiled(self, static: tuple, arrays: tuple) -> jax.stages.Compiled:
        """Returns the executable for these arguments and JAX's current default precision. Compiles it if it is new."""
        key = self._key(static, arrays)
        executable = self.executables.get(key)
        if executable is None:
            start = time.perf_counter()
            if devices.mappings_are_scarce():
                _evict_oldest()
            self._report(None)
            executable = self._jitted(static).lower(*arrays).compile()
            self.compilations += 1
            self._took(time.perf_counter() - start)
        self._keep(key, executable)
        return executable

    def compile_in_parallel(self, calls: Iterable[tuple[tuple, tuple]]) -> None:
        """Compiles the new programs of some calls side by side. A call is (static arguments, arrays).

        Nothing is done if this would not be faster, nor with several processes, whose compilers may wait for each
        other. A program that XLA cannot compile is left to `compiled`, whose error is then about this program alone.
        """
        new = {self._key(*call): call for call in calls}
        new = {key: call for key, call in new.items() if key not in self.executables}
        together = min(len(new), MAX_PARALLEL_COMPILATIONS, cores())
        if together < 2 or not self.compiles_in_parallel or hosts.is_multiprocess() or devices.mappings_are_scarce():
            return
        precision, device = jax.config.jax_default_matmul_precision, jax.config.jax_default_device  # of this thread

        def compiled(call: tuple[tuple, tuple]) -> jax.stages.Compiled:
            static, arrays = call
            with _compilation_slots, jax.default_matmul_precision(precision), jax.default_device(device):
                return self._jitted(static).lower(*arrays).compile()

        with concurrent.futures.ThreadPoolExecutor(together) as threads:
            futures = {threads.submit(compiled, call): key for key, call in new.items()}
            ended = concurrent.futures.as_completed(futures)
            try:
                for _ in futures:
                    start = time.perf_counter()
                    self._report(None)
                    future = next(ended)
                    self._took(time.perf_counter() - start)  # since the one before: no second counts twice
                    if (error := future.exception()) is None:
                        self.compilations += 1
                        self._keep(futures[future], future.result())
                    elif not isinstance(error, jax.errors.JaxRuntimeError):
                        raise error
            finally:
                for future in futures:
                    future.cancel()

    @staticmethod
    def _key(static: tuple, arrays: tuple) -> Hashable:
        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arrays))
        return static, shapes, jax.config.jax_default_matmul_precision

    def _took(self, seconds: float) -> None:
        self.compile_seconds += seconds
        self._report(seconds)

    def _report(self, seconds: float | None) -> None:
        getattr(_thread_local, "callback", lambda *_: None)(self, seconds)

    def _keep(self, key: Hashable, executable: jax.stages.Compiled) -> None:
        with _bookkeeping:
            self.executables[key], self.used[key] = executable, time.perf_counter()

    def __call__(self, static: tuple, *arrays: Any) -> Any:
        return self.compiled(static, arrays)(*arrays)

    def _jitted(self, static: tuple) -> jax.stages.Wrapped:
        """Returns a new jitted function for each compilation: JAX keeps executables as long as their function lives."""

        def call(*arrays):
            return self._function(*static, *arrays)

        if self.mesh.size > 1:
            # Devices never talk to each other here, so the check has nothing to find. It would reject a scan that
            # begins with zeros, because these are the same on every device and the results of the scan are not.
            call = jax.shard_map(
                call, mesh=self.mesh, in_specs=self._specs, out_specs=PartitionSpec(REPLICA), check_vma=False
            )
        call.__name__ = self.name
        return jax.jit(call, donate_argnums=self.donated, compiler_options=self._compiler_options)


def _evict_oldest() -> None:
    """Gives up the quarter of all executables that was used longest ago.

    An executable that is needed again is compiled or loaded again.
    """
    warn_once()
    with _bookkeeping:
        kept = [(program, key) for program in alive for key in program.executables]
        kept.sort(key=lambda entry: entry[0].used[entry[1]])
        for program, key in kept[: -(-len(kept) // 4)]:
            del program.executables[key], program.used[key]


@functools.cache
def warn_once() -> None:
    logging.getLogger(__name__).warning(
        "the compiled programs take most of the memory mappings: those used longest ago are dropped, and "
        "compiled or loaded again when needed (sysctl vm.max_map_count=262144 allows more mappings)"
    )
