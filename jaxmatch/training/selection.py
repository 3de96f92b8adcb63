"""The choice of each run's checkpoint by its dev score, and the test scores of that checkpoint."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.config.scores import SCORES
from jaxmatch.errors import InputError
from jaxmatch.training import hosts, schedule
from jaxmatch.training.cohort_progress import CohortProgress
from jaxmatch.training.evaluation import Evaluator
from jaxmatch.training.lockstep import Lockstep
from jaxmatch.training.progress import Listener, RunProgress
from jaxmatch.training.replicas_at_once import Limits
from jaxmatch.training.step import ReplicaState


@dataclasses.dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
      parameters: the parameters of the chosen checkpoint, a tree of NumPy arrays.
      progress: the curve of the run, its best dev scores, and how it ended.
      test: the test scores of the chosen checkpoint; None without a test split, without a chosen checkpoint, and for a
        run that was dropped.
      dev_outputs: the outputs of the chosen checkpoint on dev, `<float32>[pairs, outputs]`; None without a chosen
        checkpoint, and for a run that was dropped.
      test_sampling: how much the test scores of a ranking differ between questions (`ranking.ranking_deviations`), or
        None.
    """

    parameters: Any
    progress: RunProgress
    test: dict[str, float] | None
    dev_outputs: np.ndarray | None
    test_sampling: dict[str, Any] | None = None


learning_rate = jax.jit(schedule.learning_rate)  # one program instead of one per operation


@functools.partial(jax.jit, donate_argnums=0)
def _keep_best(best, parameters, runs, improved):
    """Writes the parameters of the slots that improved, `<float32>[slot, parameters]`, into the rows of their runs in
    `best`, `<float32>[run, parameters]`.
    """
    target = jnp.where(improved, runs, best.shape[0])  # a row that does not exist, so the write is dropped
    return best.at[target].set(parameters, mode="drop")


