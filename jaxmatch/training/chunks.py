"""The chunks of a cohort: the slots that the devices compute at once. All chunks of a signature share one program.

The number of runs therefore does not matter to a program. A chunk whose runs have all ended costs nothing, and what is
left in several chunks moves together, without a new program. A slot without a run only fills its chunk.

A signature has one training program and one evaluation program. A program is compiled once for every shape it meets
(one per length bucket). The numbers that a grid varies are its arguments, so a wider grid needs no more compilations.
"""

import contextlib
import dataclasses
import functools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxmatch import models
from jaxmatch.data.batches import BatchPlan, most_distinct_words, most_in_training, plan_batches
from jaxmatch.data.encoding import EncodedData
from jaxmatch.data.text import WordTable
from jaxmatch.devices import compiler_options, cores, mappings_are_scarce
from jaxmatch.training import hosts, step
from jaxmatch.training.evaluation import chunk_outputs, device_split
from jaxmatch.training.step import BatchShape, Flattening, State, chunk_step, flattening, initial_state, words_trained

SLOTS = "slots"  # the axis of a mesh
_SPLIT, _COPIED = PartitionSpec(SLOTS), PartitionSpec()
# Compilations run side by side here: a compilation keeps about one core busy. They are few, because a compiler takes
# memory of the host.
threads = ThreadPoolExecutor(min(4, cores()))
alive: weakref.WeakSet["Program"] = weakref.WeakSet()
_thread_local = threading.local()
# A CPU gains nothing from wider arrays, and their working memory grows with the runs (benchmarks/NOTES.md).
PAIRS_AT_ONCE_ON_A_CPU = 128
# The largest share of slots without a run that a larger chunk may cost on a CPU.
FILLERS_ON_A_CPU = 0.2
# The operations of a run's training in the time that a compilation takes: 5 to 10 s of two cores, and 12 s of an H200,
# which computes 20 to 60 times as fast (benchmarks/results).
OPERATIONS_A_COMPILATION = {"cpu": 1.5e11}
OPERATIONS_A_COMPILATION_ELSEWHERE = 1e14
# The operations of a training step for each token and parameter: a multiply-add forward, and two backward.
OPERATIONS_A_PARAMETER = 6

# The batches of a run in an epoch: table of the plan -> (rows, weights), `<int32>` and `<float32>[batches, batch]`.
Drawn = Mapping[int, tuple[np.ndarray, np.ndarray]]


@contextlib.contextmanager
def compilation_callback(callback: Callable[["Program", float | None], None]) -> Iterator[None]:
    """Calls `callback(program, None)` before and `callback(program, seconds)` after each compilation by this thread."""
    _thread_local.callback = callback
    try:
        yield
    finally:
        del _thread_local.callback


def place(tree: Any, mesh: Mesh, *, by_slot: bool) -> Any:
    """Puts a tree on the mesh, with its leading axis spread over the devices or with a whole copy on each.

    It is the same on every process, and each process fills its own devices.
    """
    sharding = NamedSharding(mesh, _SPLIT if by_slot else _COPIED)
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def placed(leaf: Any) -> jax.Array:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.jit(lambda array: array, out_shardings=sharding)(leaf)
        whole = np.asarray(leaf)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(placed, tree)


