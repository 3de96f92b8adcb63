"""The plan of a sweep, made before anything trains: runs are grouped into cohorts, and their work is estimated."""

import dataclasses
import functools
import heapq
import itertools
import math
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch import models
from jaxmatch.config.settings import with_overrides
from jaxmatch.data import catalog
from jaxmatch.data.encoding import DataSettings, EncodedData
from jaxmatch.devices import available_devices, device_bytes
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import setting_text
from jaxmatch.sweep import files
from jaxmatch.sweep.sweep import Run, Sweep
from jaxmatch.training import evaluation
from jaxmatch.training.chunks import OPERATIONS_A_PARAMETER, chunk_size, devices_filled, training_batches
from jaxmatch.training.evaluation import evaluation_batch_size, evaluation_shapes
from jaxmatch.training.scores import ADDED, score, score_names
from jaxmatch.training.step import flattening, words_trained
from jaxmatch.workdir import pack

# The bytes of a run for each of its parameters, between its steps: the parameters, Adam's two moments, and the best
# parameters so far, in float32. A checkpoint copies them to the host, which is the same memory on a CPU.
BYTES_A_PARAMETER = 2 * 4 * 4
# The largest share of a device's memory for the states of runs. The rest is for the steps of a chunk.
SHARE_OF_STATES = 0.5
# The share of the speed of a large matrix product that a training step reaches in practice.
SHARE_OF_PEAK = 0.5
# A forward pass takes about a third of a training step: the gradients of a product are two products of the same size.
SHARE_OF_FORWARD = 1 / 3


@dataclasses.dataclass(frozen=True)
class PlannedCohort:
    """Runs that one program trains together.

    Attributes:
      signature: the id of the program that the runs share.
      runs: the runs, at most as many as have room for their states.
      data: the encoded data of the runs.
      batch: the number of pairs in the largest batch.
      lengths: the number of lengths that training is compiled for.
      scored_lengths: the number of lengths that scoring is compiled for.
      steps_per_epoch: the number of steps that visit every pair once.
      steps: the number of steps of a run that is not stopped early.
      multiply_adds: the estimated multiply-adds of one run, for training and scoring together.
      replica_bytes: the bytes of the state of one run.
      platform: the platform of the devices.
      available: the number of available devices. The cohort uses as many as it fills.
    """

    signature: str
    runs: tuple[Run, ...]
    data: EncodedData
    batch: int
    lengths: int
    scored_lengths: int
    steps_per_epoch: int
    steps: int
    multiply_adds: float
    replica_bytes: int
    platform: str
    available: int

    @property
    def devices(self) -> int:
        """The number of devices that the runs are distributed over."""
        return devices_filled(len(self.runs), self.available)

    @property
    def chunk_size(self) -> int:
        """The number of slots of a chunk, if it fits the memory of the devices."""
        return chunk_size(len(self.runs), self.batch, self.platform, self.devices)

    @property
    def device_work(self) -> float:
        """The estimated multiply-adds of each device. Slots without a run are computed, too."""
        return self.multiply_adds * math.ceil(len(self.runs) / self.chunk_size) * self.chunk_size / self.devices

    @property
    def program(self) -> tuple[str, int]:
        """The signature and the size of a chunk. Cohorts that agree in both share their compiled programs."""
        return self.signature, self.chunk_size

    def names(self) -> tuple[str, ...]:
        """Returns the identities of the runs."""
        return tuple(run.identity(self.data.fingerprint) for run in self.runs)


def program_counts(cohorts: Iterable[PlannedCohort]) -> dict[tuple[str, int], dict[str, int]]:
    """Returns how often programs are compiled: `program` of a cohort -> "training" or "evaluation" -> count."""
    return {cohort.program: {"training": cohort.lengths, "evaluation": cohort.scored_lengths} for cohort in cohorts}


@functools.cache  # a plan is displayed more than once
def multiply_adds_a_second() -> float:
    """Measures the multiply-adds per second of a large matrix product on the default device."""
    size = 1024
    matrix = jnp.ones((size, size), jnp.float32)
    product = jax.jit(jnp.matmul)
    product(matrix, matrix).block_until_ready()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        product(matrix, matrix).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return size**3 / best