class Selection:
    """The scoring of the runs of a cohort, and the choice of the parameters of each run that did best on dev.

    Arguments:
      training: the settings patience_samples (0: never stop early), minimum_samples (no early stop up to this number),
        selection (a dev score) and best_on_test.
      lockstep: the replicas on the devices.
      evaluator: the evaluator that scores the replicas.
      limits: the limits that memory sets.
      progress: the progress of the runs, to which every evaluation is added.
    """

    def __init__(
        self,
        training: Mapping[str, Any],
        lockstep: Lockstep,
        evaluator: Evaluator,
        limits: Limits,
        progress: CohortProgress,
    ):
        self._training, self._lockstep, self._evaluator = training, lockstep, evaluator
        self._limits, self._progress = limits, progress

    def evaluate(self, state: ReplicaState, best: jax.Array, samples: int, listener: Listener):
        """Scores dev, keeps the parameters of runs that improved, and marks runs that stopped or diverged.

        Arguments:
          state: the state of all slots.
          best: the parameters of the checkpoints chosen so far, `<float32>[run, parameters]`; donated.
          samples: the number of pairs seen so far.
          listener: the listener that receives the scores.

        Returns:
          `state` with its loss sums set to zero, and the new `best`.
        """
        before = [len(run.curve) for run in self._progress.runs]
        with self._progress.timed("evaluate"):
            best, selection_scores = self._keep_improved(state, best, samples, listener)
        for number, run in enumerate(self._progress.runs):
            for evaluation in run.curve[before[number] :]:
                listener.noted(number, evaluation)
        epoch = int(np.ceil(samples / self._lockstep.pairs))
        listener.evaluated(epoch, samples, self._training["selection"], selection_scores)
        zero = jnp.zeros_like(state.loss_sum)
        return state._replace(loss_sum=zero, loss_weight=jnp.zeros_like(zero)), best

    def _keep_improved(self, state, best, samples: int, listener: Listener) -> tuple[jax.Array, list[float]]:
        """Returns the best parameters so far, and the selection score on dev of every run that was still training."""
        loss_sum, loss_weight = hosts.gather((state.loss_sum, state.loss_weight))
        losses = loss_sum / np.maximum(loss_weight, 1)
        self.note_divergence(state)
        slots, runs, selection = self._lockstep.slots, self._progress.runs, self._training["selection"]
        trained = int(np.count_nonzero(slots >= 0))
        dev_outputs = self._outputs("dev", state.parameters, trained, listener)
        on_test = self._training["best_on_test"] and "test" in self._evaluator.data.splits
        test_outputs = self._outputs("test", state.parameters, trained, listener) if on_test else None
        improved = np.zeros(len(slots), bool)
        training_slots = [slot for slot, run in enumerate(slots) if run >= 0 and not runs[run].done]
        selection_scores = []
        for slot, dev in zip(training_slots, self._scores("dev", dev_outputs[training_slots]), strict=True):
            improved[slot] = self._note(slots[slot], dev, samples, float(losses[slot]))
            selection_scores.append(dev[selection])
        if test_outputs is not None:
            for slot, test in zip(training_slots, self._scores("test", test_outputs[training_slots]), strict=True):
                runs[slots[slot]].note_test(test, selection, SCORES[selection].higher_is_better, samples)
        best = _keep_best(best, state.parameters, np.where(slots < 0, best.shape[0], slots), improved)
        jax.block_until_ready(best)
        self._lockstep.active = self._progress.active
        return best, selection_scores

    def _note(self, run: int, dev: dict[str, float], samples: int, train_loss: float) -> bool:
        """Adds an evaluation to the curve of a run, and returns whether it is the run's best so far."""
        selection = self._training["selection"]
        if selection not in dev:
            task = self._evaluator.data.task
            problem = f'training.selection is "{selection}", which the task {task} does not have'
            raise InputError(problem, remedy=f"use one of {', '.join(sorted(dev))}")
        entry = {
            "samples": samples,
            "epoch": samples / self._lockstep.pairs,
            "train_loss": train_loss,
            "learning_rate": float(learning_rate(np.int32(samples), self._lockstep.settings(run))),
            "dev": dev,
        }
        patience, least = self._training["patience_samples"], self._training["minimum_samples"]
        better = SCORES[selection].higher_is_better
        return self._progress.runs[run].note(entry, dev[selection], better, patience, least)

    def note_divergence(self, state: ReplicaState) -> None:
        """Marks the runs whose loss or gradient is no longer finite."""
        diverged_at = hosts.gather(state.diverged_at)
        for slot, run in enumerate(self._lockstep.slots):
            if run >= 0 and not self._progress.runs[run].done and diverged_at[slot] >= 0:
                self._progress.runs[run].diverged_at = int(diverged_at[slot])

    def results(self, best: jax.Array, listener: Listener) -> list[RunResult]:
        """Returns the result of each run. Scores test once, with the chosen parameters.

        Arguments:
          best: `<float32>[run, parameters]`.
          listener: the listener that is notified if memory runs out.
        """
        runs = self._progress.runs
        tests: list[tuple] = [(None, None)] * len(runs)
        dev: list[np.ndarray | None] = [None] * len(runs)
        # A run that was given up has no result to be tested.
        tested = [number for number, run in enumerate(runs) if run.best is not None and run.status != "dropped"]
        with self._progress.timed("evaluate"):
            if "test" in self._evaluator.data.splits and tested:
                outputs = self._outputs("test", self._lockstep.by_replica(best), len(runs), listener)
                scores = self._scores("test", outputs[tested])
                deviations = self._evaluator.deviations("test", outputs[tested])
                for run, *found in zip(tested, scores, deviations, strict=True):
                    tests[run] = tuple(found)
            if tested:
                outputs = self._outputs("dev", self._lockstep.by_replica(best), len(runs), listener)
                for run in tested:
                    dev[run] = outputs[run]
        host, to_tree = hosts.gather(best), self._lockstep.programs.flat.to_tree
        results = []
        for number, run in enumerate(runs):
            test, sampling = tests[number]
            results.append(RunResult(jax.tree.map(np.asarray, to_tree(host[number])), run, test, dev[number], sampling))
        return results

    def _outputs(self, split: str, parameters: jax.Array, runs: int, listener: Listener) -> np.ndarray:
        """Returns `Evaluator.outputs`, computed with fewer replicas side by side if memory runs out."""

        def outputs() -> np.ndarray:
            with self._limits.reported("evaluation", listener):
                return self._evaluator.outputs(split, parameters, runs)

        return self._limits.retry_with_fewer_replicas("evaluation", outputs, listener)

    def _scores(self, split: str, outputs: np.ndarray) -> list[dict[str, float]]:
        """Returns `Evaluator.scores` of process 0 on every process, because processors may round differently."""
        return hosts.decide(lambda: self._evaluator.scores(split, outputs))
