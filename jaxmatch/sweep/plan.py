"""The plan of a sweep, made before anything trains: runs are grouped into cohorts, and their work is estimated."""

import dataclasses
import functools
import itertools
import math
import timeit
from collections.abc import Container, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch import models
from jaxmatch.config.settings import with_overrides
from jaxmatch.data import catalog, encoding
from jaxmatch.data.encoding import DataSettings, EncodedData
from jaxmatch.devices import available_devices, cache_folder, device_bytes
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import setting_text
from jaxmatch.reporting.records import grouped
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
# The seconds that a program is assumed to take to compile. On a CPU, 36 programs of RE2 with one to five blocks took
# 359 s (benchmarks/results/earlier.md, "9 programs, first launch"). For an H200, programs of RE2 took 12 to 14 s beside
# eleven others (benchmarks/results/README.md). A TPU's compiler takes longer.
SECONDS_TO_COMPILE, SECONDS_TO_COMPILE_ELSEWHERE = {"cpu": 10.0}, 20.0
# With this many cohorts for each worker, all workers finish at about the same time anyway.
ENOUGH_COHORTS = 8
# The cost of a cohort besides its work: its worker or job starts, reads the data and compiles.
SECONDS_OF_A_START = 30.0


@dataclasses.dataclass(frozen=True)
class PlannedCohort:
    """Runs that one program trains together.

    Attributes:
      signature: the id of the program that the runs share.
      runs: the runs, at most as many as have room for their states.
      data: the encoded data of the runs.
      batch: the number of pairs in the largest batch.
      lengths, scored_lengths: the numbers of lengths that training and scoring are compiled for.
      steps_per_epoch: the number of steps that visit every pair once.
      steps: the number of steps of a run that is not stopped early.
      run_seconds: the estimated seconds that a device takes to train and score one run.
      run_bytes: the bytes of the state of one run.
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
    run_seconds: float
    run_bytes: int
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
    def slots(self) -> int:
        """The number of slots that are computed. Those without a run fill a chunk."""
        return math.ceil(len(self.runs) / self.chunk_size) * self.chunk_size

    @property
    def seconds(self) -> float:
        """The estimated seconds of training and scoring."""
        return self.run_seconds * self.slots / self.devices

    @property
    def program(self) -> tuple[str, int]:
        """The signature and the size of a chunk. Cohorts that agree in both share their compiled programs."""
        return self.signature, self.chunk_size

    @property
    def compilations(self) -> int:
        """The number of programs that training and scoring compile."""
        return self.lengths + self.scored_lengths

    @property
    def compilation_seconds(self) -> float:
        """The estimated seconds of one compilation."""
        return SECONDS_TO_COMPILE.get(self.platform, SECONDS_TO_COMPILE_ELSEWHERE)

    def names(self) -> tuple[str, ...]:
        """Returns the identities of the runs."""
        return tuple(run.identity(self.data.fingerprint) for run in self.runs)

    def cut(self, size: int) -> list["PlannedCohort"]:
        """Returns cohorts of at most `size` runs that together have the runs of this one."""
        starts = range(0, len(self.runs), size)
        return [dataclasses.replace(self, runs=self.runs[start : start + size]) for start in starts]


@functools.cache  # a test or a notebook makes many plans
def multiply_adds_per_second() -> float:
    """Measures the multiply-adds per second of a large matrix product on the default device."""
    size = 1024
    matrix = jnp.ones((size, size), jnp.float32)
    product = jax.jit(jnp.matmul)
    product(matrix, matrix).block_until_ready()
    seconds = timeit.repeat(lambda: product(matrix, matrix).block_until_ready(), number=1, repeat=3)
    return size**3 / min(seconds)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The cohorts of a sweep.

    Attributes:
      sweep: the planned sweep.
      cohorts: the cohorts, in the order they are trained.
      workers: the number of workers elsewhere that train cohorts at the same time. None means that this process trains.
      note: a note about the estimated time.
    """

    sweep: Sweep
    cohorts: tuple[PlannedCohort, ...]
    workers: int | None = None
    note: str = ""

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
    def run_steps(self) -> int:
        """The number of training steps of all runs together, if none is stopped early."""
        return sum(cohort.steps * len(cohort.runs) for cohort in self.cohorts)

    def cohort_of(self, names: Sequence[str]) -> PlannedCohort:
        """Returns a cohort of exactly these runs, which must share a signature."""
        return dataclasses.replace(self.runs[names[0]][1], runs=tuple(self.runs[name][0] for name in names))

    def missing(self, finished: Container[str]) -> tuple[PlannedCohort, ...]:
        """Returns the cohorts of the runs that have not finished, as few as possible."""
        return tuple(self.cohort_of(names) for _, names in pack(self.groups, lambda run: run not in finished))


def prepare(config: Mapping[str, Any]) -> EncodedData:
    """Returns the encoded data of a run's config. Raises the errors of `data_settings` and `encoding.prepare`."""
    return encoding.prepare(encoding.data_settings(config), cache_folder(config["execution"]["cache_directory"]))


