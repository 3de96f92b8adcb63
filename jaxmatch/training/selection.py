"""Choosing the checkpoint of each run by its dev score, and what it scores on test."""

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
from jaxmatch.training.room import Limits
from jaxmatch.training.step import ReplicaState


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


learning_rate = jax.jit(schedule.learning_rate)  # one program, where each operation would be one


@functools.partial(jax.jit, donate_argnums=0)
def _keep_best(best, parameters, runs, improved):
    """Writes the parameters of the slots that improved into the rows of their runs; all
    `<float32>[..., parameters]`.
    """
    target = jnp.where(improved, runs, best.shape[0])  # a row that does not exist: dropped
    return best.at[target].set(parameters, mode="drop")


class Selection:
    """Scores the runs of a cohort, and chooses for each the parameters that did best on dev.

    Arguments:
      training: patience_samples (0: never stop early), minimum_samples (nor before so many), selection (a dev score),
        best_on_test.
      lockstep: the replicas on the devices.
      evaluator: scores them.
      limits: that memory sets.
      progress: of the runs, to which every evaluation is added.
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
        """Scores dev, keeps what improved, marks what stopped or diverged.

        Arguments:
          state: of all slots.
          best: parameters of the chosen checkpoints so far, `<float32>[run, parameters]`; used up.
          samples: pairs seen so far.
          listener: hears the scores.

        Returns:
          `state` with its losses set to zero, and `best`.
        """
        before = [len(run.curve) for run in self._progress.runs]
        with self._progress.timed("evaluate"):
            best, shown = self._keep_improved(state, best, samples, listener)
        for number, run in enumerate(self._progress.runs):
            for evaluation in run.curve[before[number] :]:
                listener.noted(number, evaluation)
        listener.evaluated(int(np.ceil(samples / self._lockstep.pairs)), samples, self._training["selection"], shown)
        zero = jnp.zeros_like(state.loss_sum)
        return state._replace(loss_sum=zero, loss_weight=jnp.zeros_like(zero)), best

    def _keep_improved(self, state, best, samples: int, listener: Listener) -> tuple[jax.Array, list[float]]:
        """The best parameters so far and the dev scores of all runs still training."""
        loss_sum, loss_weight = hosts.gather((state.loss_sum, state.loss_weight))
        losses = loss_sum / np.maximum(loss_weight, 1)
        self.note_divergence(state)
        slots, runs, selection = self._lockstep.slots, self._progress.runs, self._training["selection"]
        trained = int(np.count_nonzero(slots >= 0))
        dev_outputs = self._outputs("dev", state.parameters, trained, listener)
        on_test = self._training["best_on_test"] and "test" in self._evaluator.data.splits
        test_outputs = self._outputs("test", state.parameters, trained, listener) if on_test else None
        improved = np.zeros(len(slots), bool)
        learning = [slot for slot, run in enumerate(slots) if run >= 0 and not runs[run].done]
        shown = []
        for slot, dev in zip(learning, self._scores("dev", dev_outputs[learning]), strict=True):
            improved[slot] = self._note(slots[slot], dev, samples, float(losses[slot]))
            shown.append(dev[selection])
        if test_outputs is not None:
            for slot, test in zip(learning, self._scores("test", test_outputs[learning]), strict=True):
                runs[slots[slot]].note_test(test, selection, SCORES[selection].higher_is_better, samples)
        best = _keep_best(best, state.parameters, np.where(slots < 0, best.shape[0], slots), improved)
        jax.block_until_ready(best)
        self._lockstep.active = self._progress.active
        return best, shown

    def _note(self, run: int, dev: dict[str, float], samples: int, train_loss: float) -> bool:
        """Adds an evaluation to a run's curve; whether it is its best."""
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
        """Marks the runs whose loss is no longer finite."""
        diverged_at = hosts.gather(state.diverged_at)
        for slot, run in enumerate(self._lockstep.slots):
            if run >= 0 and not self._progress.runs[run].done and diverged_at[slot] >= 0:
                self._progress.runs[run].diverged_at = int(diverged_at[slot])

    def results(self, best: jax.Array, listener: Listener) -> list[RunResult]:
        """What each run left; scores test, once, with the chosen parameters.

        Arguments:
          best: `<float32>[run, parameters]`.
          listener: hears if memory runs out.
        """
        runs = self._progress.runs
        tests: list[tuple] = [(None, None)] * len(runs)
        dev: list[np.ndarray | None] = [None] * len(runs)
        # What was given up half-way has no result to be tested.
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
        """As `Evaluator.outputs`, with fewer replicas side by side where memory runs out."""

        def outputs() -> np.ndarray:
            with self._limits.told("evaluation", listener):
                return self._evaluator.outputs(split, parameters, runs)

        return self._limits.within("evaluation", outputs, listener)

    def _scores(self, split: str, outputs: np.ndarray) -> list[dict[str, float]]:
        """As `Evaluator.scores`: those of process 0, whose processor may round differently from others."""
        return hosts.decide(lambda: self._evaluator.scores(split, outputs))
