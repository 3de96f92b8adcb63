"""The plan of a sweep, made before anything trains: runs are grouped into cohorts that fit into memory."""

import dataclasses
import functools
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxmatch import models
from jaxmatch.data.batches import BatchPlan
from jaxmatch.data.buckets import assign, largest, plan_buckets
from jaxmatch.data.distinct_words import most_in_training
from jaxmatch.data.encoded import EncodedData
from jaxmatch.data.encoding import DataSettings
from jaxmatch.devices import available_devices
from jaxmatch.errors import InputError
from jaxmatch.sweep import memory, preparation
from jaxmatch.sweep.grid import Run, Sweep
from jaxmatch.training import evaluation_times
from jaxmatch.training.evaluation import evaluation_batch_size, evaluation_shapes
from jaxmatch.training.replicas import at_once, devices_filled, turns
from jaxmatch.training.scores import score, score_names
from jaxmatch.training.step import words_trained
from jaxmatch.workdir.packing import pack


@dataclasses.dataclass(frozen=True)
class PlannedCohort:
    """Runs that one program trains together.

    Attributes:
      signature: the id of the program that the runs share.
      runs: the runs, at most as many as fit into memory.
      data: the encoded data of the runs.
      buckets: the number of shapes that the program is compiled for.
      steps_per_epoch: the number of steps that visit every pair once.
      steps: the number of steps of a run that is not stopped early.
      needs: the estimated memory of the runs.
      multiplications: the estimated multiply-adds of one run, for training and scoring together.
      available: the number of available devices. The cohort uses as many as it fills.
      limit: the estimated number of replicas that fit on one device at the same time. None means no limit.
      scored_shapes: the number of shapes that scoring is compiled for.
      one_program: whether one training program holds all shapes. It does if a dispatch takes several steps.
    """

    signature: str
    runs: tuple[Run, ...]
    data: EncodedData
    buckets: int
    steps_per_epoch: int
    steps: int
    needs: memory.Needs
    multiplications: float
    available: int
    limit: int | None
    scored_shapes: int = 1
    one_program: bool = False

    @property
    def devices(self) -> int:
        """The number of devices that the runs are distributed over."""
        return devices_filled(len(self.runs), self.available)

    @property
    def replica_bytes(self) -> int:
        """The estimated memory of one run, in bytes: the memory on a device divided by its runs."""
        return self.needs.of(self._replicas_per_device) // self._replicas_per_device

    @property
    def device_work(self) -> float:
        """The multiply-adds of each device.

        If a device does not compute all its replicas at the same time, they take turns. Every turn counts as a full
        one.
        """
        side_by_side = at_once(self._replicas_per_device, self.needs.most, self.limit)
        return self.multiplications * turns(self._replicas_per_device, side_by_side) * side_by_side

    @property
    def _replicas_per_device(self) -> int:
        return math.ceil(len(self.runs) / self.devices)

    @property
    def program(self) -> tuple[str, int]:
        """The signature and the number of runs. Cohorts that agree in both share their compiled programs."""
        return self.signature, len(self.runs)

    def names(self) -> tuple[str, ...]:
        """Returns the identities of the runs."""
        return tuple(run.identity(self.data.fingerprint) for run in self.runs)


def program_counts(cohorts: Iterable[PlannedCohort]) -> dict[tuple[str, int], dict[str, int]]:
    """Returns how often programs are compiled: `program` of a cohort -> "training" or "evaluation" -> count."""
    return {
        cohort.program: {
            "training": 1 if cohort.one_program else cohort.buckets,
            "evaluation": cohort.scored_shapes,
        }
        for cohort in cohorts
    }


