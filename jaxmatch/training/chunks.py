"""The chunks of a cohort: the slots that the devices compute at once. All chunks of a signature share one program.

The number of runs therefore does not matter to a program. A chunk whose runs have all ended costs nothing, and what is
left in several chunks moves together, without a new program. A slot without a run only fills its chunk.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from jaxmatch import models
from jaxmatch.data.batches import BatchPlan, distinct_word_counts, most_in_training, plan_batches
from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import is_out_of_memory
from jaxmatch.training import hosts, step
from jaxmatch.training.evaluation import chunk_outputs, device_split
from jaxmatch.training.programs import Program, place, replica_mesh
from jaxmatch.training.step import BatchShape, Flattening, State, chunk_step, flattening, initial_state, words_trained

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
# The share of an allocator's memory to use. The rest is for gaps between arrays, and for data that come and go.
SHARE_TO_USE = 0.95


class TooLarge(MemoryError):
    """Raised if not even one run fits a device."""


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
    mesh = replica_mesh(devices)
    flat = flattening(module, dimensions, words, devices[0].platform)
    initialize = jax.vmap(functools.partial(initial_state, flat), (0, 0, None))
    return Programs(
        flat,
        Program(initialize, name="initialize", by_replica=(True, True, False), mesh=mesh, runs_once=True),
        Program(
            chunk_step(flat, task),
            name="train_step",
            by_replica=(True, True, True, False, False, False),
            mesh=mesh,
            donated=(0,),
        ),
        Program(chunk_outputs(flat), name="evaluate", by_replica=(True, False, False, False), mesh=mesh),
    )


def devices_filled(runs: int, devices: int) -> int:
    """Returns the fewest devices on which no device has more runs than if they were spread over all devices."""
    return -(-runs // -(-runs // devices))


def chunk_size(runs: int, batch: int, platform: str, devices: int = 1, limit: int | None = None) -> int:
    """Returns the number of slots of a chunk, a multiple of the number of devices.

    Arguments:
      runs: the number of runs.
      batch: the number of pairs in a batch of a run.
      platform: the platform of the devices.
      devices: the number of devices that share a chunk.
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
      is_active: whether any slot still learns.
      batches: table of the batch plan -> the batches of the epoch, (rows `<int32>[slot, batches, batch]`, weights
        `<float32>[slot, batches, batch]`).
    """

    runs: np.ndarray
    state: State
    others: tuple = ()
    is_active: bool = True
    batches: dict[int, tuple[jax.Array, jax.Array]] = dataclasses.field(default_factory=dict)


class Epoch(NamedTuple):
    """The steps of an epoch.

    Attributes:
      number: the number of the epoch, from 0.
      sequence: (bucket, index of the batch) for every step, `<int32>[steps, 2]`; the same for all runs.
      shapes: bucket -> the batch shape that its step is compiled for.
      samples: the number of pairs seen since training began, after each step, `<int64>[steps]`.
    """

    number: int
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
      programs: the programs of the signature.
      batches: the plan of the batches.
      pairs: the number of training pairs.
      size: the number of slots of a chunk.
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
        self._mesh, self._devices = replica_mesh(devices), devices
        module = models.build(model, outputs=data.outputs)
        words, dimensions = data.vectors.shape
        trained = words_trained(module, words)
        self.programs = programs(module, data.task, dimensions, trained, devices, tuple(step.ADDED.items()))
        self.seeds, self._hyperparameters = np.asarray(seeds, np.uint32), step.stack(optimizer)
        train = data.splits["train"]
        self.pairs = train.pairs
        self.batches = training_batches(module, data, training, self.programs.flat.count, devices[0].platform)
        self._operations_a_token = OPERATIONS_A_PARAMETER * self.programs.flat.count
        self.vectors = self.replicate(data.word_table)
        split = device_split(train)
        ids = split["tokens"]["ids"] if module.takes_characters else None
        self._most_words = {} if ids is None else most_in_training(self.batches, ids, words)
        self._orders = _Orders(self.batches, self.seeds.tolist(), ids, words)
        self._split = self.replicate(split)
        self.limit: int | None = None
        self._placed = len(self.seeds)  # the number of runs that the size of a chunk is made for
        self.chunks: list[Chunk] = []

    @property
    def size(self) -> int:
        """The number of slots of a chunk."""
        rows = max(rows for rows, _ in self.batches.compiled.values())
        return chunk_size(self._placed, rows, self.platform, len(self._devices), self.limit)

    @property
    def platform(self) -> str:
        """The platform of the devices."""
        return self._devices[0].platform

    @property
    def lengths(self) -> int:
        """The number of programs that training compiles."""
        return len(set(self.batches.compiled.values()))

    @property
    def compile_seconds(self) -> float:
        """The seconds spent so far on compiling the programs of this signature, for this cohort and others."""
        return sum(program.compile_seconds for program in self.programs[1:])

    def replicate(self, tree: Any) -> Any:
        """Puts a copy of the arrays on every device."""
        return place(tree, self._mesh, by_replica=False)

    def by_slot(self, tree: Any) -> Any:
        """Spreads arrays with a leading slot axis over the devices."""
        return place(tree, self._mesh, by_replica=True)

    def hyperparameters(self, run: int) -> step.Hyperparameters:
        """Returns the traced hyperparameters of one run."""
        return jax.tree.map(lambda leaf: leaf[run], self._hyperparameters)

    def filled(self, values: Sequence[Any]) -> list[Any]:
        """Fills up the values of the slots of a chunk with copies of the first."""
        return [*values] + [values[0]] * (self.size - len(values))

    def groups(self, runs: Sequence[int]) -> list[list[int]]:
        """Splits runs into those of each chunk."""
        return [list(runs[start : start + self.size]) for start in range(0, len(runs), self.size)]

    def initialize(self) -> None:
        """Gives every run a slot, with the state before its first step."""
        self.chunks = []
        for runs in self.groups(range(len(self.seeds))):
            settings = self.by_slot(self._settings(self.filled(runs)))
            self._add(runs, self.programs.initialize((), *settings, self.vectors))

    def adopt(self, runs: Sequence[int], states: State) -> None:
        """Gives the given runs slots with their states, `[run, ...]` on the host."""
        self.chunks = []
        for start, group in zip(range(0, len(runs), self.size), self.groups(runs), strict=True):
            rows = np.asarray(self.filled(range(start, start + len(group))))
            self._add(group, self.by_slot(jax.tree.map(lambda leaf: np.asarray(leaf)[rows], states)))

    def _add(self, runs: Sequence[int], state: State) -> None:
        slots = np.full(self.size, -1)
        slots[: len(runs)] = runs
        self.chunks.append(Chunk(slots, state))

    def states(self) -> tuple[list[int], State]:
        """Returns the runs that have a slot, and their states on the host, `[run, ...]`."""
        gathered = [hosts.gather(chunk.state) for chunk in self.chunks]
        kept = [np.flatnonzero(chunk.runs >= 0) for chunk in self.chunks]
        runs = [int(run) for chunk in self.chunks for run in chunk.runs if run >= 0]
        taken = [jax.tree.map(lambda leaf: np.asarray(leaf)[rows], state) for state, rows in zip(gathered, kept)]
        return runs, jax.tree.map(lambda *leaves: np.concatenate(leaves), *taken)

    def state_structure(self) -> State:
        """Returns the shapes of the state of one run."""
        seed, hyperparameters = self._settings([0])
        one = functools.partial(initial_state, self.programs.flat)
        return jax.eval_shape(jax.vmap(one, (0, 0, None)), seed, hyperparameters, self.vectors)

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
            saved = epochs * self.batches.tokens() * (size - self.size) / len(self._devices)
            if saved * self._operations_a_token < OPERATIONS_A_COMPILATION_ELSEWHERE * self.lengths:
                self._placed = placed
        if left and (len(self.groups(left)) < len(self.chunks) or self.size < size):
            runs, states = self.states()
            rows = np.flatnonzero(active[np.asarray(runs)])
            self.adopt(left, jax.tree.map(lambda leaf: leaf[rows], states))
        for chunk in self.chunks:
            slots = np.maximum(chunk.runs, 0)
            learns = (chunk.runs >= 0) & active[slots]
            chunk.is_active = bool(learns.any())
            seeds, hyperparameters = self._settings(slots)
            chunk.others = self.by_slot((seeds, hyperparameters, learns))

    def _settings(self, runs: Sequence[int]) -> tuple[np.ndarray, step.Hyperparameters]:
        rows = np.asarray(runs)
        return self.seeds[rows], jax.tree.map(lambda leaf: leaf[rows], self._hyperparameters)

    def epoch(self, number: int, *, ahead: bool = False) -> Epoch:
        """Returns the steps of an epoch, and puts its batches on the devices, once for each chunk.

        With `ahead`, the host starts on the batches of the next epoch while the devices compute.
        """
        runs = [int(run) for chunk in self.chunks for run in np.maximum(chunk.runs, 0)]
        orders = self._orders.of(number, dict.fromkeys(runs), ahead=ahead)
        for chunk in self.chunks:
            of_slots = [orders[int(run)].batches for run in np.maximum(chunk.runs, 0)]
            for table in of_slots[0]:
                padded = [self.batches.padded(table, *batches[table]) for batches in of_slots]
                chunk.batches[table] = self.by_slot(tuple(np.stack(arrays) for arrays in zip(*padded, strict=True)))
        counts = {table: weights.sum(axis=1, dtype=np.int64) for table, (_, weights) in of_slots[0].items()}
        sequence, tables = self.batches.bucket_sequence(number), self.batches.tables
        seen = np.cumsum([counts[tables[bucket]][batch] for bucket, batch in sequence.tolist()])
        shapes = {bucket: self._shape(bucket, orders.values()) for bucket in tables}
        return Epoch(number, sequence, shapes, seen + number * self.pairs)

    def _shape(self, bucket: int, orders: Iterable["_Order"] = ()) -> BatchShape:
        """Returns the shape that the step of a bucket is compiled for. If a batch has more distinct words than
        expected, which is very unlikely, the bucket uses another program in this epoch.
        """
        most, compiled = self._most_words.get(bucket), self.batches.compiled
        if most is not None and any(order.most_words.get(bucket, 0) > most for order in orders):
            most = None
        is_shared = list(compiled.values()).count(compiled[bucket]) > 1
        return BatchShape(compiled[bucket][1], most, is_shared)

    def step(self, epoch: Epoch, index: int) -> int:
        """Makes one step of every chunk that still learns, and returns how many slots that were."""
        bucket, batch = epoch.sequence[index].tolist()
        at = self.replicate(np.array([batch, self.batches.buckets[bucket]], np.int32))
        slots = 0
        for chunk in self.chunks:
            if chunk.is_active:
                arrays = chunk.others, chunk.batches[self.batches.tables[bucket]], at, self._split, self.vectors
                chunk.state = self.programs.train((epoch.shapes[bucket],), chunk.state, *arrays)
                slots += len(chunk.runs)
        return slots

    def wait(self) -> None:
        """Waits until the devices have made all steps."""
        jax.block_until_ready([chunk.state.step for chunk in self.chunks])

    def compile(self, epoch: Epoch) -> None:
        """Compiles the steps of all lengths of an epoch side by side, where that is faster."""
        calls = {}
        for bucket in sorted(self.batches.tables):
            call = self._call(epoch.shapes[bucket], self.batches.tables[bucket])
            calls[epoch.shapes[bucket], self.batches.compiled[bucket]] = call
        self.programs.train.compile_in_parallel(calls.values())

    def _call(self, shape: BatchShape, table: int) -> tuple[tuple, tuple]:
        """Returns the static arguments and the arrays of a step of the first chunk."""
        chunk = self.chunks[0]
        at = self.replicate(np.zeros(2, np.int32))
        return (shape,), (chunk.state, chunk.others, chunk.batches[table], at, self._split, self.vectors)

    def fit_to_memory(self, epoch: Epoch) -> bool:
        """Lowers `limit` if a step of the largest shape does not fit the free memory of the devices.

        The program compiled for this is the one that trains. If the amount of free memory is unknown, as on a CPU,
        nothing is done.

        Returns:
          Whether the limit was lowered; the runs then need new slots (`adopt`, `epoch`).
        """
        self.wait()
        free = free_bytes(self._devices)
        on_each = self.size // len(self._devices)
        if free is None or on_each == 1:
            return False
        bucket = max(self.batches.compiled, key=lambda each: np.prod(self.batches.compiled[each]))
        try:
            call = self._call(epoch.shapes[bucket], self.batches.tables[bucket])
            needed = bytes_beside_arguments(self.programs.train.compiled(*call))
        except jax.errors.JaxRuntimeError as error:  # a TPU's compiler rejects a program that does not fit
            if not is_out_of_memory(error):
                raise
            needed = 2 * free
        if needed is None or needed <= free:
            return False
        self.limit = max(1, min(on_each - 1, on_each * free // needed))
        return True


def training_batches(
    module: nn.Module, data: EncodedData, training: Mapping[str, Any], parameters: int, platform: str
) -> BatchPlan:
    """Returns the batches of a training set, and the programs that they share.

    Arguments:
      module: the model.
      data: encoded data.
      training: the settings epochs, batch_size, maximum_buckets and mix_lengths.
      parameters: the number of trained parameters.
      platform: the platform of the devices.
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


