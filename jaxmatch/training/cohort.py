"""Training a cohort: all runs of one signature in lockstep, each with its own best checkpoint and its own end."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.config.scores import SCORES
from jaxmatch.data.encoded import EncodedData
from jaxmatch.errors import InputError
from jaxmatch.training import evaluation_times, hosts, schedule
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.evaluation import Evaluator, evaluation_batch_size
from jaxmatch.training.lockstep import Lockstep
from jaxmatch.training.programs import Program, compilations_told
from jaxmatch.training.progress import Listener, RunProgress
from jaxmatch.training.room import RanOut, ran_out
from jaxmatch.training.step import ReplicaState

# The host waits for the device about this often, to show progress and to look at the clock.
SECONDS_BETWEEN_LOOKS = 0.5
# Of the time, about: training waits while one is written.
MOST_FOR_CHECKPOINTS = 0.05


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What a run left.

    Attributes:
      parameters: of the chosen checkpoint, a tree of numpy arrays.
      progress: its curve, best dev scores, marks.
      test: test scores of the chosen checkpoint, or None without a test split and for a run that was dropped.
      dev_outputs: `<float32>[pairs, outputs]`, what the chosen checkpoint answers on dev; None for a run that was
        dropped, and without a checkpoint.
      test_sampling: how much those of a ranking differ between questions (`ranking.ranking_deviations`), or None.
    """

    parameters: Any
    progress: RunProgress
    test: dict[str, float] | None
    dev_outputs: np.ndarray | None
    test_sampling: dict[str, Any] | None = None


@functools.partial(jax.jit, donate_argnums=0)
def _keep_best(best, parameters, runs, improved):
    """Writes the parameters of the slots that improved into the rows of their runs; all
    `<float32>[..., parameters]`.
    """
    target = jnp.where(improved, runs, best.shape[0])  # a row that does not exist: dropped
    return best.at[target].set(parameters, mode="drop")


