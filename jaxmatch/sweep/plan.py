"""The plan of a sweep, made before anything trains: runs are grouped into cohorts that fit into memory."""

import dataclasses
import functools
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import jax

from jaxmatch import models
from jaxmatch.data import catalog
from jaxmatch.data.batches import BatchPlan, plan_batches
from jaxmatch.data.buckets import largest
from jaxmatch.data.distinct_words import most_in_training
from jaxmatch.data.encoded import EncodedData
from jaxmatch.data.encoding import DataSettings
from jaxmatch.devices import available_devices
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import setting_text
from jaxmatch.settings import with_overrides
from jaxmatch.sweep import memory, preparation, work
from jaxmatch.sweep.grid import Run, Sweep
from jaxmatch.sweep.trainable import check_trainable
from jaxmatch.training.evaluation import evaluation_batch_size, evaluation_shapes
from jaxmatch.training.replicas import at_once, devices_filled, turns
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
      multiply_adds: the estimated multiply-adds of one run, for training and scoring together.
      available: the number of available devices. The cohort uses as many as it fills.
      limit: the estimated number of replicas that fit on one device at the same time. None means no limit.
      scored_shapes: the number of shapes that scoring is compiled for.
      one_program: whether one training program holds all shapes. It does if a dispatch takes several steps.
      fits: whether one run fits on a device, by the estimate.
    """

    signature: str
    runs: tuple[Run, ...]
    data: EncodedData
    buckets: int
    steps_per_epoch: int
    steps: int
    needs: memory.Needs
    multiply_adds: float
    available: int
    limit: int | None
    scored_shapes: int = 1
    one_program: bool = False
    fits: bool = True

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
        return self.multiply_adds * turns(self._replicas_per_device, side_by_side) * side_by_side

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
      speed: the multiply-adds per second of a worker's device (`speed.multiply_adds_a_second`). None means that
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

    @property
    def groups(self) -> list[tuple[str, tuple[str, ...]]]:
        """The signature and the names of the runs of each cohort."""
        return [(cohort.signature, cohort.names()) for cohort in self.cohorts]

    @property
    def replica_steps(self) -> int:
        """The number of training steps of all runs together, if none is stopped early."""
        return sum(cohort.steps * len(cohort.runs) for cohort in self.cohorts)

    def cohort_of(self, names: Sequence[str]) -> PlannedCohort:
        """Returns a cohort of exactly these runs, which must share a signature."""
        _, like = self.runs[names[0]]
        return dataclasses.replace(like, runs=tuple(self.runs[name][0] for name in names))

    def missing(self, finished: Container[str]) -> tuple[PlannedCohort, ...]:
        """Returns the cohorts that remain to be trained: runs without a record, packed into as few cohorts as possible.

        Arguments:
          finished: the names of the runs that have a record.
        """
        return tuple(self.cohort_of(names) for _, names in pack(self.groups, lambda run: run not in finished))


def make_plan(sweep: Sweep, devices: Sequence[jax.Device] | None = None) -> Plan:
    """Groups the runs of a sweep into cohorts that fit into memory. A run whose `training.selection` is empty gets the
    score of its data set.

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
    names: dict[str, Run] = {}
    for run in sweep.runs():
        key = preparation.data_settings(run.config)
        if key not in encoded:
            encoded[key] = preparation.prepare(run.config)
        data = encoded[key]
        if not run.config.training.selection:
            own = {"training.selection": catalog.selection(data.name, data.task)}
            run = dataclasses.replace(run, config=with_overrides(run.config, own))
        name = run.identity(data.fingerprint)
        if (other := names.setdefault(name, run)) is not run:
            if other.variant != run.variant:
                problem = f'the variants "{other.variant}" and "{run.variant}" have the same settings'
            else:
                problem = f"{setting_text(dict(run.overrides), run.variant)} is in the grid twice"
            raise InputError(problem, remedy="remove one")
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
    check_trainable(config.training, data)
    batches = plan_batches(
        data.splits["train"].lengths,
        batch_size=config.training.batch_size,
        maximum_buckets=config.training.maximum_buckets,
        mix_lengths=config.training.mix_lengths,
    )
    scored_lengths, scored_rows = evaluation_shapes(
        data.splits,
        batch_size=evaluation_batch_size(config.execution.evaluation_batch_size, devices[0].platform),
        maximum_buckets=config.training.maximum_buckets,
    )
    scored = largest(zip(scored_rows, scored_lengths, strict=True))
    module = models.build(config.model.to_dict(), outputs=data.outputs)
    most_words = _most_words(config, data, batches, counted) if module.takes_characters else {}
    needs = _memory_needs(module, data, batches, scored, devices[0].platform, most_words)
    shared = _shared_bytes(data, devices[0])
    that_fit = needs.that_fit(devices, shared)
    at_most = config.execution.maximum_replicas or that_fit
    steps = config.training.epochs * batches.steps_per_epoch
    multiply_adds = work.multiply_adds(module, config.training, data, batches, most_words)
    return [
        PlannedCohort(
            signature,
            tuple(runs[start : start + at_most]),
            data,
            buckets=len(batches.batch_rows),
            steps_per_epoch=batches.steps_per_epoch,
            steps=steps,
            needs=needs,
            multiply_adds=multiply_adds,
            available=len(devices),
            limit=that_fit // len(devices) if needs.most is None else None,
            scored_shapes=len(scored_lengths),
            one_program=config.execution.steps_at_once > 1,
            fits=needs.of(1) + shared <= memory.device_bytes(devices[0]),
        )
        for start in range(0, len(runs), at_most)
    ]


def _most_words(
    config: Any, data: EncodedData, batches: BatchPlan, counted: dict[tuple, dict[int, int | None]]
) -> dict[tuple[int, int], int | None]:
    """Returns (pairs, tokens) of training batches -> `BatchShape.most_words`."""
    key = data.fingerprint, batches.batch_size, batches.buckets, config.training.mix_lengths
    if key not in counted:
        counted[key] = most_in_training(batches, data.splits["train"].pair_rows()[0], len(data.vectors))
    return {batches.shapes[bucket]: most for bucket, most in counted[key].items()}


def _memory_needs(
    module: Any,
    data: EncodedData,
    batches: BatchPlan,
    scored: tuple[int, int],
    platform: str,
    most_words: Mapping[tuple[int, int], int | None],
) -> memory.Needs:
    """Estimates the memory of the runs of a cohort. `scored` is the largest shape of scoring."""
    trained, words = largest(batches.shapes.values()), words_trained(module, len(data.vectors))
    return memory.needs(module, data.task, data.vectors.shape[1], trained, platform, scored, words, most_words)


def _shared_bytes(data: EncodedData, device: jax.Device) -> int:
    """Returns the size of the arrays that all runs share. They must fit on the device."""
    shared = memory.shared_bytes(data)
    if shared > memory.device_bytes(device):
        raise InputError(
            f'the word vectors and the training pairs of "{data.name}", each padded to '
            f"{data.splits['train'].lengths.max():,} tokens, need {shared / 2**30:.1f} GiB, and the device has "
            f"{memory.device_bytes(device) / 2**30:.1f} GiB",
            remedy="cut long texts: --config.data.maximum_length=N",
        )
    return shared
