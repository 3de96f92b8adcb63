"""Training of a cohort: all runs of one signature, each with its own best checkpoint and its own end."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.data.encoding import EncodedData
from jaxmatch.devices import is_out_of_memory
from jaxmatch.training import evaluation, hosts
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.chunks import Chunk, Chunks, Program, cancel_ahead, compilation_callback, threads
from jaxmatch.training.evaluation import Evaluator, evaluation_batch_size
from jaxmatch.training.progress import Listener, RunProgress
from jaxmatch.training.step import learning_rate

# The host waits for the devices about this often, to show progress and to check the time.
SECONDS_BETWEEN_POLLS = 0.5
# About the largest share of the time to spend on checkpoints: training waits while a checkpoint is written.
MOST_FOR_CHECKPOINTS = 0.05

rate_of = jax.jit(learning_rate)  # one program instead of one per operation


class Stopped(BaseException):
    """Raised to end training that is told to stop. It is no `Exception`, so it does not count as a failure."""


@dataclasses.dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
      parameters: the parameters of the chosen checkpoint, a tree of NumPy arrays.
      progress: the curve of the run, its best dev scores, and how it ended.
      test: the test scores of the chosen checkpoint. This and the rest are None without a chosen checkpoint, and for a
        run that was dropped.
      dev_outputs: the outputs of the chosen checkpoint on dev, `<float32>[pairs, outputs]`.
      test_sampling: how much the test scores of a ranking differ between questions (`scores.ranking_deviations`).
    """

    parameters: Any
    progress: RunProgress
    test: dict[str, float] | None = None
    dev_outputs: np.ndarray | None = None
    test_sampling: dict[str, Any] | None = None