@dataclasses.dataclass(frozen=True)
class Plan:
    """The cohorts of a sweep.

    Attributes:
      sweep: the planned sweep.
      cohorts: the cohorts, in the order they are trained.
      slots: the number of workers elsewhere that train cohorts at the same time. None means that this process trains.
      speed: the multiply-adds per second of a worker's device (`multiply_adds_a_second`). None means that
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
    """Groups the runs of a sweep into cohorts whose states fit into memory.

    A run whose `training.selection` is empty gets the score of its data set.

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
        key = files.data_settings(run.config)
        if key not in encoded:
            encoded[key] = files.prepare(run.config)
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
    cohorts = [cohort for each, runs in groups.items() for cohort in _cohorts(each, runs, data_of[each], devices)]
    return Plan(sweep, tuple(cohorts))


def _cohorts(
    signature: str, runs: list[Run], data: EncodedData, devices: tuple[jax.Device, ...]
) -> list[PlannedCohort]:
    """Returns the cohorts of a signature."""
    config, platform = runs[0].config, devices[0].platform
    check_trainable(config.training, data)
    _check_shared_bytes(data, devices[0])
    module = models.build(config.model.to_dict(), outputs=data.outputs)
    parameters = flattening(module, data.vectors.shape[1], words_trained(module, len(data.vectors))).count
    training = config.training.to_dict()
    batches = training_batches(module, data, training, parameters, platform)
    lengths = len(set(batches.compiled.values()))
    scored_lengths, _ = evaluation_shapes(
        data.splits,
        batch_size=evaluation_batch_size(config.execution.evaluation_batch_size, platform),
        maximum_buckets=lengths,
    )
    bytes_of_a_run = BYTES_A_PARAMETER * parameters
    that_fit = int(SHARE_OF_STATES * device_bytes(devices[0]) / bytes_of_a_run) * len(devices)
    at_most = config.execution.maximum_replicas or max(1, that_fit)
    steps = config.training.epochs * batches.steps_per_epoch
    tokens = config.training.epochs * batches.tokens() + SHARE_OF_FORWARD * tokens_scored(training, data, steps)
    return [
        PlannedCohort(
            signature,
            tuple(runs[start : start + at_most]),
            data,
            batch=max(rows for rows, _ in batches.compiled.values()),
            lengths=lengths,
            scored_lengths=len(scored_lengths),
            steps_per_epoch=batches.steps_per_epoch,
            steps=steps,
            multiply_adds=OPERATIONS_A_PARAMETER / 2 * parameters * tokens,
            replica_bytes=bytes_of_a_run,
            platform=platform,
            available=len(devices),
        )
        for start in range(0, len(runs), at_most)
    ]


def tokens_scored(training: Mapping[str, Any], data: EncodedData, steps: int) -> float:
    """Returns the number of tokens in all the pairs that a run of `steps` steps is scored on.

    Dev is scored at each evaluation. Test is scored once, or as often as dev with `best_on_test`.
    """
    tokens = {split: float(encoded.lengths.sum()) for split, encoded in data.splits.items()}
    scored = evaluation.count(training, data.splits["train"].pairs, steps)
    return scored * tokens["dev"] + (scored if training["best_on_test"] else 1) * tokens.get("test", 0.0)


def _check_shared_bytes(data: EncodedData, device: jax.Device) -> None:
    """Checks that the arrays that all runs share fit on a device: the vectors, and the pairs, which are padded."""
    train = data.splits["train"]
    features = sum(values is not None for values in (train.tags_a, train.exact_match_a))
    # The id; the sentence and the features.
    of_a_token = np.dtype(np.int32).itemsize + np.dtype(np.int8).itemsize * (1 + features)
    characters = 0 if data.characters is None else data.characters.nbytes
    tokens = sum(split.pairs * int(split.lengths.max(initial=0)) for split in data.splits.values())
    shared, available = data.vectors.nbytes + characters + tokens * of_a_token, device_bytes(device)
    if shared > available:
        raise InputError(
            f'the word vectors and the training pairs of "{data.name}", each padded to {train.lengths.max():,} tokens, '
            f"need {shared / 2**30:.1f} GiB, and the device has {available / 2**30:.1f} GiB",
            remedy="cut long texts: --config.data.maximum_length=N",
        )