def free_bytes(devices: Iterable[jax.Device]) -> int | None:
    """Returns the bytes that a program may still allocate on every device, that is, the minimum over the devices.

    Returns None if a device, such as a CPU, reports no memory statistics. With several processes, only the devices of
    process 0 count.
    """

    def least() -> int | None:
        statistics = [device.memory_stats() or {} for device in hosts.local(devices)]
        if any("bytes_limit" not in each for each in statistics):
            return None
        return min(int(SHARE_TO_USE * each["bytes_limit"]) - each.get("bytes_in_use", 0) for each in statistics)

    return hosts.decide(least)


def bytes_beside_arguments(program: jax.stages.Compiled) -> int | None:
    """Returns the bytes that a program allocates on each device besides its arguments, or None if XLA does not say."""
    analysis = program.memory_analysis()
    if analysis is None:
        return None
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes


class _Order(NamedTuple):
    """The batches of one run in one epoch.

    Attributes:
      batches: table of the plan -> (rows `<int32>[batches, batch]`, weights `<float32>[batches, batch]`).
      most_words: bucket -> the most distinct words in a batch; empty if words are not counted.
    """

    batches: Mapping[int, tuple[np.ndarray, np.ndarray]]
    most_words: Mapping[int, int]


class _Orders:
    """The orders of all runs, epoch by epoch. The host draws those of the next epoch while the devices compute.

    Arguments:
      plan: the plan of the batches.
      seeds: one seed per run.
      ids: the token ids `<int32>[pairs, longest]`, whose distinct words are counted; None: words are not counted.
      words: the number of words in the vocabulary.
    """

    def __init__(self, plan: BatchPlan, seeds: Sequence[int], ids: np.ndarray | None, words: int):
        self._plan, self._seeds, self._ids, self._words = plan, seeds, ids, words
        self._futures: dict[tuple[int, int], Future[_Order]] = {}
        self._thread = ThreadPoolExecutor(1)

    def of(self, epoch: int, runs: Iterable[int], *, ahead: bool) -> dict[int, _Order]:
        """Returns the orders of an epoch by run. With `ahead`, another thread starts on those of the next epoch."""
        self._futures = {key: future for key, future in self._futures.items() if key[0] >= epoch}
        for key in [(number, run) for number in range(epoch, epoch + 1 + ahead) for run in runs]:
            if key not in self._futures:
                self._futures[key] = self._thread.submit(self._order, *key)
        return {run: self._futures[epoch, run].result() for run in runs}

    def _order(self, epoch: int, run: int) -> _Order:
        batches, most_words = self._plan.rows(self._seeds[run], epoch), {}
        if self._ids is not None:
            for bucket, rows in self._plan.batches_of(batches, epoch).items():
                ids = self._ids[:, : self._plan.buckets[bucket]]
                most_words[bucket] = int(distinct_word_counts(ids, rows, self._words).max())
        return _Order(batches, most_words)