@dataclasses.dataclass(frozen=True)
class Plan:
    """The cohorts of a sweep.

    Attributes:
      sweep: the planned sweep.
      cohorts: the cohorts, in the order they are trained.
      slots: the number of workers elsewhere that train cohorts at the same time. None means that this process trains.
      speed: the multiply-adds per second of a worker's device (`speed.multiplications_a_second`). None means that
        the speed of this process's device is used.
    """

    sweep: Sweep
    cohorts: tuple[PlannedCohort, ...]
    slots: int | None = None
    speed: float | None = None

    @functools.cached_property
    def runs(self) -> dict[str, tuple[Run, PlannedCohort]]:
        """The run and its cohort for each run name."""
        return {
            name: (run, cohort)
            for cohort in self.cohorts
            for name, run in zip(cohort.names(), cohort.runs, strict=True)
        }

    def missing(self, finished: Container[str]) -> tuple[PlannedCohort, ...]:
        """Returns the cohorts that remain to be trained: runs without a record, packed into as few cohorts as possible.

        Arguments:
          finished: the names of the runs that have a record.
        """
        runs = self.runs
        like = {cohort.signature: cohort for cohort in self.cohorts}
        packed = pack(((cohort.signature, cohort.names()) for cohort in self.cohorts), lambda run: run not in finished)
        return tuple(
            dataclasses.replace(like[signature], runs=tuple(runs[name][0] for name in names))
            for signature, names in packed
        )


def make_plan(sweep: Sweep, devices: Sequence[jax.Device] | None = None) -> Plan:
    """Groups the runs of a sweep into cohorts that fit into memory.

    Arguments:
      sweep: the sweep to plan.
      devices: the devices to train on; default: all devices of JAX's default backend.

    Raises:
      InputError: the data cannot be read, a run cannot be trained or scored on it, or two places of the grid are the
        same run.
    """
    devices = tuple(devices or available_devices())
    encoded: dict[DataSettings, EncodedData] = {}
    groups: dict[str, list[Run]] = {}
    data_of: dict[str, EncodedData] = {}
    names: set[str] = set()
    for run in sweep.runs():
        key = preparation.data_settings(run.config)
        if key not in encoded:
            encoded[key] = preparation.prepare(run.config)
        data = encoded[key]
        name = run.identity(data.fingerprint)
        if name in names:
            place = run.variant or dict(run.overrides)
            raise InputError(f"{place} is in the grid twice", remedy="remove one")
        names.add(name)
        signature = run.signature(data.fingerprint)
        groups.setdefault(signature, []).append(run)
        data_of[signature] = data
    cohorts = []
    counted: dict[tuple, dict[int, int | None]] = {}
    for signature, runs in groups.items():
        cohorts += _cohorts(signature, runs, data_of[signature], devices, counted)
    return Plan(sweep, tuple(cohorts))


