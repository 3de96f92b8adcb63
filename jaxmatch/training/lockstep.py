"""The replicas of a cohort on the devices: which run trains in which slot, and the training step of all slots."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmatch import models
from jaxmatch.data import distinct_words
from jaxmatch.data.batches import plan_batches
from jaxmatch.data.buckets import largest
from jaxmatch.data.encoded import EncodedData
from jaxmatch.training import hosts, hyperparameters, losses, replicas_at_once
from jaxmatch.training.epoch_orders import EpochOrder, EpochOrders
from jaxmatch.training.evaluation import device_split
from jaxmatch.training.programs import Program, place, replica_mesh
from jaxmatch.training.replicas import at_once, most_at_once
from jaxmatch.training.signature_programs import programs
from jaxmatch.training.step import BatchShape, ReplicaState, words_trained


class Epoch(NamedTuple):
    """The batches of an epoch.

    Attributes:
      sequence: (bucket, index of the batch) for every step, `<int32>[steps, 2]`; the same for all runs.
      batches: bucket -> (rows `<int32>[replica, batches, batch]`, weights `<float32>[...]`) on the devices. With mixed
        lengths, all buckets have the same arrays, with all batches.
      shapes: bucket -> the batch shape that its step is compiled for.
      placed_sequence: `sequence` on the devices, with each bucket as its position among the sorted keys of `batches`.
      samples: the number of pairs seen since training began, after each step, `<int64>[steps]`.
    """

    sequence: np.ndarray
    batches: Mapping[int, tuple[jax.Array, jax.Array]]
    shapes: Mapping[int, BatchShape]
    placed_sequence: jax.Array
    samples: np.ndarray


class Lockstep:
    """The runs of a signature, trained side by side.

    A slot is a place on the replica axis. There may be more slots than runs, so that the devices share them evenly.

    Arguments:
      model: the model settings of `jaxmatch.models.build`.
      data: encoded data.
      batch_size, maximum_buckets, mix_lengths: as in `plan_batches`.
      seeds: one seed per run.
      optimizer: the traced hyperparameters, one mapping per run.
      devices: the devices that the replica axis is spread over.
      steps_at_once: the most steps of a dispatch.

    Attributes:
      slots: the run of each slot, `<int64>[slot]`; -1: the slot has no run and only fills the devices.
      active: whether each run still learns, `<bool>[run]`.
      limit: the most replicas that fit a device side by side (`replicas.at_once`); None: no limit is known.
      steps_at_once: the most steps of a dispatch.
    """

    def __init__(
        self,
        *,
        model: Mapping[str, Any],
        data: EncodedData,
        batch_size: int,
        maximum_buckets: int,
        seeds: Sequence[int],
        optimizer: Sequence[Mapping[str, float]],
        devices: tuple[jax.Device, ...],
        mix_lengths: bool = False,
        steps_at_once: int = 1,
    ):
        self._mesh = replica_mesh(devices)
        module = models.build(model, outputs=data.outputs)
        words, dimensions = data.vectors.shape
        added = tuple(losses.ADDED.items())
        self.programs = programs(module, data.task, dimensions, words_trained(module, words), devices, added)
        self.seeds, self._hyperparameters = np.asarray(seeds, np.uint32), hyperparameters.stack(optimizer)
        train = data.splits["train"]
        self.pairs = train.pairs
        self.batches = plan_batches(
            train.lengths, batch_size=batch_size, maximum_buckets=maximum_buckets, mix_lengths=mix_lengths
        )
        self.buckets = self.batches.buckets
        self._most_at_once = most_at_once(max(self.batches.batch_rows.values()), devices[0].platform)
        self.vectors = self.replicate(data.word_table)
        split = device_split(train)
        ids = split["tokens"]["ids"] if module.takes_characters else None
        self._most_words = {} if ids is None else distinct_words.most_in_training(self.batches, ids, words)
        self._orders = EpochOrders(self.batches, self.seeds.tolist(), ids, words)
        self._split = self.replicate(split)
        self._placed_for: tuple[bytes, bytes] | None = None
        self.steps_at_once = steps_at_once
        self.limit: int | None = None
        self.begin()

    def begin(self) -> None:
        """Gives every run a slot and marks it as active."""
        runs = len(self.seeds)
        self.active = np.ones(runs, bool)
        self.slots = np.full(self._round_up(runs), -1)
        self.slots[:runs] = np.arange(runs)

    def _round_up(self, count: int) -> int:
        """Returns the smallest number of slots, `count` or more, that the devices share evenly."""
        return -(-count // self._mesh.size) * self._mesh.size

    @property
    def device_count(self) -> int:
        """The number of devices that share the slots."""
        return self._mesh.size

    @property
    def at_once(self) -> int:
        """The number of replicas that a device computes at once in a step."""
        return self._at_once(self.limit)

    def _at_once(self, limit: int | None) -> int:
        return at_once(len(self.slots) // self._mesh.size, self._most_at_once, limit)

    def fit_to_memory(self, state: ReplicaState) -> None:
        """Lowers `limit` if a step of the largest shapes does not fit the free memory of the devices.

        The programs compiled for this are those that train. If the amount of free memory is unknown, as on a CPU,
        nothing is done.

        Arguments:
          state: the state of all slots.
        """
        free = replicas_at_once.free_bytes(jax.block_until_ready(state).step.devices())
        if free is None:
            return
        epoch = self.epoch(0)
        buckets = {(rows, self.buckets[bucket]): bucket for bucket, rows in self.batches.batch_rows.items()}
        for shape in largest(buckets):

            def compiled(side_by_side: int, bucket: int = buckets[shape]) -> jax.stages.Compiled:
                if self.steps_at_once > 1:
                    program, static, arrays = self._call_of_steps(state, epoch, 0, 1, side_by_side)
                else:
                    program, static, arrays = self._call_of_step(state, epoch, bucket, 0, side_by_side)
                return program.compiled(static, arrays)

            self.limit = replicas_at_once.limit_that_fits(self._at_once, compiled, self.limit, free)

    def compile_lengths(self, state: ReplicaState, epoch: Epoch) -> None:
        """Compiles the steps of all new lengths side by side, if that is faster.

        If a dispatch has several steps, nothing is done, because one program contains all lengths.
        """
        if self.steps_at_once == 1 and self.programs.train.compiles_in_parallel:
            calls = [self._call_of_step(state, epoch, bucket, 0, self.at_once) for bucket in sorted(epoch.batches)]
            self.programs.train.compile_in_parallel([(static, arrays) for _, static, arrays in calls])

    @property
    def compile_seconds(self) -> float:
        """The seconds spent so far on compiling the programs of this signature, for this cohort and others."""
        _, *compiled = self.programs
        return sum(program.compile_seconds for program in compiled)

    def replicate(self, tree: Any) -> Any:
        """Puts a copy of the arrays on every device."""
        return place(tree, self._mesh, by_replica=False)

    def by_replica(self, tree: Any) -> Any:
        """Spreads arrays with a leading replica axis over the devices."""
        return place(tree, self._mesh, by_replica=True)

    def settings(self, run: int) -> hyperparameters.Hyperparameters:
        """Returns the traced hyperparameters of one run."""
        return jax.tree.map(lambda leaf: leaf[run], self._hyperparameters)

    def _slot_runs(self) -> np.ndarray:
        """Returns the run whose seed and settings each slot uses. A slot without a run copies the first run."""
        return np.maximum(self.slots, 0)

    def _slot_settings(self) -> tuple[np.ndarray, hyperparameters.Hyperparameters]:
        runs = self._slot_runs()
        return self.seeds[runs], jax.tree.map(lambda leaf: leaf[runs], self._hyperparameters)

    def initial(self) -> ReplicaState:
        """Returns the state of all slots before the first step."""
        return self.programs.initialize((), *self.by_replica(self._slot_settings()), self.vectors)

    def epoch(self, number: int, *, ahead: bool = False) -> Epoch:
        """Returns the batches of an epoch for the current slots. With `ahead`, the host starts on those of the next
        epoch while the devices compute.
        """
        runs = self._slot_runs().tolist()
        orders = self._orders.of(number, dict.fromkeys(runs), ahead=ahead)
        placed, counts = {}, {}
        for table in orders[runs[0]].batches:
            rows, weights = (np.stack(arrays) for arrays in zip(*(orders[run].batches[table] for run in runs)))
            counts[table] = weights[0].sum(axis=1, dtype=np.int64)
            placed[table] = self.by_replica((rows, weights))
        tables, sequence = self.batches.tables, self.batches.bucket_sequence(number)
        batches = {bucket: placed[tables[bucket]] for bucket in tables}
        shapes = {bucket: self._shape(bucket, orders.values()) for bucket in tables}
        seen = np.cumsum([counts[tables[bucket]][batch] for bucket, batch in sequence.tolist()])
        places = np.stack([np.searchsorted(sorted(batches), sequence[:, 0]), sequence[:, 1]], axis=1).astype(np.int32)
        return Epoch(sequence, batches, shapes, self.replicate(places), seen + number * self.pairs)

    def _shape(self, bucket: int, orders: Iterable[EpochOrder]) -> BatchShape:
        """Returns the shape that the step of a bucket is compiled for. If a batch has more distinct words than
        expected, which is very unlikely, the bucket uses another program in this epoch.
        """
        most = self._most_words.get(bucket)
        if most is not None and any(order.most_words.get(bucket, 0) > most for order in orders):
            most = None
        return BatchShape(self.buckets[bucket], most)

    def step(self, state: ReplicaState, epoch: Epoch, index: int, count: int = 1) -> ReplicaState:
        """Makes one step of every slot, or several steps in one dispatch. `state` is donated.

        Arguments:
          state: the state of all slots.
          epoch: the epoch whose batches are used.
          index: the index of the first step in the epoch.
          count: the number of steps, at most `steps_at_once`.
        """
        if self.steps_at_once > 1:
            program, static, arrays = self._call_of_steps(state, epoch, index, count, self.at_once)
        else:
            program, static, arrays = self._call_of_step(state, epoch, *epoch.sequence[index].tolist(), self.at_once)
        return program(static, *arrays)

    def _call_of_steps(
        self, state: ReplicaState, epoch: Epoch, index: int, count: int, side_by_side: int
    ) -> tuple[Program, tuple, tuple]:
        """Returns the program for several steps, its static arguments, and its arrays."""
        seeds, settings, active = self._arguments()
        buckets = sorted(epoch.batches)
        batches = tuple(epoch.batches[bucket] for bucket in buckets)
        steps = batches, epoch.placed_sequence, *self.replicate((np.int32(index), np.int32(count)))
        static = tuple(epoch.shapes[bucket] for bucket in buckets), side_by_side
        return self.programs.train_many, static, (state, settings, seeds, active, *steps, self._split, self.vectors)

    def _call_of_step(
        self, state: ReplicaState, epoch: Epoch, bucket: int, batch: int, side_by_side: int
    ) -> tuple[Program, tuple, tuple]:
        """Returns the program for one step, its static arguments, and its arrays."""
        seeds, settings, active = self._arguments()
        batches = *epoch.batches[bucket], self.replicate(np.int32(batch))
        arrays = state, settings, seeds, active, *batches, self._split, self.vectors
        return self.programs.train, (epoch.shapes[bucket], side_by_side), arrays

    def _arguments(self) -> tuple[jax.Array, hyperparameters.Hyperparameters, jax.Array]:
        """Returns seeds, hyperparameters and active flags of the slots, on the devices; copied only if they changed."""
        key = (self.slots.tobytes(), self.active.tobytes())
        if self._placed_for != key:
            active = (self.slots >= 0) & self.active[self._slot_runs()]
            self._placed = self.by_replica((*self._slot_settings(), active))
            self._placed_for = key
        return self._placed

    def redistribute(self, state: ReplicaState, slots: np.ndarray) -> ReplicaState:
        """Adopts the state of a cohort that was trained on another number of devices. Slots without a run are dropped.

        Arguments:
          state: the state of all slots on the earlier devices.
          slots: the runs of these slots, as in the attribute `slots`.

        Returns:
          The state of the new slots.
        """
        kept = np.flatnonzero(slots >= 0)
        self.slots = np.full(self._round_up(len(kept)), -1)
        self.slots[: len(kept)] = slots[kept]
        return self.pad_rows(jax.tree.map(lambda leaf: leaf[kept], state))

    def pad_rows(self, tree: Any) -> Any:
        """Fills up the leaves with copies of their first row until the devices share the rows evenly."""
        return jax.tree.map(
            lambda leaf: np.concatenate([leaf, leaf[:1].repeat(self._round_up(len(leaf)) - len(leaf), axis=0)]), tree
        )

    def halved(self, count: int) -> int:
        """Returns the number of slots after halving it as often as possible without going below `count`."""
        size = len(self.slots)
        while count <= (half := self._round_up(-(-size // 2))) < size:
            size = half
        return size

    def restack(self, state: ReplicaState, kept: Sequence[int], size: int) -> ReplicaState:
        """Reduces the number of slots.

        Arguments:
          state: the state of all slots.
          kept: the positions of the slots to keep, ascending; the others are given up.
          size: the number of slots from now on, at least as many as are kept.

        Returns:
          The state of the remaining slots.
        """
        chosen = np.asarray((list(kept) + list(kept)[:1] * size)[:size])
        self.slots = np.where(np.arange(size) < len(kept), self.slots[chosen], -1)
        return self.by_replica(jax.tree.map(lambda leaf: leaf[chosen], hosts.gather(state)))