class Cohort:
    """The runs of one signature, ready to train.

    Arguments:
      model: the model settings of `jaxmatch.models.build`.
      training: batch_size, patience_samples (0: never stop early), minimum_samples (nor before so many), selection (a
        dev score), maximum_buckets, best_on_test, and those of training/evaluation_times.py.
      execution: evaluation_batch_size, checkpoint_seconds, steps_at_once, restack.
      data: encoded data with the splits "train" and "dev".
      seeds: one a run.
      optimizer: traced hyperparameters, one mapping a run.
      devices: the replica axis is spread over them; default: all there are.

    Attributes:
      lockstep: the replicas on the devices.
      evaluator: what scores them; the seconds that it counts are part of those of "evaluate".
      seconds: time spent so far in "train", "evaluate", "compile" and "checkpoint", over all interruptions; what an
        evaluation had to wait for its compilation counts as "compile".
      steps: made so far: "lockstep", and "replica", which counts each as often as it had slots.
      ran_out: how often a device's memory ran out so far, over all interruptions.

    Raises:
      InputError: the data has no train or no dev split.
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
                    remedy="training learns from train and chooses its checkpoint on dev",
                )
        self._training, self._execution, self._data = training, execution, data
        devices = tuple(devices or jax.devices())
        self.device_kind = devices[0].device_kind
        self.lockstep = Lockstep(
            model=model,
            data=data,
            batch_size=training["batch_size"],
            maximum_buckets=training["maximum_buckets"],
            seeds=seeds,
            optimizer=optimizer,
            devices=devices,
            steps_at_once=execution["steps_at_once"],
        )
        self.evaluator = Evaluator(
            data,
            self.lockstep.programs.evaluate,
            self.lockstep.everywhere,
            self.lockstep.vectors,
            batch_size=evaluation_batch_size(execution["evaluation_batch_size"], devices[0].platform),
            maximum_buckets=training["maximum_buckets"],
        )
        self.ran_out: list[RanOut] = []
        self._compilations: dict[str, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Forgets all training there was. The limits that memory set stay."""
        self.lockstep.begin()
        self.evaluator.begin()
        self._progress = [RunProgress() for _ in self.lockstep.seeds]
        self._epoch = self._index = 0
        self.seconds = {"train": 0.0, "evaluate": 0.0, "compile": 0.0, "checkpoint": 0.0}
        self.steps = {"lockstep": 0, "replica": 0}

    @property
    def progress(self) -> tuple[RunProgress, ...]:
        """How each run has done so far."""
        return tuple(self._progress)

    def train(
        self,
        checkpoints: Checkpoints | None = None,
        listener: Listener | None = None,
        *,
        until: int | None = None,
        dropped: Mapping[int, Collection[int]] | None = None,
    ) -> list[RunResult] | None:
        """Trains every run to its end and scores test once with the checkpoint that dev chose.

        Where the memory of a device runs out, fewer replicas are computed side by side from then on. Training goes back
        to the last checkpoint for that: what a step was given may be gone with it. An evaluation is made again.

        Arguments:
          checkpoints: where to keep and look for checkpoints; None keeps none.
          listener: hears how it goes.
          until: pause after so many epochs, with a checkpoint from which another call goes on; None: train to the end.
          dropped: epochs -> runs (counted from 0) that are given up once so many epochs are over.

        Returns:
          One result a run, in the order of the seeds given; or None when it has paused.

        Raises:
          MemoryError: one replica at a time does not fit a device.
        """
        self._listener = listener or Listener()
        while True:
            try:
                with compilations_told(self._hear):
                    return self._train(checkpoints, self._listener, until, dropped or {})
            except jax.errors.JaxRuntimeError as error:
                self._compute_fewer(self.lockstep, "training", error)
            self._begin()

    def _hear(self, program: Program, seconds: float | None) -> None:
        """Tells the listener about compilations that take long."""
        if program is self.lockstep.programs.evaluate:
            part, lengths = "evaluation", self.evaluator.lengths
        elif program is not self.lockstep.programs.initialize:
            several = self.lockstep.steps_at_once > 1  # then one program has all lengths
            part, lengths = "training", 1 if several else len(self.lockstep.batches.batch_rows)
        else:
            return
        if seconds is not None:
            self._listener.compiled(part, seconds)
            return
        number = self._compilations[part] = self._compilations.get(part, 0) + 1
        self._listener.compiling(part, (number - 1) % lengths + 1, lengths)

    def _compute_fewer(self, where: Lockstep | Evaluator, part: str, error: jax.errors.JaxRuntimeError) -> None:
        """Halves how many replicas are computed side by side, if an error says that they do not fit; raises it if
        not.
        """
        if not ran_out(error):
            raise error
        if where.at_once <= 1:  # 0: not even the pairs to answer
            raise MemoryError(f"one replica at a time does not fit in {part}") from error
        fewer = where.at_once // 2
        self.ran_out.append(RanOut(part, self.steps["lockstep"], self.device_kind, where.at_once, fewer))
        where.limit = fewer
        self._listener.ran_out(part, fewer * self.lockstep.device_count)

    @contextlib.contextmanager
    def _told_if_fewer(self, where: Lockstep | Evaluator, part: str) -> Iterator[None]:
        """Tells the listener if a limit on the replicas side by side is found in the block."""
        before = where.limit
        yield
        if where.limit != before:
            self._listener.fitted(part, where.at_once * self.lockstep.device_count)

    def _train(
        self,
        checkpoints: Checkpoints | None,
        listener: Listener,
        until: int | None,
        dropped: Mapping[int, Collection[int]],
    ) -> list[RunResult] | None:
        with self._timed("train"):
            state = self.lockstep.initial()
        best = jnp.zeros_like(state.parameters)
        if checkpoints is not None:
            state, best = self._restore(checkpoints, state, best, listener)
        listener.begun([tuple(progress.curve) for progress in self._progress])
        state, best = self.lockstep.by_replica(state), self.lockstep.by_replica(best)
        with self._timed("train"), self._told_if_fewer(self.lockstep, "training"):
            self.lockstep.fit(state)
        total = self._training["epochs"] * self.lockstep.batches.steps_per_epoch
        self._saved_at, self._save_seconds = time.perf_counter(), 0.0
        state = self._drop(state, dropped)
        epochs, begun = self._training["epochs"], self._epoch
        while self._epoch < (epochs if until is None else min(until, epochs)) and not self._all_done():
            state, best = self._train_epoch(state, best, checkpoints, listener, total)
            state = self._drop(state, dropped)
        self._note_divergence(state)
        if self._epoch < epochs and not self._all_done():
            if checkpoints is not None and self._epoch > begun:
                self._save(checkpoints, state, best)
            return None
        listener.stepped(total, total)
        return self._results(best)

    @contextlib.contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Adds the seconds of the block to a part of `seconds`, less those in which it compiled."""
        start, compiled = time.perf_counter(), self.lockstep.compile_seconds
        yield
        compiled = self.lockstep.compile_seconds - compiled
        self.seconds["compile"] += compiled
        self.seconds[part] += time.perf_counter() - start - compiled

    def _all_done(self) -> bool:
        return all(progress.done for progress in self._progress)

    def _drop(self, state: ReplicaState, dropped: Mapping[int, Collection[int]]) -> ReplicaState:
        """Gives up the runs whose time has come, and their slots.

        One that patience has stopped has all it would ever have.
        """
        due = [(epochs, run) for epochs, runs in dropped.items() if epochs <= self._epoch for run in runs]
        due = [
            (epochs, run)
            for epochs, run in due
            if not self._progress[run].stopped and self._progress[run].dropped_at is None
        ]
        for epochs, run in due:
            self._progress[run].dropped_at = epochs * self.lockstep.pairs
        self._update_active()
        slots = None
        # Halved as often as it goes before the next step: every size on the way would have to be compiled.
        while due and not self._all_done() and slots is not self.lockstep.slots:
            slots = self.lockstep.slots
            state = self._restack(state)
        return state

    def _train_epoch(self, state, best, checkpoints, listener, total) -> tuple[ReplicaState, jax.Array]:
        epoch = self.lockstep.epoch(self._epoch)
        due = evaluation_times.due(self._training, self._epoch, self.lockstep.pairs, epoch.samples)
        steps = len(epoch.sequence)
        stops = np.append(np.flatnonzero(due) + 1, steps)  # no dispatch goes beyond one of these
        look_every, looked_at, looked = 1, self._index, time.perf_counter()
        while self._index < steps:
            stop = min(looked_at + look_every, int(stops[np.searchsorted(stops, self._index, side="right")]))
            count = min(self.lockstep.steps_at_once, stop - self._index)
            before = self.lockstep.compile_seconds
            state = self.lockstep.step(state, epoch, self._index, count)
            compiled = self.lockstep.compile_seconds - before
            looked += compiled
            self.seconds["compile"] += compiled
            self.steps["lockstep"] += count
            self.steps["replica"] += count * len(self.lockstep.slots)
            self._index += count
            is_due = due[self._index - 1]
            if not is_due and self._index - looked_at < look_every:
                continue

            jax.block_until_ready(state.step)
            seconds = time.perf_counter() - looked
            self.seconds["train"] += seconds
            pace = max(1, int(SECONDS_BETWEEN_LOOKS * (self._index - looked_at) / max(seconds, 1e-6)))
            look_every = hosts.decide(lambda pace=pace: pace)
            listener.stepped(self._epoch * steps + self._index, total)
            if is_due:
                state, best = self._evaluate(state, best, int(epoch.samples[self._index - 1]), listener)
                if self._all_done():
                    break
                slots = self.lockstep.slots
                state = self._restack(state)
                if self.lockstep.slots is not slots and self._index < steps:
                    epoch = self.lockstep.epoch(self._epoch)
            if checkpoints is not None and hosts.decide(
                lambda: self._checkpoint_is_due() or listener.wants_checkpoint()
            ):
                self._save(checkpoints, state, best)
                listener.saved()
            looked_at, looked = self._index, time.perf_counter()
        self._epoch, self._index = self._epoch + 1, 0
        return state, best

    def _restack(self, state: ReplicaState) -> ReplicaState:
        """Shrinks the program when patience, or dropping runs, has emptied half of its slots.

        A diverged run keeps its slot, so that when the cohort is re-stacked does not depend on whether a neighbour
        diverged.
        """
        if not self._execution["restack"]:
            return state
        slots = self.lockstep.slots
        left = [progress.stopped or progress.dropped_at is not None for progress in self._progress]
        kept = [slot for slot, run in enumerate(slots) if run >= 0 and not left[run]]
        return self.lockstep.restack(state, kept)

    # -- scores ------------------------------------------------------------------------------------------------------

    def _evaluate(self, state, best, samples: int, listener: Listener) -> tuple[ReplicaState, jax.Array]:
        """Scores dev, keeps what improved, marks what stopped or diverged."""
        before = [len(progress.curve) for progress in self._progress]
        with self._timed("evaluate"):
            best, shown = self._keep_improved(state, best, samples)
        for run, progress in enumerate(self._progress):
            for evaluation in progress.curve[before[run] :]:
                listener.noted(run, evaluation)
        listener.evaluated(int(np.ceil(samples / self.lockstep.pairs)), samples, self._training["selection"], shown)
        zero = jnp.zeros_like(state.loss_sum)
        return state._replace(loss_sum=zero, loss_weight=jnp.zeros_like(zero)), best

    def _keep_improved(self, state, best, samples: int) -> tuple[jax.Array, list[float]]:
        """The best parameters so far and the dev scores of all runs still training."""
        loss_sum, loss_weight = hosts.gather((state.loss_sum, state.loss_weight))
        losses = loss_sum / np.maximum(loss_weight, 1)
        self._note_divergence(state)
        runs = int(np.count_nonzero(self.lockstep.slots >= 0))
        dev_outputs = self._outputs("dev", state.parameters, runs)
        on_test = self._training["best_on_test"] and "test" in self._data.splits
        test_outputs = self._outputs("test", state.parameters, runs) if on_test else None
        slots, selection = self.lockstep.slots, self._training["selection"]
        improved = np.zeros(len(slots), bool)
        learning = [slot for slot, run in enumerate(slots) if run >= 0 and not self._progress[run].done]
        shown = []
        for slot, dev in zip(learning, self._scores("dev", dev_outputs[learning]), strict=True):
            improved[slot] = self._note(slots[slot], dev, samples, float(losses[slot]))
            shown.append(dev[selection])
        if test_outputs is not None:
            for slot, test in zip(learning, self._scores("test", test_outputs[learning]), strict=True):
                self._progress[slots[slot]].note_test(test, selection, SCORES[selection].higher_is_better, samples)
        best = _keep_best(best, state.parameters, np.where(slots < 0, best.shape[0], slots), improved)
        jax.block_until_ready(best)
        self._update_active()
        return best, shown

    def _outputs(self, split: str, parameters: jax.Array, runs: int) -> np.ndarray:
        """As `Evaluator.outputs`, with fewer replicas side by side where memory runs out."""
        while True:
            try:
                with self._told_if_fewer(self.evaluator, "evaluation"):
                    return self.evaluator.outputs(split, parameters, runs)
            except jax.errors.JaxRuntimeError as error:
                self._compute_fewer(self.evaluator, "evaluation", error)

    def _scores(self, split: str, outputs: np.ndarray) -> list[dict[str, float]]:
        """As `Evaluator.scores`: those of process 0, whose processor may round differently from others."""
        return hosts.decide(lambda: self.evaluator.scores(split, outputs))

    def _note_divergence(self, state: ReplicaState) -> None:
        """Marks the runs whose loss is no longer finite."""
        diverged_at = hosts.gather(state.diverged_at)
        for slot, run in enumerate(self.lockstep.slots):
            if run >= 0 and not self._progress[run].done and diverged_at[slot] >= 0:
                self._progress[run].diverged_at = int(diverged_at[slot])

    def _note(self, run: int, dev: dict[str, float], samples: int, train_loss: float) -> bool:
        """Adds an evaluation to a run's curve; whether it is its best."""
        selection = self._training["selection"]
        if selection not in dev:
            problem = f'training.selection is "{selection}", which the task {self._data.task} does not have'
            raise InputError(problem, remedy=f"use one of {', '.join(sorted(dev))}")
        entry = {
            "samples": samples,
            "epoch": samples / self.lockstep.pairs,
            "train_loss": train_loss,
            "learning_rate": float(schedule.learning_rate(np.int32(samples), self.lockstep.settings(run))),
            "dev": dev,
        }
        patience, least = self._training["patience_samples"], self._training["minimum_samples"]
        return self._progress[run].note(entry, dev[selection], SCORES[selection].higher_is_better, patience, least)

    def _update_active(self) -> None:
        self.lockstep.active = np.asarray([not progress.done for progress in self._progress])

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def _save(self, checkpoints: Checkpoints, state, best) -> None:
        start = time.perf_counter()
        notes = {
            "epoch": self._epoch,
            "index": self._index,
            "slots": self.lockstep.slots.tolist(),
            "devices": self.lockstep.device_count,
            "progress": [dataclasses.asdict(progress) for progress in self._progress],
            "seconds": self.seconds,
            "answered": self.evaluator.answered,
            "steps": self.steps,
        }
        if self.ran_out:
            notes["ran_out"] = [dataclasses.asdict(event) for event in self.ran_out]
        number = self._epoch * self.lockstep.batches.steps_per_epoch + self._index
        checkpoints.save(number, hosts.gather({"state": state, "best": best}), notes)
        self._saved_at = time.perf_counter()
        self._save_seconds = self._saved_at - start
        self.seconds["checkpoint"] += self._save_seconds

    def _checkpoint_is_due(self) -> bool:
        return time.perf_counter() - self._saved_at > self._seconds_between_checkpoints()

    def _seconds_between_checkpoints(self) -> float:
        """As configured, or longer where there is so much to write that it would take more than a small part of the
        time.
        """
        asked = self._execution["checkpoint_seconds"]
        return max(asked, self._save_seconds / MOST_FOR_CHECKPOINTS) if asked else 0.0

    def _restore(self, checkpoints: Checkpoints, state, best, listener: Listener):
        restored = hosts.decide(lambda: checkpoints.restore({"state": state, "best": best}))
        if restored is None:
            return state, best
        arrays, notes = restored
        self._epoch, self._index = notes["epoch"], notes["index"]
        # Older versions kept zeros behind parameters and moments.
        count = self.lockstep.programs.flat.count
        state, best = jax.tree.map(
            lambda leaf: leaf[:, :count] if leaf.ndim > 1 else leaf, (arrays["state"], arrays["best"])
        )
        slots = np.asarray(notes["slots"])
        if notes.get("devices", self.lockstep.device_count) == self.lockstep.device_count:
            self.lockstep.slots = slots
        else:
            state = self.lockstep.spread(state, slots)
            best = self.lockstep.rows_for(best[: len(self._progress)])
        self._progress = [RunProgress(**progress) for progress in notes["progress"]]
        self._update_active()
        self.seconds.update(notes["seconds"])
        self.evaluator.answered.update(notes.get("answered", {}))  # those of older versions have none
        steps = self._epoch * self.lockstep.batches.steps_per_epoch + self._index
        self._recall([RanOut(**event) for event in notes.get("ran_out", [])])
        # A checkpoint of an older version does not count them.
        self.steps.update(notes.get("steps") or {"lockstep": steps, "replica": steps * len(self.lockstep.slots)})
        listener.resumed(steps, self._training["epochs"] * self.lockstep.batches.steps_per_epoch)
        return state, best

    def _recall(self, events: Sequence[RanOut]) -> None:
        """Takes over how often memory ran out before the checkpoint; devices of the same kind keep to what fitted
        then.
        """
        self.ran_out = [*events, *(event for event in self.ran_out if event not in events)]
        for event in self.ran_out:
            if event.device == self.device_kind:
                where = self.lockstep if event.part == "training" else self.evaluator
                where.limit = min(where.limit or event.then_at_once, event.then_at_once)

    def _results(self, best) -> list[RunResult]:
        tests: list[tuple] = [(None, None)] * len(self._progress)
        dev: list[np.ndarray | None] = [None] * len(self._progress)
        # What was given up half-way has no result to be tested.
        tested = [
            run
            for run, progress in enumerate(self._progress)
            if progress.best is not None and progress.status != "dropped"
        ]
        with self._timed("evaluate"):
            if "test" in self._data.splits and tested:
                outputs = self._outputs("test", self.lockstep.by_replica(best), len(self._progress))
                scores = self._scores("test", outputs[tested])
                deviations = self.evaluator.deviations("test", outputs[tested])
                for run, *found in zip(tested, scores, deviations, strict=True):
                    tests[run] = tuple(found)
            if tested:
                outputs = self._outputs("dev", self.lockstep.by_replica(best), len(self._progress))
                for run in tested:
                    dev[run] = outputs[run]
        host = hosts.gather(best)
        to_tree = self.lockstep.programs.flat.to_tree
        results = []
        for run, progress in enumerate(self._progress):
            test, sampling = tests[run]
            parameters = jax.tree.map(np.asarray, to_tree(host[run]))
            results.append(RunResult(parameters, progress, test, dev[run], sampling))
        return results
