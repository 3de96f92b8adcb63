"""Training of a cohort: all runs of one signature in lockstep, each with its own best checkpoint and its own end."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.data.encoded import EncodedData
from jaxmatch.errors import InputError
from jaxmatch.training import evaluation_times, hosts, restacking
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.cohort_progress import CohortProgress
from jaxmatch.training.evaluation import Evaluator, evaluation_batch_size
from jaxmatch.training.lockstep import Epoch, Lockstep
from jaxmatch.training.programs import Program, compilation_callback
from jaxmatch.training.progress import Listener
from jaxmatch.training.replicas_at_once import Limits
from jaxmatch.training.resuming import Resuming
from jaxmatch.training.selection import RunResult, Selection
from jaxmatch.training.step import ReplicaState

# The host waits for the devices about this often, to show progress and to check the time.
SECONDS_BETWEEN_POLLS = 0.5


class Cohort:
    """The runs of one signature, ready to train.

    Arguments:
      model: the model settings of `jaxmatch.models.build`.
      training: the settings epochs, batch_size, maximum_buckets, mix_lengths, and those of selection.py and
        evaluation_times.py.
      execution: the settings evaluation_batch_size, checkpoint_seconds, steps_at_once and restack.
      data: encoded data with the splits "train" and "dev".
      seeds: one seed per run.
      optimizer: the traced hyperparameters, one mapping per run.
      devices: the devices that the replica axis is spread over; default: all devices.

    Attributes:
      lockstep: the replicas on the devices.
      evaluator: the evaluator that scores the replicas; the seconds that it counts are part of those of "evaluate".
      progress: the progress of the cohort.
      limits: the limits that memory sets.

    Raises:
      InputError: the data has no train split or no dev split.
    """

    def __init__(
        self,
        *,
        model: Mapping[str, Any],
        training: Mapping[str, Any],
        execution: Mapping[str, Any],
        data: EncodedData,
        seeds: Sequence[int],
        optimizer: Sequence[Mapping[str, float]],
        devices: Sequence[jax.Device] | None = None,
    ):
        for name in ("train", "dev"):
            if name not in data.splits:
                raise InputError(
                    f'the data set "{data.name}" has no {name} split',
                    remedy="add the split: training needs train, and chooses the checkpoint on dev",
                )
        self._training, self._execution = training, execution
        devices = tuple(devices or jax.devices())
        self._platform = devices[0].platform
        self.lockstep = Lockstep(
            model=model,
            data=data,
            batch_size=training["batch_size"],
            maximum_buckets=training["maximum_buckets"],
            mix_lengths=training["mix_lengths"],
            seeds=seeds,
            optimizer=optimizer,
            devices=devices,
            steps_at_once=execution["steps_at_once"],
        )
        self.evaluator = Evaluator(
            data,
            self.lockstep.programs.evaluate,
            self.lockstep.replicate,
            self.lockstep.vectors,
            batch_size=evaluation_batch_size(execution["evaluation_batch_size"], self._platform),
            maximum_buckets=training["maximum_buckets"],
        )
        # Nothing here refers to the cohort itself, so that its arrays leave the devices when it ends, without a garbage
        # collection.
        lockstep = self.lockstep
        self.progress = progress = CohortProgress(len(seeds), lambda: lockstep.compile_seconds)
        parts = {"training": self.lockstep, "evaluation": self.evaluator}
        self.limits = Limits(parts, devices, lambda: progress.steps["lockstep"])
        self._selection = Selection(training, self.lockstep, self.evaluator, self.limits, self.progress)
        self._compilations: dict[str, int] = {}

    def train(
        self,
        checkpoints: Checkpoints | None = None,
        listener: Listener | None = None,
        *,
        until: int | None = None,
        dropped: Mapping[int, Collection[int]] | None = None,
    ) -> list[RunResult] | None:
        """Trains every run to its end, and scores test once with the checkpoint that was chosen on dev.

        If the memory of a device runs out, fewer replicas are computed side by side from then on. Training continues
        from the last checkpoint, because a step that failed may have lost its arguments. An evaluation is repeated.

        Arguments:
          checkpoints: the checkpoints to write and to resume from; None: no checkpoints.
          listener: the listener that receives training events.
          until: the number of epochs after which to pause, with a checkpoint from which another call resumes; None:
            train to the end.
          dropped: number of epochs -> the runs (counted from 0) that are given up once that many epochs are over.

        Returns:
          One result per run, in the order of `seeds`, or None if training has paused.

        Raises:
          TooLarge: a device does not have enough memory for one replica at a time.
        """
        listener = listener or Listener()
        seconds = self._execution["checkpoint_seconds"]
        resuming = Resuming(checkpoints, seconds, self.lockstep, self.evaluator, self.limits, self.progress)

        def train() -> list[RunResult] | None:
            with compilation_callback(lambda program, seconds: self._report_compilation(listener, program, seconds)):
                return self._train(resuming, listener, until, dropped or {})

        # A run that diverges is recorded. These checks of JAX would end the other runs with it.
        with jax.debug_nans(False), jax.debug_infs(False):
            return self.limits.retry_with_fewer_replicas("training", train, listener)

    def _report_compilation(self, listener: Listener, program: Program, seconds: float | None) -> None:
        """Tells the listener about compilations of training and evaluation programs, which take long."""
        if program is self.lockstep.programs.evaluate:
            part, lengths = "evaluation", self.evaluator.lengths
        elif program is not self.lockstep.programs.initialize:
            several = self.lockstep.steps_at_once > 1  # then one program contains all lengths
            part, lengths = "training", 1 if several else len(self.lockstep.batches.batch_rows)
        else:
            return
        if seconds is not None:
            listener.compiled(part, seconds)
            return
        number = self._compilations[part] = self._compilations.get(part, 0) + 1
        listener.compiling(part, (number - 1) % lengths + 1, lengths)

    def _train(
        self, resuming: Resuming, listener: Listener, until: int | None, dropped: Mapping[int, Collection[int]]
    ) -> list[RunResult] | None:
        """Trains from the start or from the last checkpoint."""
        lockstep, progress = self.lockstep, self.progress
        for part in (lockstep, self.evaluator, progress):
            part.begin()
        epochs = self._training["epochs"]
        total = epochs * lockstep.batches.steps_per_epoch
        with progress.timed("train"):
            state = lockstep.initial()
        state, best, resumed = resuming.restore(state, jnp.zeros_like(state.parameters))
        if resumed:
            listener.resumed(progress.epoch * lockstep.batches.steps_per_epoch + progress.index, total)
        listener.begun([tuple(run.curve) for run in progress.runs])
        state, best = lockstep.by_replica(state), lockstep.by_replica(best)
        with progress.timed("train"), self.limits.reported("training", listener):
            lockstep.fit_to_memory(state)
        resuming.begin()
        state = self._drop(state, dropped)
        begun = progress.epoch
        while progress.epoch < (epochs if until is None else min(until, epochs)) and not progress.all_done:
            state, best = self._train_epoch(state, best, resuming, listener)
            state = self._drop(state, dropped)
        self._selection.note_divergence(state)
        if progress.epoch < epochs and not progress.all_done:
            if progress.epoch > begun:
                resuming.save(state, best)
            return None
        listener.stepped(total, total)
        return self._selection.results(best, listener)

    def _train_epoch(self, state, best, resuming: Resuming, listener: Listener) -> tuple[ReplicaState, jax.Array]:
        """Trains the remaining steps of the epoch."""
        lockstep, progress = self.lockstep, self.progress
        epoch = self._epoch(state)
        due = evaluation_times.due(self._training, progress.epoch, lockstep.pairs, epoch.samples)
        steps = len(epoch.sequence)
        stops = np.append(np.flatnonzero(due) + 1, steps)  # no dispatch goes past one of these
        poll_every = 1
        while (begin := progress.index) < steps:
            stop = min(begin + poll_every, int(stops[np.searchsorted(stops, begin, side="right")]))
            before = progress.seconds["train"]
            with progress.timed("train"):
                while progress.index < stop:
                    count = min(lockstep.steps_at_once, stop - progress.index)
                    state = lockstep.step(state, epoch, progress.index, count)
                    progress.stepped(count, len(lockstep.slots))
                if not due[stop - 1] and stop < begin + poll_every:
                    break  # The epoch is over: the devices may still compute while the host prepares the next one.
                jax.block_until_ready(state.step)
            seconds = max(progress.seconds["train"] - before, 1e-6)
            pace = max(1, int(SECONDS_BETWEEN_POLLS * (stop - begin) / seconds))
            poll_every = hosts.decide(lambda pace=pace: pace)
            listener.stepped(progress.epoch * steps + stop, self._training["epochs"] * steps)
            if due[stop - 1]:
                state, best = self._selection.evaluate(state, best, int(epoch.samples[stop - 1]), listener)
                if progress.all_done:
                    break
                slots = lockstep.slots
                state = self._restack(state)
                if lockstep.slots is not slots and stop < steps:
                    epoch = self._epoch(state)
            if resuming.is_due(listener):
                resuming.save(state, best)
                listener.saved()
        progress.epoch, progress.index = progress.epoch + 1, 0
        return state, best

    def _epoch(self, state: ReplicaState) -> Epoch:
        """Returns the batches of the epoch for the current slots, and compiles the programs that its steps need."""
        number = self.progress.epoch
        epoch = self.lockstep.epoch(number, ahead=number + 1 < self._training["epochs"])
        if self.progress.index < len(epoch.sequence):
            with self.progress.timed("train"):
                self.lockstep.compile_lengths(state, epoch)
        return epoch

    def _drop(self, state: ReplicaState, dropped: Mapping[int, Collection[int]]) -> ReplicaState:
        """Gives up the runs whose epochs in `dropped` are over, and their slots.

        A run that patience has stopped is not given up, because its result is already final.
        """
        runs, due = self.progress.runs, False
        for epochs, numbers in dropped.items():
            for run in (runs[number] for number in numbers if epochs <= self.progress.epoch):
                if not run.stopped and run.dropped_at is None:
                    run.dropped_at, due = epochs * self.lockstep.pairs, True
        self.lockstep.active = self.progress.active
        return self._restack(state) if due and not self.progress.all_done else state

    def _restack(self, state: ReplicaState) -> ReplicaState:
        """Shrinks the program if patience or dropped runs have emptied half of its slots and if shrinking pays off.

        The number of slots is halved as often as possible at once, because every size in between would have to be
        compiled.

        A diverged run keeps its slot, so that the time of restacking does not depend on whether a neighbor diverged.
        """
        lockstep, progress = self.lockstep, self.progress
        if not self._execution["restack"]:
            return state
        left = [run.stopped or run.dropped_at is not None for run in progress.runs]
        kept = [slot for slot, run in enumerate(lockstep.slots) if run >= 0 and not left[run]]
        size = lockstep.halved(len(kept))
        epochs = self._training["epochs"] - progress.epoch - progress.index / lockstep.batches.steps_per_epoch
        pairs, given_up = round(epochs * lockstep.pairs), (len(lockstep.slots) - size) // lockstep.device_count
        if not given_up:
            return state
        lengths = len(lockstep.batches.batch_rows) + self.evaluator.lengths
        if restacking.pays(self._platform, pairs, given_up, lengths):
            return lockstep.restack(state, kept, size)
        return state