class Program:
    """A function compiled ahead of time for each combination of static arguments and shapes.

    `jax.jit` alone does that, too. A `Program` stores the executables itself to do what `jax.jit` does not do: it
    reports when a compilation begins and how long it took, compiles ahead for several shapes side by side, and gives up
    its executables if a process cannot keep all those of a long sweep.

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
        self.ahead: dict[Hashable, Future[jax.stages.Compiled]] = {}
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
            if mappings_are_scarce():
                _drop_executables()
            self._report(None)
            if future := self.ahead.pop(key, None):
                # Otherwise, it is compiled alone: the device had too little memory for several, or it was cancelled.
                with contextlib.suppress(jax.errors.JaxRuntimeError, CancelledError):
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


class Programs(NamedTuple):
    """The programs of a signature, over the slots of a chunk, and the flattening of its parameters."""

    flat: Flattening
    initialize: Program
    train: Program
    evaluate: Program


@functools.lru_cache(maxsize=64)
def programs(
    module: nn.Module,
    task: str,
    dimensions: int,
    words: int,
    devices: tuple[jax.Device, ...],
    added: tuple[tuple[str, Callable], ...] = (),
) -> Programs:
    """Returns the programs of a signature, which all its cohorts share.

    `added` are the items of `step.ADDED`. A loss that is added again therefore makes other programs.
    """
    flat = flattening(module, dimensions, words, devices[0].platform)
    initialize, train = jax.vmap(functools.partial(initial_state, flat), (0, 0, None)), chunk_step(flat, task)
    return Programs(
        flat,
        Program(initialize, name="initialize", by_slot=2, devices=devices, runs_once=True),
        Program(train, name="train_step", by_slot=3, devices=devices, donated=(0,)),
        Program(chunk_outputs(flat), name="evaluate", by_slot=1, devices=devices),
    )


def devices_filled(runs: int, devices: int) -> int:
    """Returns the fewest devices on which no device has more runs than if they were spread over all devices."""
    return -(-runs // -(-runs // devices))


def chunk_size(runs: int, batch: int, platform: str, devices: int = 1, limit: int | None = None) -> int:
    """Returns the number of slots of a chunk, a multiple of the number of devices.

    Arguments:
      runs: the number of runs.
      batch: the number of pairs in a batch of a run.
      platform, devices: the platform and the number of the devices that share a chunk.
      limit: the most slots that fit a device; None: no limit is known.
    """
    on_each = -(-runs // devices)
    if platform == "cpu":
        most = min(on_each, max(1, PAIRS_AT_ONCE_ON_A_CPU // batch))
        full = [size for size in range(1, most + 1) if -(-on_each // size) * size <= (1 + FILLERS_ON_A_CPU) * on_each]
        return devices * min(max(full), limit or most)
    return devices * (on_each if limit is None else -(-on_each // -(-on_each // limit)))


@dataclasses.dataclass
class Chunk:
    """Slots that the devices compute at once.

    Attributes:
      runs: the run of each slot, `<int64>[slot]`; -1: the slot has no run.
      state: the state of the slots.
      others: seed, hyperparameters and active flag of each slot.
      batches: (rows, tokens) of a batch -> those batches of the epoch, (rows `<int32>[slot, batches, batch]`, weights
        `<float32>[slot, batches, batch]`).
    """

    runs: np.ndarray
    state: State
    others: tuple = ()
    batches: dict[tuple[int, int], tuple[jax.Array, jax.Array]] = dataclasses.field(default_factory=dict)


class Epoch(NamedTuple):
    """The steps of an epoch.

    Attributes:
      sequence: (bucket, index of the batch in `Chunk.batches`) for every step, `<int32>[steps, 2]`; the same for all
        runs.
      shapes: bucket -> the batch shape that its step is compiled for.
      samples: the number of pairs seen since training began, after each step, `<int64>[steps]`.
    """

    sequence: np.ndarray
    shapes: Mapping[int, BatchShape]
    samples: np.ndarray


class Chunks:
    """The runs of a signature on the devices.

    Arguments:
      model: the model settings of `jaxmatch.models.build`.
      data: encoded data.
      training: the settings epochs, batch_size, maximum_buckets and mix_lengths.
      seeds: one seed per run.
      optimizer: the traced hyperparameters, one mapping per run.
      devices: the devices that share the slots of each chunk.

    Attributes:
      seeds, hyperparameters, devices: the given ones; the hyperparameters as arrays, `<float32>[run]`.
      programs: the programs of the signature.
      batches: the plan of the batches.
      pairs: the number of training pairs.
      limit: the most slots that fit a device; None: no limit is known.
      chunks: the chunks.
    """

    def __init__(
        self,
        *,
        model: Mapping[str, Any],
        data: EncodedData,
        training: Mapping[str, Any],
        seeds: Sequence[int],
        optimizer: Sequence[Mapping[str, float]],
        devices: tuple[jax.Device, ...],
    ):
        self.devices = devices
        module = models.build(model, outputs=data.outputs)
        words, dimensions = data.vectors.shape
        trained = words_trained(module, words)
        self.programs = programs(module, data.task, dimensions, trained, devices, tuple(step.ADDED.items()))
        self.seeds, self.hyperparameters = np.asarray(seeds, np.uint32), step.stack(optimizer)
        train = data.splits["train"]
        self.pairs = train.pairs
        self.batches = training_batches(module, data, training, self.programs.flat.count, self.platform)
        table = data.vectors if data.characters is None else WordTable(data.vectors, data.characters)
        self._on_host = device_split(train), table
        self._words = words
        # The token ids, `<int32>[pairs, longest]`, whose distinct words are counted; None: words are not counted.
        self._ids = self._on_host[0]["tokens"]["ids"] if module.takes_characters else None
        self._most_words = {} if self._ids is None else most_in_training(self.batches, self._ids, words)
        self._thread = ThreadPoolExecutor(1)
        self._drawn: tuple[Any, Future] = ((), Future())  # (epoch, runs), and what `_draw` returns for them
        # Table of the plan -> (rows, tokens) of its batches.
        self._tables = {table: self.batches.compiled[bucket] for bucket, table in reversed(self.batches.tables.items())}
        self.limit: int | None = None
        self._placed = len(self.seeds)  # the number of runs that the size of a chunk is made for
        self._compiled = 0  # the size of a chunk that `compile` was called for
        self.chunks: list[Chunk] = []

    @property
    def size(self) -> int:
        """The number of slots of a chunk."""
        rows = max(rows for rows, _ in self.batches.compiled.values())
        return chunk_size(self._placed, rows, self.platform, len(self.devices), self.limit)

    @property
    def platform(self) -> str:
        """The platform of the devices."""
        return self.devices[0].platform

    @property
    def lengths(self) -> int:
        """The number of programs that training compiles."""
        return len(set(self.batches.compiled.values()))

    @property
    def compile_seconds(self) -> float:
        """The seconds spent so far on compiling the programs of this signature, for this cohort and others."""
        return self.programs.train.compile_seconds + self.programs.evaluate.compile_seconds

    @functools.cached_property
    def on_devices(self) -> tuple[Any, Any]:
        """The training set, as `evaluation.device_split` returns it, and the word vectors, on every device."""
        return self.replicate(self._on_host)

    def replicate(self, tree: Any) -> Any:
        """Puts a copy of the arrays on every device."""
        return place(tree, self.programs.train.mesh, by_slot=False)

    def by_slot(self, tree: Any) -> Any:
        """Spreads arrays with a leading slot axis over the devices."""
        return place(tree, self.programs.train.mesh, by_slot=True)

    def groups(self, runs: Sequence[int]) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yields the runs of each chunk, and those of its slots, `<int64>[slot]`, which the first run fills up."""
        for start in range(0, len(runs), self.size):
            group = list(runs[start : start + self.size])
            yield group, np.array(group + group[:1] * (self.size - len(group)))

    def initialize(self) -> None:
        """Gives every run a slot, with the state before its first step."""
        self.chunks = []
        for runs, of_slots in self.groups(range(len(self.seeds))):
            settings = self.by_slot(self._settings(of_slots))
            self._add(runs, self.programs.initialize((), *settings, self.on_devices[1]))

    def adopt(self, runs: Sequence[int], states: State) -> None:
        """Gives the given runs slots with their states, `[run, ...]` on the host."""
        self.chunks = []
        for rows, of_slots in self.groups(range(len(runs))):
            state = jax.tree.map(lambda leaf, of_slots=of_slots: np.asarray(leaf)[of_slots], states)
            self._add([runs[row] for row in rows], self.by_slot(state))

    def _add(self, runs: Sequence[int], state: State) -> None:
        self.chunks.append(Chunk(np.pad(runs, (0, self.size - len(runs)), constant_values=-1), state))

    def states(self) -> tuple[list[int], State]:
        """Returns the runs that have a slot, and their states on the host, `[run, ...]`."""
        runs = np.concatenate([chunk.runs for chunk in self.chunks])
        states = [hosts.gather(chunk.state) for chunk in self.chunks]
        whole = jax.tree.map(lambda *leaves: np.concatenate(leaves)[runs >= 0], *states)
        return runs[runs >= 0].tolist(), whole

    def state_shapes(self, slots: int = 1) -> State:
        """Returns the shapes of the state of some slots."""
        one = functools.partial(initial_state, self.programs.flat)
        return jax.eval_shape(jax.vmap(one, (0, 0, None)), *self._settings(np.zeros(slots, int)), self._on_host[1])

    def activate(self, active: np.ndarray, epochs: float = 0.0) -> None:
        """Lets only the given runs learn, and merges chunks if fewer hold the runs that are left.

        An accelerator computes many slots at once. It continues in smaller chunks if half of the slots are empty and
        the remaining steps save more than the new programs take to compile. The decision depends on nothing measured.

        Arguments:
          active: whether each run learns, `<bool>[run]`.
          epochs: the number of epochs that are left.
        """
        left = [int(run) for chunk in self.chunks for run in chunk.runs if run >= 0 and active[run]]
        size, placed = self.size, self._placed
        if left and self.platform != "cpu" and 2 * len(left) <= size:
            self._placed = -(-placed // 2 ** ((placed // len(left)).bit_length() - 1))  # halved as often as possible
            saved = epochs * self.batches.tokens() * (size - self.size) / len(self.devices)
            operations = OPERATIONS_A_PARAMETER * self.programs.flat.count * saved
            if operations < OPERATIONS_A_COMPILATION_ELSEWHERE * self.lengths:
                self._placed = placed
        if left and (-(-len(left) // self.size) < len(self.chunks) or self.size < size):
            runs, states = self.states()
            rows = np.flatnonzero(active[np.asarray(runs)])
            self.adopt(left, jax.tree.map(lambda leaf: leaf[rows], states))
        for chunk in self.chunks:
            slots = np.maximum(chunk.runs, 0)
            learns = (chunk.runs >= 0) & active[slots]
            chunk.others = self.by_slot((*self._settings(slots), learns))

    def _settings(self, runs: np.ndarray) -> tuple[np.ndarray, step.Hyperparameters]:
        return self.seeds[runs], jax.tree.map(lambda leaf: leaf[runs], self.hyperparameters)

    def epoch(self, number: int, *, ahead: bool = False) -> Epoch:
        """Returns the steps of an epoch, and puts its batches on the devices, once for each chunk.

        With `ahead`, a thread of the host starts on the batches of the next epoch while the devices compute.
        """
        slots = [np.maximum(chunk.runs, 0).tolist() for chunk in self.chunks]
        of_chunks = sorted({run for runs in slots for run in runs})
        key, future = self._drawn
        drawn, most_words = future.result() if key == (number, of_chunks) else self._draw(number, of_chunks)
        if ahead:
            self._drawn = (number + 1, of_chunks), self._thread.submit(self._draw, number + 1, of_chunks)
        for chunk, runs in zip(self.chunks, slots, strict=True):
            chunk.batches = self.by_slot(self._stacked([drawn[run] for run in runs]))
        some, tables = next(iter(drawn.values())), self.batches.tables
        first, counts, ends = {}, {}, dict.fromkeys(self._tables.values(), 0)
        for table, shape in self._tables.items():
            first[table], counts[table] = ends[shape], some[table][1].sum(axis=1, dtype=np.int64)
            ends[shape] += len(counts[table])
        sequence = self.batches.bucket_sequence(number)
        seen = np.cumsum([counts[tables[bucket]][batch] for bucket, batch in sequence.tolist()])
        sequence[:, 1] += [first[tables[bucket]] for bucket in sequence[:, 0].tolist()]
        shapes = {bucket: self._shape(bucket, most_words) for bucket in tables}
        return Epoch(sequence, shapes, seen + number * self.pairs)

    def _stacked(self, drawn: Sequence[Drawn]) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
        """Returns `Chunk.batches` for the batches of each slot. Tables whose batches have the same shape are one array,
        so that they share a program.
        """
        found: dict[tuple[int, int], list[tuple[np.ndarray, ...]]] = {}
        for table, shape in self._tables.items():
            of_slots = [batches[table] for batches in drawn]
            found.setdefault(shape, []).append(tuple(map(np.stack, zip(*of_slots, strict=True))))
        return {
            shape: tuple(np.concatenate(arrays, axis=1) for arrays in zip(*of_tables, strict=True))
            for shape, of_tables in found.items()
        }

    def _shape(self, bucket: int, drawn_words: Mapping[int, int]) -> BatchShape:
        """Returns the shape that the step of a bucket is compiled for. If a batch has more distinct words than
        expected, which is very unlikely, the bucket uses another program in this epoch.
        """
        most, compiled = self._most_words.get(bucket), self.batches.compiled
        if most is not None and drawn_words.get(bucket, 0) > most:
            most = None
        is_shared = list(compiled.values()).count(compiled[bucket]) > 1
        return BatchShape(compiled[bucket][1], most, is_shared)

    def _draw(self, epoch: int, runs: Sequence[int]) -> tuple[dict[int, Drawn], dict[int, int]]:
        """Returns the batches of each run in an epoch; and the most distinct words in a batch of each bucket, if words
        are counted.
        """
        drawn, most_words = {run: self.batches.rows(int(self.seeds[run]), epoch) for run in runs}, {}
        for batches in drawn.values() if self._ids is not None else ():
            for bucket, rows in self.batches.batches_of(batches, epoch).items():
                ids = self._ids[:, : self.batches.buckets[bucket]]
                most = most_distinct_words((ids[batch] for batch in rows), self._words)
                most_words[bucket] = max(most, most_words.get(bucket, 0))
        return drawn, most_words

    def step(self, epoch: Epoch, index: int) -> int:
        """Makes one step of every chunk, and returns how many slots that were."""
        bucket, batch = epoch.sequence[index].tolist()
        at = self.replicate(np.array([batch, self.batches.buckets[bucket]], np.int32))
        slots = 0
        for chunk in self.chunks:
            batches = chunk.batches[self._tables[self.batches.tables[bucket]]]
            arrays = chunk.state, chunk.others, batches, at, *self.on_devices
            chunk.state = self.programs.train((epoch.shapes[bucket],), *arrays)
            slots += len(chunk.runs)
        return slots

    def wait(self) -> None:
        """Waits until the devices have made all steps."""
        jax.block_until_ready([chunk.state.step for chunk in self.chunks])

    def compile(self) -> None:
        """Starts to compile the steps of all lengths side by side, which needs no array on a device."""
        if not self.programs.train.compiles_ahead or self._compiled == self.size:
            return
        self._compiled = self.size
        state = self.state_shapes(self.size)
        batches = self._stacked([self.batches.rows(int(self.seeds[0]), 0)] * self.size)
        others, place = (*self._settings(np.zeros(self.size, int)), np.ones(self.size, bool)), np.zeros(2, np.int32)
        self.programs.train.compile_ahead(
            ((self._shape(bucket, {}),), (state, others, batches[self._tables[table]], place, *self._on_host))
            for bucket, table in sorted(self.batches.tables.items())
        )


def training_batches(
    module: nn.Module, data: EncodedData, training: Mapping[str, Any], parameters: int, platform: str
) -> BatchPlan:
    """Returns the batches of a training set, and the programs that they share.

    `training` has the settings epochs, batch_size, maximum_buckets and mix_lengths. `parameters` is their number.
    """
    plan = plan_batches(
        data.splits["train"].lengths,
        batch_size=training["batch_size"],
        maximum_buckets=training["maximum_buckets"],
        mix_lengths=training["mix_lengths"],
    )
    # DIIN's grid has one size, whatever the length.
    if not hasattr(module.config, "grid_length"):
        if module.config.words == "trained":
            parameters -= data.vectors.size
        operations = OPERATIONS_A_COMPILATION.get(platform, OPERATIONS_A_COMPILATION_ELSEWHERE)
        plan.share_programs(training["epochs"], operations / (OPERATIONS_A_PARAMETER * max(1, parameters)))
    return plan