def check_trainable(training: Mapping[str, Any], data: EncodedData) -> None:
    """Checks that runs can be trained on a data set and that their checkpoints can be chosen. Without this check a run
    would fail at its first evaluation.

    Arguments:
      training: the training section of the config of the runs.
      data: the data set.

    Raises:
      InputError: there are no pairs to train on or to choose a checkpoint on, or the selection score does not exist or
        is not defined.
    """
    if "train" not in data.splits or not data.splits["train"].pairs:
        raise InputError(f'the data set "{data.name}" has no pairs to train on', remedy="add a train file")
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
    if training["selection"] in ADDED:  # nobody knows for which predictions it is defined
        return
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


# With this many cohorts for each worker, all workers finish at about the same time anyway.
ENOUGH_COHORTS = 8
# The share of the time that a further cut must save. Each additional cohort costs the start of a worker or job.
LEAST_GAIN = 0.05
# The cost of a cohort besides its work: its worker or job starts, reads the data and compiles.
SECONDS_OF_A_START = 30.0


def split_cohorts(plan: Plan, slots: int, overhead: float) -> Plan:
    """Cuts the cohorts of the signatures that take longest, as long as that clearly shortens the whole training.

    All cohorts of a signature but the last have the same size, because `workdir.pack` would regroup cohorts of other
    sizes. The last bits of a run's scores depend on how many runs are trained beside it, so another cut can change
    them.

    Arguments:
      plan: a plan in which one worker trains each cohort.
      slots: the number of cohorts that are trained at once.
      overhead: the cost of a cohort besides its work, in multiply-adds: its worker starts, reads data and compiles.
    """
    if len(plan.cohorts) >= ENOUGH_COHORTS * slots:
        return plan
    groups: dict[str, list[PlannedCohort]] = {}
    for cohort in plan.cohorts:
        groups.setdefault(cohort.signature, []).append(cohort)
    cuts = groups

    def duration(cuts: dict[str, list[PlannedCohort]]) -> float:
        cohorts = itertools.chain.from_iterable(cuts.values())
        return makespan([(1, cohort.device_work + overhead) for cohort in cohorts], max(1, slots))

    while True:
        now = duration(cuts)
        longest = sorted(cuts, key=lambda signature: -cuts[signature][0].device_work)
        for signature in longest:
            tried = [cuts | {signature: cut} for cut in _smaller(cuts[signature])]
            best = min(tried, key=duration, default=cuts)  # ties: fewest cohorts
            if duration(best) < (1 - LEAST_GAIN) * now:
                cuts = best
                break
        else:
            return dataclasses.replace(plan, cohorts=tuple(cohort for cut in cuts.values() for cohort in cut))


def _smaller(cohorts: list[PlannedCohort]) -> Iterable[list[PlannedCohort]]:
    """Yields the ways to cut the runs of a signature into more cohorts than it has, the fewest cohorts first."""
    runs: list[Run] = [run for cohort in cohorts for run in cohort.runs]
    sizes = {math.ceil(len(runs) / count) for count in range(len(cohorts) + 1, len(runs) + 1)}
    for size in sorted(sizes, reverse=True):
        if size < len(cohorts[0].runs):
            yield [
                dataclasses.replace(cohorts[0], runs=tuple(runs[start : start + size]))
                for start in range(0, len(runs), size)
            ]


def makespan(cohorts: Iterable[tuple[int, float]], devices: int) -> float:
    """Returns how long cohorts take in total: the longest first, and others beside it on the devices that are free.

    Arguments:
      cohorts: the number of devices and the duration of each.
      devices: the number of devices.
    """
    waiting = sorted(cohorts, key=lambda cohort: -cohort[1])
    running: list[tuple[float, int]] = []
    now, free = 0.0, devices
    while waiting or running:
        for taken, duration in list(waiting) if free else ():
            if taken <= free:
                heapq.heappush(running, (now + duration, taken))
                free -= taken
                waiting.remove((taken, duration))
            if not free:
                break
        now, freed = heapq.heappop(running)
        free += freed
    return now
