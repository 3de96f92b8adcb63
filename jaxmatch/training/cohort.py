"""Training a cohort: all runs of one signature in lockstep along a replica axis."""

import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch import models
from jaxmatch.data.batches import BatchPlan
from jaxmatch.data.buckets import assign, plan_buckets
from jaxmatch.data.encoding import EncodedData
from jaxmatch.errors import InputError
from jaxmatch.training import hyperparameters as hp
from jaxmatch.training import schedule
from jaxmatch.training.checkpoints import Checkpoints
from jaxmatch.training.evaluation import Evaluator, cohort_outputs, device_split, mean_loss
from jaxmatch.training.programs import Program, place, replica_mesh
from jaxmatch.training.progress import Listener, RunProgress
from jaxmatch.training.scores import HIGHER_IS_BETTER, score
from jaxmatch.training.step import Flattening, cohort_step, flattening, initial_state

# The host waits for the device about this often, to show progress and to look at the clock.
SECONDS_BETWEEN_LOOKS = 0.5


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What a run left.

    Attributes:
      parameters: of the chosen checkpoint, a tree of numpy arrays.
      progress: its curve, best dev scores, marks.
      test: test scores of the chosen checkpoint, or None without a test split.
    """

    parameters: Any
    progress: RunProgress
    test: dict[str, float] | None


def outputs_of(data: EncodedData) -> int:
    """How many numbers the model gives for a pair."""
    return 1 if data.task == "regression" else len(data.labels)


class Programs(NamedTuple):
    """What a signature compiles."""

    flat: Flattening
    initialize: Program
    train: Program
    evaluate: Program


@functools.lru_cache(maxsize=64)
def programs(module: nn.Module, task: str, dimensions: int, devices: tuple[jax.Device, ...]) -> Programs:
    """The programs of a signature, shared by all cohorts that have it."""
    mesh = replica_mesh(devices)
    flat = flattening(module, dimensions)
    initialize = jax.vmap(functools.partial(initial_state, flat), (0, 0, None))
    return Programs(
        flat,
        Program(initialize, name="initialize", by_replica=(True, True, False), mesh=mesh, runs_once=True),
        Program(
            cohort_step(flat, task),
            name="train_step",
            by_replica=(True, True, True, True, True, True, False, False, False),
            mesh=mesh,
            donated=(0,),
        ),
        Program(cohort_outputs(flat), name="evaluate", by_replica=(True, False, False, False), mesh=mesh),
    )


@functools.partial(jax.jit, donate_argnums=0)
def _keep_best(best, parameters, runs, improved):
    """Writes the parameters of the slots that improved into the rows of their runs; all `<float32>[..., parameters]`."""
    target = jnp.where(improved, runs, best.shape[0])  # a row that does not exist: dropped
    return best.at[target].set(parameters, mode="drop")


class Cohort:
    """The runs of one signature, ready to train.

    Arguments:
      model: the model settings of `jaxmatch.models.build`.
      training: batch_size, epochs, evaluate_every_samples (0: after each epoch), patience_samples (0: never stop early),
        selection (a dev score), maximum_buckets, best_on_test.
      execution: evaluation_batch_size, checkpoint_seconds, restack.
      data: encoded data with the splits "train" and "dev".
      seeds: one a run.
      optimizer: traced hyperparameters, one mapping a run.
      devices: the replica axis is spread over them; default: all there are.
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
        self._devices = tuple(devices or jax.devices())
        self._mesh = replica_mesh(self._devices)
        self._seeds, self._hyperparameters = np.asarray(seeds, np.uint32), hp.stack(optimizer)
        module = models.build(model, outputs=outputs_of(data))
        self.programs = programs(module, data.task, data.vectors.shape[1], self._devices)

        train = data.splits["train"]
        self.buckets = plan_buckets(train.lengths, maximum_buckets=training["maximum_buckets"])
        self.batches = BatchPlan(assign(train.lengths, self.buckets), self.buckets, training["batch_size"])
        self._pairs = train.pairs
        self._vectors = self._everywhere(data.vectors)
        self._split = self._everywhere(device_split(train))
        self._evaluators: dict[str, Evaluator] = {}

        slots = -(-len(seeds) // len(self._devices)) * len(self._devices)
        self._slots = np.full(slots, -1)  # which run trains in a slot; -1: none, it only fills the devices
        self._slots[: len(seeds)] = np.arange(len(seeds))
        self._progress = [RunProgress() for _ in seeds]
        self._epoch = self._index = 0
        self.seconds = {"train": 0.0, "evaluate": 0.0, "compile": 0.0, "checkpoint": 0.0}

    # -- where things lie --------------------------------------------------------------------------------------------

    def _everywhere(self, tree):
        return place(tree, self._mesh, by_replica=False)

    def _by_replica(self, tree):
        return place(tree, self._mesh, by_replica=True)

    def _slot_runs(self) -> np.ndarray:
        """The run whose seed and settings a slot uses; a filler copies the first."""
        return np.maximum(self._slots, 0)

    def _initial(self):
        runs = self._slot_runs()
        settings = jax.tree.map(lambda leaf: leaf[runs], self._hyperparameters)
        return self.programs.initialize((), *self._by_replica((self._seeds[runs], settings)), self._vectors)

    def _evaluator(self, split: str) -> Evaluator:
        if split not in self._evaluators:
            self._evaluators[split] = Evaluator(
                self._data.splits[split],
                self.programs.evaluate,
                self._everywhere,
                self._vectors,
                batch_size=self._execution["evaluation_batch_size"],
                maximum_buckets=min(4, self._training["maximum_buckets"]),
            )
        return self._evaluators[split]

    # -- scores ------------------------------------------------------------------------------------------------------

    def _scores(self, split: str, outputs: np.ndarray) -> dict[str, float]:
        """All scores of one replica's outputs, `<float32>[pairs, outputs]`, and the mean loss."""
        data, encoded = self._data, self._data.splits[split]
        scores = score(
            data.task,
            encoded.labels,
            outputs,
            label_names=data.labels,
            groups=encoded.groups,
            documents=encoded.documents,
        )
        return {**scores, "loss": mean_loss(data.task, outputs, encoded.labels)}

    def _evaluate(self, state, best, samples: int, listener: Listener):
        """Scores dev, keeps what improved, marks what stopped or diverged; returns the best parameters so far."""
        start = time.perf_counter()
        selection = self._training["selection"]
        losses = np.asarray(state.loss_sum) / np.maximum(np.asarray(state.loss_weight), 1)
        diverged_at = np.asarray(state.diverged_at)
        outputs = self._evaluator("dev").outputs(state.parameters)
        test_outputs = self._evaluator("test").outputs(state.parameters) if self._training["best_on_test"] else None
        improved = np.zeros(len(self._slots), bool)
        shown = []
        for slot, run in enumerate(self._slots):
            if run < 0 or self._progress[run].done:
                continue
            progress = self._progress[run]
            if diverged_at[slot] >= 0:
                progress.diverged_at = int(diverged_at[slot])
                continue
            dev = self._scores("dev", outputs[slot])
            if selection not in dev:
                raise InputError(
                    f'training.selection is "{selection}", which this task does not have', remedy=f"use one of {', '.join(sorted(dev))}"
                )  # fmt: skip
            settings = jax.tree.map(lambda leaf, run=run: leaf[run], self._hyperparameters)
            entry = {
                "samples": samples,
                "epoch": samples / self._pairs,
                "train_loss": float(losses[slot]),
                "learning_rate": float(schedule.learning_rate(np.int32(samples), settings)),
                "dev": dev,
            }
            improved[slot] = progress.note(
                entry, dev[selection], HIGHER_IS_BETTER[selection], self._training["patience_samples"]
            )
            if test_outputs is not None:
                self._note_test(progress, self._scores("test", test_outputs[slot]), samples)
            shown.append(dev[selection])
        best = _keep_best(best, state.parameters, np.where(self._slots < 0, len(self._slots), self._slots), improved)
        jax.block_until_ready(best)
        self.seconds["evaluate"] += time.perf_counter() - start
        listener.evaluated(int(np.ceil(samples / self._pairs)), samples, selection, shown)
        return best

    def _note_test(self, progress: RunProgress, test: dict[str, float], samples: int) -> None:
        """Keeps the evaluation that was best on TEST: for comparison with papers that selected so, never the headline."""
        selection = self._training["selection"]
        sign = 1 if HIGHER_IS_BETTER[selection] else -1
        if progress.best_on_test is None or sign * test[selection] > sign * progress.best_on_test["scores"][selection]:
            progress.best_on_test = {"scores": test, "at_samples": samples}

    # -- lockstep ----------------------------------------------------------------------------------------------------

    def _restack(self, state):
        """Halves the number of slots when patience has emptied half of them.

        A diverged run keeps its slot, so that when the cohort is re-stacked does not depend on whether a neighbour diverged.
        """
        kept = [slot for slot, run in enumerate(self._slots) if run >= 0 and not self._progress[run].stopped]
        size = -(-len(self._slots) // 2)
        size = -(-size // len(self._devices)) * len(self._devices)
        if not self._execution["restack"] or len(kept) > size or size >= len(self._slots):
            return state
        chosen = np.asarray((kept + kept[:1] * size)[:size])
        self._slots = np.where(np.arange(size) < len(kept), self._slots[chosen], -1)
        return self._by_replica(jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], jax.device_get(state)))

    def _epoch_batches(self) -> tuple[np.ndarray, dict[int, tuple[Any, Any]], np.ndarray]:
        """The bucket sequence, each bucket's (order, weights) on the devices, and the pairs seen after each step."""
        sequence = self.batches.bucket_sequence(self._epoch)
        plans = {}
        for run in dict.fromkeys(self._slot_runs().tolist()):
            plans[run] = self.batches.rows(int(self._seeds[run]), self._epoch)
        stacked, counts = {}, {}
        for bucket in plans[self._slot_runs()[0]]:
            order = np.stack([plans[run][bucket][0] for run in self._slot_runs().tolist()])
            weights = np.stack([plans[run][bucket][1] for run in self._slot_runs().tolist()])
            counts[bucket] = weights[0].sum(axis=1)
            stacked[bucket] = self._by_replica((order.astype(np.int32), weights.astype(np.float32)))
        seen = np.cumsum([counts[bucket][batch] for bucket, batch in sequence]).astype(np.int64)
        return sequence, stacked, seen + self._epoch * self._pairs

    def _evaluation_steps(self, seen: np.ndarray) -> np.ndarray:
        """Which steps of this epoch end with an evaluation, `<bool>[steps]`."""
        every, start = self._training["evaluate_every_samples"], self._epoch * self._pairs
        due = np.zeros(len(seen), bool)
        if every:
            due = seen // every > np.concatenate([[start], seen[:-1]]) // every
        if not every or self._epoch + 1 == self._training["epochs"]:
            due[-1] = True
        return due

    def _save(self, checkpoints: Checkpoints, state, best) -> None:
        start = time.perf_counter()
        notes = {
            "epoch": self._epoch,
            "index": self._index,
            "slots": self._slots.tolist(),
            "progress": [dataclasses.asdict(progress) for progress in self._progress],
            "seconds": self.seconds,
        }
        number = self._epoch * self.batches.steps_per_epoch + self._index
        checkpoints.save(number, {"state": state, "best": best}, notes)
        self.seconds["checkpoint"] += time.perf_counter() - start

    def _restore(self, checkpoints: Checkpoints, state, best):
        restored = checkpoints.restore({"state": state, "best": best})
        if restored is None:
            return state, best
        arrays, notes = restored
        self._epoch, self._index = notes["epoch"], notes["index"]
        self._slots = np.asarray(notes["slots"])
        self._progress = [RunProgress(**progress) for progress in notes["progress"]]
        self.seconds.update(notes["seconds"])
        return arrays["state"], arrays["best"]

    def train(self, checkpoints: Checkpoints | None = None, listener: Listener | None = None) -> list[RunResult]:
        """Trains every run to its end and scores test once with the checkpoint that dev chose.

        Arguments:
          checkpoints: where to keep and look for checkpoints; None keeps none.
          listener: hears how it goes.

        Returns:
          One result a run, in the order of the seeds given.
        """
        listener = listener or Listener()
        state = self._initial()
        best = jnp.zeros_like(state.parameters)
        if checkpoints is not None:
            state, best = self._restore(checkpoints, state, best)
            if self._epoch or self._index:
                listener.resumed(self._epoch * self._pairs)
        state, best = self._by_replica(state), self._by_replica(best)
        total = self._training["epochs"] * self.batches.steps_per_epoch
        self._saved_at = time.perf_counter()
        while self._epoch < self._training["epochs"] and not all(progress.done for progress in self._progress):
            state, best = self._train_epoch(state, best, checkpoints, listener, total)
        listener.stepped(total, total)
        return self._results(best)

    def _train_epoch(self, state, best, checkpoints, listener, total):
        sequence, stacked, seen = self._epoch_batches()
        due = self._evaluation_steps(seen)
        slots = self._slots
        seeds, settings, active = self._slot_arguments()
        look_every, looked_at, looked = 1, self._index, time.perf_counter()
        for index in range(self._index, len(sequence)):
            bucket, batch = (int(number) for number in sequence[index])
            order, weights = stacked[bucket]
            arguments = (state, settings, seeds, active, order, weights, np.int32(batch), self._split, self._vectors)
            before = self.programs.train.compile_seconds
            state = self.programs.train((self.buckets[bucket],), *arguments)
            compiled = self.programs.train.compile_seconds - before
            looked += compiled
            self.seconds["compile"] += compiled
            self._index = index + 1
            if not due[index] and self._index - looked_at < look_every:
                continue

            jax.block_until_ready(state.step)
            now = time.perf_counter()
            self.seconds["train"] += now - looked
            look_every = max(1, int(SECONDS_BETWEEN_LOOKS * (self._index - looked_at) / max(now - looked, 1e-6)))
            listener.stepped(self._epoch * len(sequence) + self._index, total)
            if due[index]:
                best = self._evaluate(state, best, int(seen[index]), listener)
                zero = jnp.zeros_like(state.loss_sum)
                state = state._replace(loss_sum=zero, loss_weight=jnp.zeros_like(zero))
                if all(progress.done for progress in self._progress):
                    break
                state = self._restack(state)
                if self._slots is not slots and self._index < len(sequence):
                    sequence, stacked, seen = self._epoch_batches()
                slots = self._slots
                seeds, settings, active = self._slot_arguments()
            if checkpoints is not None and time.perf_counter() - self._saved_at > self._execution["checkpoint_seconds"]:
                self._save(checkpoints, state, best)
                self._saved_at = time.perf_counter()
            looked_at, looked = self._index, time.perf_counter()
        self._epoch, self._index = self._epoch + 1, 0
        return state, best

    def _slot_arguments(self):
        """Seeds, hyperparameters and active marks of the slots, on the devices."""
        runs = self._slot_runs()
        active = np.asarray([run >= 0 and not self._progress[run].done for run in self._slots])
        settings = jax.tree.map(lambda leaf: leaf[runs], self._hyperparameters)
        return self._by_replica((self._seeds[runs], settings, active))

    def _results(self, best) -> list[RunResult]:
        tests: list[dict | None] = [None] * len(self._progress)
        best = self._by_replica(best)
        if "test" in self._data.splits:
            start = time.perf_counter()
            outputs = self._evaluator("test").outputs(best)
            for run, progress in enumerate(self._progress):
                if progress.best is not None:
                    tests[run] = self._scores("test", outputs[run])
            self.seconds["evaluate"] += time.perf_counter() - start
        host = np.asarray(best)
        return [
            RunResult(jax.tree.map(np.asarray, self.programs.flat.to_tree(host[run])), progress, tests[run])
            for run, progress in enumerate(self._progress)
        ]