def _cohorts(
    signature: str,
    runs: list[Run],
    data: EncodedData,
    devices: tuple[jax.Device, ...],
    counted: dict[tuple, dict[int, int | None]],
) -> list[PlannedCohort]:
    """Returns the cohorts of a signature. `counted` caches the most distinct words of batches across signatures."""
    config = runs[0].config
    if "train" not in data.splits or not data.splits["train"].pairs:
        raise InputError(f'the data set "{data.name}" has no pairs to train on', remedy="add a train file")
    _check_evaluation(config.training, data)
    train = data.splits["train"]
    buckets = plan_buckets(train.lengths, maximum_buckets=config.training.maximum_buckets)
    batches = BatchPlan(assign(train.lengths, buckets), buckets, config.training.batch_size)
    module = models.build(config.model.to_dict(), outputs=data.outputs)
    shapes = {bucket: (rows, buckets[bucket]) for bucket, rows in batches.batch_rows.items()}
    most_words = {}
    if module.takes_characters:
        key = data.fingerprint, batches.batch_size, buckets
        if key not in counted:
            counted[key] = most_in_training(batches, train.side_by_side()[0], len(data.vectors))
        most_words = {shapes[bucket]: most for bucket, most in counted[key].items()}
    most_rows = evaluation_batch_size(config.execution.evaluation_batch_size, devices[0].platform)
    lengths, rows = evaluation_shapes(
        data.splits, batch_size=most_rows, maximum_buckets=config.training.maximum_buckets
    )
    answered = largest(zip(rows, lengths, strict=True))
    dimensions = data.vectors.shape[1]
    words = words_trained(module, len(data.vectors))
    platform = devices[0].platform
    trained = largest(shapes.values())
    needs = memory.needs(module, data.task, dimensions, trained, platform, answered, words, most_words)
    shared = memory.shared_bytes(data)
    if shared > memory.device_bytes(devices[0]):
        raise InputError(
            f'the word vectors and the training pairs of "{data.name}", each padded to {train.lengths.max():,} tokens, '
            f"need {shared / 2**30:.1f} GiB, and the device has {memory.device_bytes(devices[0]) / 2**30:.1f} GiB",
            remedy="cut long texts: --config.data.maximum_length=N",
        )
    that_fit = needs.that_fit(devices, shared)
    fit = config.execution.maximum_replicas or that_fit
    limit = that_fit // len(devices) if needs.most is None else None
    steps = config.training.epochs * batches.steps_per_epoch
    # Every token and parameter costs one product forward and, in training, two products of the same size backward. Word
    # vectors are looked up, even if they are trained.
    fixed = models.build({**config.model.to_dict(), "words": "fixed"}, outputs=data.outputs)
    work = memory.parameter_count(fixed, dimensions) * (
        3.0 * batches.tokens() * config.training.epochs + tokens_scored(config.training, data, steps)
    )
    one_program = config.execution.steps_at_once > 1
    cohorts = []
    for start in range(0, len(runs), fit):
        chosen = tuple(runs[start : start + fit])
        steps_of = len(batches.batch_rows), batches.steps_per_epoch, steps
        cohorts.append(
            PlannedCohort(
                signature, chosen, data, *steps_of, needs, work, len(devices), limit, len(lengths), one_program
            )
        )
    return cohorts


def tokens_scored(training: Mapping[str, Any], data: EncodedData, steps: int) -> float:
    """Returns the number of tokens in all the pairs that a run of `steps` steps is scored on.

    Dev is scored at each evaluation. Test is scored once, or as often as dev with `best_on_test`.
    """
    tokens = {split: float(encoded.lengths.sum()) for split, encoded in data.splits.items()}
    scored = evaluation_times.count(training, data.splits["train"].pairs, steps)
    return scored * tokens["dev"] + (scored if training["best_on_test"] else 1) * tokens.get("test", 0.0)


def _check_evaluation(training: Mapping[str, Any], data: EncodedData) -> None:
    """Checks that a checkpoint can be chosen. Without this check a run would fail at its first evaluation.

    Raises:
      InputError: there is no split to choose a checkpoint on, or the selection score does not exist or is not defined.
    """
    for split in ("dev", *(["test"] if training["best_on_test"] else [])):
        if split not in data.splits or not data.splits[split].pairs:
            raise InputError(
                f'the data set "{data.name}" has no {split} pairs',
                remedy="a checkpoint is chosen on dev: add a dev file"
                if split == "dev"
                else "add a test file, or leave config.training.best_on_test at False",
            )
    known = (*score_names(data.task, len(data.labels)), "loss")
    if training["selection"] not in known:
        raise InputError(
            f'config.training.selection = "{training["selection"]}" is not a score of a {data.task} data set',
            remedy=f"use one of {', '.join(known)}",
        )
    dev = data.splits["dev"]
    constant = np.zeros((dev.pairs, data.outputs), np.float32)  # has a score, however bad, if any prediction has one
    about_labels = {
        "label_names": data.labels,
        "groups": dev.groups,
        "documents": dev.documents,
        "filtered": data.filtered,
    }
    scores = score(data.task, dev.labels, constant, **about_labels)
    if math.isnan(scores.get(training["selection"], 0.0)):
        ranked = data.task == "ranking" and training["selection"] != "auc"
        reason = "no question has both a right and a wrong candidate" if ranked else "all labels are the same"
        raise InputError(
            f'{training["selection"]} is undefined on the dev pairs of "{data.name}": {reason}',
            remedy="choose another score with --config.training.selection, or fix the dev file",
        )