def make_plan(sweep: Sweep, devices: Sequence[jax.Device] | None = None, speed: float | None = None) -> Plan:
    """Groups the runs of a sweep into cohorts whose states fit into the memory of the devices.

    A run whose `training.selection` is empty gets the score of its data set.

    Arguments:
      sweep: the sweep.
      devices: the devices; default: all of this process.
      speed: the multiply-adds per second of a device (`multiply_adds_per_second`); default: that of this process's.

    Raises:
      InputError: the data cannot be read, a run cannot be trained or scored on it, or two places of the grid are the
        same run.
    """
    devices, speed = tuple(devices or available_devices()), speed or multiply_adds_per_second()
    encoded: dict[DataSettings, EncodedData] = {}
    groups: dict[str, tuple[EncodedData, list[Run]]] = {}
    names: dict[str, Run] = {}
    for run in sweep.runs():
        key = encoding.data_settings(run.config)
        if key not in encoded:
            encoded[key] = prepare(run.config)
        data = encoded[key]
        if not run.config.training.selection:
            own = {"training.selection": catalog.selection(data.name, data.task)}
            run = dataclasses.replace(run, config=with_overrides(run.config, own))
        if (other := names.setdefault(run.identity(data.fingerprint), run)) is not run:
            if other.variant != run.variant:
                problem = f'the variants "{other.variant}" and "{run.variant}" have the same settings'
            else:
                problem = f"{setting_text(dict(run.overrides), run.variant)} is in the grid twice"
            raise InputError(problem, remedy="remove one")
        groups.setdefault(run.signature(data.fingerprint), (data, []))[1].append(run)
    cohorts = [_cohorts(signature, runs, data, devices, speed) for signature, (data, runs) in groups.items()]
    return Plan(sweep, tuple(itertools.chain(*cohorts)))


def _cohorts(
    signature: str, runs: list[Run], data: EncodedData, devices: tuple[jax.Device, ...], speed: float
) -> list[PlannedCohort]:
    """Returns the cohorts of a signature."""
    config, platform = runs[0].config, devices[0].platform
    check_trainable(config.training, data)
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
    scored = sum(int(data.splits[name].lengths.sum()) for name in ("dev", "test")[: 1 + training["best_on_test"]])
    scored *= len(evaluation.times(training, data.splits["train"].pairs, batches.steps_per_epoch))
    tokens = config.training.epochs * batches.tokens() + SHARE_OF_FORWARD * scored
    whole = PlannedCohort(
        signature,
        tuple(runs),
        data,
        batch=max(rows for rows, _ in batches.compiled.values()),
        lengths=lengths,
        scored_lengths=len(scored_lengths),
        steps_per_epoch=batches.steps_per_epoch,
        steps=steps,
        run_seconds=OPERATIONS_A_PARAMETER / 2 * parameters * tokens / (SHARE_OF_PEAK * speed),
        run_bytes=bytes_of_a_run,
        platform=platform,
        available=len(devices),
    )
    return whole.cut(at_most)


def check_trainable(training: Mapping[str, Any], data: EncodedData) -> None:
    """Checks that runs with the training section of a config can be trained on a data set, and checkpoints be chosen.

    Raises:
      InputError: there are no pairs to train on or to choose a checkpoint on, or the selection score does not exist or
        is not defined.
    """
    selection = training["selection"]
    for split in ("train", "dev", *(["test"] if training["best_on_test"] else [])):
        if split not in data.splits or not data.splits[split].pairs:
            remedy = f"add a {split} file" + ", or leave out training.best_on_test" * (split == "test")
            raise InputError(f'the data set "{data.name}" has no {split} pairs', remedy=remedy)
    known = (*score_names(data.task, len(data.labels)), "loss")
    if selection not in known:
        problem = f'config.training.selection = "{selection}" is not a score of a {data.task} data set'
        raise InputError(problem, remedy=f"use one of {', '.join(known)}")
    if selection in ADDED:  # nobody knows for which predictions it is defined
        return
    dev = data.splits["dev"]
    outputs = np.zeros((dev.pairs, data.outputs), np.float32)  # has a score, however bad, if any prediction has one
    about = {"groups": dev.groups, "documents": dev.documents, "filtered": data.filtered}
    scores = score(data.task, dev.labels, outputs, label_names=data.labels, **about)
    if math.isnan(scores.get(selection, 0.0)):
        ranked = data.task == "ranking" and selection != "auc"
        reason = "no question has both a right and a wrong candidate" if ranked else "all labels are the same"
        raise InputError(
            f'{selection} is undefined on the dev pairs of "{data.name}": {reason}',
            remedy="choose another score with --config.training.selection, or fix the dev file",
        )


def split_cohorts(plan: Plan, workers: int) -> Plan:
    """Cuts the cohorts of a signature that takes longer than its share of the workers, so that it gets this share.

    All cohorts of a signature but the last have the same size, because `workdir.pack` would regroup cohorts of other
    sizes. The last bits of a run's scores depend on how many runs are trained beside it, so another cut can change
    them.
    """
    plan = dataclasses.replace(plan, workers=workers)
    if len(plan.cohorts) >= ENOUGH_COHORTS * workers:
        return plan
    share = sum(cohort.seconds + SECONDS_OF_A_START for cohort in plan.cohorts) / max(1, workers)
    cuts = []
    for cohorts in grouped(plan.cohorts, lambda cohort: cohort.signature).values():
        whole = dataclasses.replace(cohorts[0], runs=tuple(run for cohort in cohorts for run in cohort.runs))
        parts = max(len(cohorts), min(len(whole.runs), round(sum(each.seconds for each in cohorts) / share)))
        cuts += cohorts if parts == len(cohorts) else whole.cut(math.ceil(len(whole.runs) / parts))
    return dataclasses.replace(plan, cohorts=tuple(cuts))