class Cohort:
    """The runs of one signature, ready to train.

    Arguments:
      training: the settings of `config.training`.
      execution: the settings evaluation_batch_size and checkpoint_seconds.
      data: encoded data with the splits "train" and "dev".
      devices: the devices that the slots of a chunk are spread over; default: all devices.
      settings: the other arguments of `Chunks`: model, seeds and optimizer.

    Attributes:
      chunks: the runs on the devices.
      evaluator: the evaluator that scores the runs; the seconds that it counts are part of those of "evaluate".
      runs: the progress of each run.
      epoch, index: the epoch of the next step, and the position of the step in that epoch.
      seconds: the time spent so far in "train", "evaluate", "compile" and "checkpoint", over all interruptions.
      steps: the number of steps so far: "lockstep" counts each step once, "replica" counts it once for each slot that
        was computed.
      ran_out: the events in which memory ran out so far, over all interruptions: "part" ("training" or "evaluation"),
        "after_steps", "device" (its kind), "at_once" and "then_at_once" (the most slots that a device computed at once
        before, and computes from then on).
      origins: what trained so far, over all interruptions (`sweep.provenance.origin`); that of this process is last.
    """

    def __init__(
        self,
        *,
        training: Mapping[str, Any],
        execution: Mapping[str, Any],
        data: EncodedData,
        devices: Sequence[jax.Device] | None = None,
        **settings: Any,
    ):
        self._training, self._execution = training, execution
        self.chunks = Chunks(data=data, training=training, devices=tuple(devices or jax.devices()), **settings)
        self.evaluator = Evaluator(
            data,
            self.chunks.programs.evaluate,
            self.chunks.replicate,
            self.chunks.on_devices[1],
            batch_size=evaluation_batch_size(execution["evaluation_batch_size"], self.chunks.platform),
            maximum_buckets=self.chunks.lengths,
        )
        self.ran_out: list[dict[str, Any]] = []
        self.origins: list[Mapping[str, Any]] = []
        self._compilations: dict[str, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Resets the progress to the start of training."""
        runs = len(self.chunks.seeds)
        self.runs = [RunProgress() for _ in range(runs)]
        # The parameters of the chosen checkpoints, or zeros, which are never saved.
        self._best = np.zeros((runs, self.chunks.programs.flat.count), np.float32)
        self.epoch = self.index = 0
        self.seconds = {"train": 0.0, "evaluate": 0.0, "compile": 0.0, "checkpoint": 0.0}
        self.steps = {"lockstep": 0, "replica": 0}
        self.evaluator.totals = {"pairs": 0, "seconds": 0.0}

    def compile_ahead(self, following: Mapping[str, Any]) -> None:
        """Starts to compile the training programs of this cohort, then those of the cohort that trains next, whose
        settings are given. This goes on while the devices train.
        """
        self.chunks.compile()
        if self.chunks.programs.train.compiles_ahead:
            settings = {name: value for name, value in following.items() if name != "execution"}
            threads.submit(lambda: Chunks(**settings, devices=self.chunks.devices).compile())

    @property
    def all_done(self) -> bool:
        """Whether no run is left to train."""
        return all(run.done for run in self.runs)

    def train(
        self,
        checkpoints: Checkpoints | None = None,
        listener: Listener | None = None,
        *,
        until: int | None = None,
        dropped: Mapping[int, Collection[int]] | None = None,
        stop: threading.Event | None = None,
    ) -> list[RunResult] | None:
        """Trains every run to its end, and scores test once with the checkpoint that was chosen on dev.

        If the memory of a device runs out, chunks are half as large from then on. Training continues from the last
        checkpoint, because a step that failed may have lost its arguments.

        Arguments:
          checkpoints: the checkpoints to write and to resume from; None: no checkpoints.
          listener: the listener that receives training events.
          until: the number of epochs after which to pause, with a checkpoint from which another call resumes; None:
            train to the end.
          dropped: number of epochs -> the runs (counted from 0) that are given up once that many epochs are over.
          stop: an event that ends training early, with a checkpoint. It is looked at about twice a second.

        Returns:
          One result per run, in the order of `seeds`, or None if training has paused.

        Raises:
          MemoryError: a device does not have enough memory for one run at a time.
          Stopped: `stop` was set.
        """
        self._checkpoints, self._listener, self._stop = checkpoints, listener or Listener(), stop or threading.Event()
        while True:
            try:
                # A run that diverges is marked, and the others continue, whatever JAX_DEBUG_NANS says.
                with compilation_callback(self._report_compilation), jax.debug_nans(False), jax.debug_infs(False):
                    return self._train(until, dropped or {})
            except jax.errors.JaxRuntimeError as error:
                # A host whose devices have enough memory would continue alone.
                if hosts.is_multiprocess() or not is_out_of_memory(error):
                    raise
                self._halve_chunks(error)
            except BaseException:
                cancel_ahead()
                raise

    def _halve_chunks(self, error: Exception) -> None:
        at_once = self.chunks.size // len(self.chunks.devices)
        if at_once == 1:
            raise MemoryError(f"one run at a time does not fit in {self._part}") from error
        kind = self.chunks.devices[0].device_kind
        event = {"part": self._part, "after_steps": self.steps["lockstep"], "device": kind}
        self.ran_out.append(event | {"at_once": at_once, "then_at_once": at_once // 2})
        self.chunks.limit = at_once // 2
        self.chunks.chunks = []  # their arrays leave the devices
        self._listener.ran_out(self._part, self.chunks.size)

    def _report_compilation(self, program: Program, seconds: float | None) -> None:
        """Tells the listener when a compilation of a training or evaluation program, which takes long, begins."""
        if seconds is not None or program is self.chunks.programs.initialize:
            return
        is_evaluation = program is self.chunks.programs.evaluate
        part, lengths = ("evaluation", self.evaluator.lengths) if is_evaluation else ("training", self.chunks.lengths)
        number = self._compilations[part] = self._compilations.get(part, 0) + 1
        self._listener.compiling(part, (number - 1) % lengths + 1, lengths)

    @contextlib.contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Adds the time of the block to `seconds`: compilation to "compile", and the rest to `part`."""
        start, compiled = time.perf_counter(), self.chunks.compile_seconds
        self._part = {"train": "training", "evaluate": "evaluation"}[part]  # where memory runs out
        yield
        self._part = "training"
        compiled = self.chunks.compile_seconds - compiled
        self.seconds["compile"] += compiled
        self.seconds[part] += time.perf_counter() - start - compiled

    def _train(self, until: int | None, dropped: Mapping[int, Collection[int]]) -> list[RunResult] | None:
        """Trains from the start or from the last checkpoint."""
        chunks, epochs = self.chunks, self._training["epochs"]
        total = epochs * chunks.batches.steps_per_epoch
        self._begin()
        with self._timed("train"):
            if self._restore():
                self._listener.resumed(self.epoch * chunks.batches.steps_per_epoch + self.index, total)
            else:
                chunks.initialize()
        self._listener.begun([tuple(run.curve) for run in self.runs])
        self._saved_at, self._save_seconds = time.perf_counter(), 0.0
        self._drop(dropped)
        begun = self.epoch
        while self.epoch < (epochs if until is None else min(until, epochs)) and not self.all_done:
            self._train_epoch()
            self._drop(dropped)
        for chunk in chunks.chunks:
            self._note_divergence(chunk)
        if self.epoch < epochs and not self.all_done:
            if self.epoch > begun and self._checkpoints:
                self._save()
            return None
        self._listener.stepped(total, total)
        return self._results()

    def _train_epoch(self) -> None:
        """Trains the remaining steps of the epoch."""
        chunks, ahead = self.chunks, self.epoch + 1 < self._training["epochs"]
        with self._timed("train"):
            chunks.compile()
            epoch = chunks.epoch(self.epoch, ahead=ahead)
        due = evaluation.due(self._training, self.epoch, chunks.pairs, epoch.samples)
        steps = len(epoch.sequence)
        stops = np.append(np.flatnonzero(due) + 1, steps)  # the host waits at each of these
        poll_every = 1
        while (begin := self.index) < steps:
            stop = min(begin + poll_every, int(stops[np.searchsorted(stops, begin, side="right")]))
            before = self.seconds["train"]
            with self._timed("train"):
                for index in range(begin, stop):
                    self.steps["replica"] += chunks.step(epoch, index)
                self.steps["lockstep"] += stop - begin
                self.index = stop
                if not due[stop - 1] and stop < begin + poll_every:
                    break  # The epoch is over: the devices may still compute while the host prepares the next one.
                chunks.wait()
            seconds = max(self.seconds["train"] - before, 1e-6)
            pace = max(1, int(SECONDS_BETWEEN_POLLS * (stop - begin) / seconds))
            poll_every = hosts.decide(lambda pace=pace: pace)
            self._listener.stepped(self.epoch * steps + stop, self._training["epochs"] * steps)
            if due[stop - 1]:
                self._evaluate(int(epoch.samples[stop - 1]))
                if self.all_done:
                    break
                before_merging = chunks.chunks
                self._activate()
                if chunks.chunks is not before_merging and stop < steps:
                    epoch = chunks.epoch(self.epoch, ahead=ahead)
            if self._is_save_due():
                self._save()
                self._listener.saved()
                if self._stop.is_set():
                    raise Stopped
        self.epoch, self.index = self.epoch + 1, 0

    def _activate(self) -> None:
        """Lets only those runs learn that are not done."""
        left = self._training["epochs"] - self.epoch - self.index / self.chunks.batches.steps_per_epoch
        self.chunks.activate(np.asarray([not run.done for run in self.runs]), left)

    def _drop(self, dropped: Mapping[int, Collection[int]]) -> None:
        """Gives up the runs whose epochs in `dropped` are over.

        A run that patience has stopped is not given up, because its result is already final.
        """
        for epochs, numbers in dropped.items():
            for run in (self.runs[number] for number in numbers if epochs <= self.epoch):
                if not run.stopped and run.dropped_at is None:
                    run.dropped_at = epochs * self.chunks.pairs
        self._activate()

    def _note_divergence(self, chunk: Chunk) -> None:
        """Marks the runs whose loss or gradient is no longer finite."""
        for run, diverged_at in zip(chunk.runs, hosts.gather(chunk.state.diverged_at), strict=True):
            if run >= 0 and not self.runs[run].done and diverged_at >= 0:
                self.runs[run].diverged_at = int(diverged_at)

    def _evaluate(self, samples: int) -> None:
        """Scores dev, keeps the parameters of runs that improved, and marks runs that stopped or diverged."""
        noted = [len(run.curve) for run in self.runs]
        with self._timed("evaluate"):
            for chunk in self.chunks.chunks:
                self._note_divergence(chunk)
                slots = [slot for slot, run in enumerate(chunk.runs) if run >= 0 and not self.runs[run].done]
                if slots:
                    self._evaluate_chunk(chunk, slots, samples)
                zero = jnp.zeros_like(chunk.state.loss_sum)
                chunk.state = chunk.state._replace(loss_sum=zero, loss_weight=jnp.zeros_like(zero))
        for number, run in enumerate(self.runs):
            for entry in run.curve[noted[number] :]:
                self._listener.noted(number, entry)
        epoch = int(np.ceil(samples / self.chunks.pairs))
        # A run that stopped early counts with its best score, or the mean would fall when a good one stops.
        here = [run for run in self.runs if run.status == "finished" and run.curve]
        selection = self._training["selection"]
        scores = [run.best_score if run.stopped else run.curve[-1]["dev"][selection] for run in here]
        self._listener.evaluated(epoch, samples, selection, scores, sum(run.stopped for run in here))

    def _evaluate_chunk(self, chunk: Chunk, slots: Sequence[int], samples: int) -> None:
        """Scores the given slots of a chunk."""
        parameters = chunk.state.parameters
        loss_sum, loss_weight = hosts.gather((chunk.state.loss_sum, chunk.state.loss_weight))
        losses = loss_sum / np.maximum(loss_weight, 1)
        trained = int(np.count_nonzero(chunk.runs >= 0))
        scores = self._scores("dev", self.evaluator.outputs("dev", parameters, trained)[slots])
        improved = []
        for slot, dev in zip(slots, scores, strict=True):
            run = chunk.runs[slot]
            hyperparameters = jax.tree.map(lambda leaf, run=run: leaf[run], self.chunks.hyperparameters)
            entry = {
                "samples": samples,
                "epoch": samples / self.chunks.pairs,
                "train_loss": float(losses[slot]),
                "learning_rate": float(rate_of(np.int32(samples), hyperparameters)),
                "dev": dev,
            }
            if self.runs[run].record_evaluation(entry, self._training):
                improved.append(slot)
        if self._training["best_on_test"] and "test" in self.evaluator.data.splits:
            tests = self._scores("test", self.evaluator.outputs("test", parameters, trained)[slots])
            for slot, test in zip(slots, tests, strict=True):
                self.runs[chunk.runs[slot]].record_test(test, self._training["selection"], samples)
        if improved:
            self._best[chunk.runs[improved]] = hosts.gather(parameters)[improved]

    def _scores(self, split: str, outputs: np.ndarray) -> list[dict[str, float]]:
        """Returns `Evaluator.scores` of process 0 on every process, because processors may round differently."""
        return hosts.decide(lambda: self.evaluator.scores(split, outputs))

    def _results(self) -> list[RunResult]:
        """Returns the result of each run. Scores test once, with the chosen parameters."""
        chunks, to_tree = self.chunks, self.chunks.programs.flat.to_tree
        # A run that was given up has no result to be tested.
        tested = [number for number, run in enumerate(self.runs) if run.best is not None and run.status != "dropped"]
        found: dict[int, dict[str, Any]] = {}
        with self._timed("evaluate"):
            for group, of_slots in chunks.groups(tested):
                parameters = chunks.by_slot(self._best[of_slots])
                dev = self.evaluator.outputs("dev", parameters, len(group))
                found |= {run: {"dev_outputs": outputs} for run, outputs in zip(group, dev)}
                if "test" in self.evaluator.data.splits:
                    outputs = self.evaluator.outputs("test", parameters, len(group))[: len(group)]
                    scores, deviations = self._scores("test", outputs), self.evaluator.deviations("test", outputs)
                    for run, score, deviation in zip(group, scores, deviations, strict=True):
                        found[run] |= {"test": score, "test_sampling": deviation}
        return [
            RunResult(jax.tree.map(np.asarray, to_tree(self._best[number])), run, **found.get(number, {}))
            for number, run in enumerate(self.runs)
        ]

    def _is_save_due(self) -> bool:
        """Returns whether a checkpoint should be written now. One that takes long to write is written less often."""
        if self._checkpoints is None:
            return False
        seconds = self._execution["checkpoint_seconds"]
        wait = max(seconds, self._save_seconds / MOST_FOR_CHECKPOINTS) if seconds else 0.0
        return hosts.decide(lambda: time.perf_counter() - self._saved_at > wait or self._stop.is_set())

    def _save(self) -> None:
        """Writes a checkpoint. It depends on neither the size of a chunk nor the number of devices."""
        start = time.perf_counter()
        runs, states = self.chunks.states()
        notes: dict[str, Any] = {
            "epoch": self.epoch,
            "index": self.index,
            "slots": runs,
            "progress": [dataclasses.asdict(run) for run in self.runs],
            "seconds": self.seconds,
            "answered": self.evaluator.totals,
            "steps": self.steps,
            "ran_out": self.ran_out,
            "origins": self.origins,
        }
        number = self.epoch * self.chunks.batches.steps_per_epoch + self.index
        self._checkpoints.save(number, {"states": states, "best": self._best}, notes)
        self._saved_at = time.perf_counter()
        self._save_seconds = self._saved_at - start
        self.seconds["checkpoint"] += self._save_seconds

    def _restore(self) -> bool:
        """Restores the cohort from its newest checkpoint, and returns whether there is one."""
        if (checkpoints := self._checkpoints) is None:
            return False
        like = {"states": self.chunks.state_shapes(), "best": 0}
        restored = hosts.decide(lambda: checkpoints.restore(like))
        if restored is None:
            return False
        arrays, notes = restored
        self.epoch, self.index = notes["epoch"], notes["index"]
        self.runs = [RunProgress(**run) for run in notes["progress"]]
        self._best = arrays["best"]
        self.seconds.update(notes["seconds"])
        self.evaluator.totals.update(notes["answered"])
        self.steps.update(notes["steps"])
        self.origins = [*(each for each in notes["origins"] if each not in self.origins), *self.origins]
        earlier = notes["ran_out"]
        self.ran_out = [*earlier, *(event for event in self.ran_out if event not in earlier)]
        kind = self.chunks.devices[0].device_kind
        here = [event["then_at_once"] for event in self.ran_out if event["device"] == kind]
        self.chunks.limit = min(here, default=None)
        self.chunks.adopt(notes["slots"], arrays["states"])
        return True
