"""Estimates of how many replicas fit into memory. Nothing is compiled.

A plan divides the runs of a signature into cohorts by this estimate. Cohorts therefore do not depend on the compiler.
How many of a cohort's replicas an accelerator computes at the same time is decided later, from the compiled programs
(training/replicas_at_once.py).
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmatch.config import ADDED_DEFAULTS, SECTIONS
from jaxmatch.data.characters import LONGEST_WORD
from jaxmatch.data.encoded import EncodedData
from jaxmatch.data.vocabulary import WordTable
from jaxmatch.sweep.liveness import peak_bytes
from jaxmatch.training import hosts
from jaxmatch.training.hyperparameters import Hyperparameters, stack
from jaxmatch.training.replicas import at_once, most_at_once
from jaxmatch.training.replicas_at_once import SHARE_TO_USE
from jaxmatch.training.step import BatchShape, flattening, initial_state, train_step

# State that lasts from step to step: the parameters, Adam's two moments, and the best parameters so far.
COPIES_OF_PARAMETERS = 4
# Where not all replicas are computed at the same time, a loop over them writes new copies of the parameters and both
# moments.
COPIES_OF_A_LOOP = 3
# A checkpoint copies the state to the host. On a CPU that is the same memory. It is not part of a step.
COPIES_OF_A_CHECKPOINT = 4
BYTES_OF_A_SMALL_DEVICE = 8 * 2**30


class MemoryConstants(NamedTuple):
    """Measured constants of a platform.

    Attributes:
      ratio: temporary bytes of a compiled step, divided by `liveness.peak_bytes` of its trace. Copies in another
        layout and early scheduling increase it, recomputation reduces it.
      least_item_bytes: the smallest size of one number.
      memory_fraction: the share of a device's memory that a plan may use. On an accelerator the compiled program
        decides how many replicas are computed at the same time (training/replicas_at_once.py), so a low share would
        only leave the device idle.
    """

    ratio: float
    least_item_bytes: int
    memory_fraction: float


_CONSTANTS = {
    # `memory_analysis()` of the training program, 1 to 3 blocks, 8 to 512 pairs of 24 to 96 tokens: 1.45 to 1.65 with
    # JAX 0.10; with 0.11, 0.8 to 1.0 (three sizes). `python -m benchmarks memory` measures it again. The rest of the
    # memory is for the runtime and what an estimate leaves out.
    "cpu": MemoryConstants(ratio=1.5, least_item_bytes=4, memory_fraction=0.7),
    # Temporaries of the training programs of all models as compiled for an H100, 10 and 32 runs at 64 and 512 pairs of
    # 40 tokens, float32 and bfloat16: RE2 0.84 to 0.98, the others 0.68 to 0.92 (benchmarks/results/accelerators). One
    # run at 64 pairs holds up to 1.23. Less than the low end is taken: an estimate that is too high would leave the
    # device idle, one that is too low is corrected by the compiled program.
    "gpu": MemoryConstants(ratio=0.55, least_item_bytes=2, memory_fraction=SHARE_TO_USE),
    # The same for ten runs of RE2 on a v5e: 0.74 and 0.95 at 512 pairs (float32 and bfloat16), 0.96 and 1.16 at 64. Not
    # the low end here: a TPU's programs take minutes to compile, and a correction compiles another one. With 0.9, ten
    # runs at 512 pairs in float32 are one cohort, and so are twenty in bfloat16.
    "tpu": MemoryConstants(ratio=0.9, least_item_bytes=2, memory_fraction=SHARE_TO_USE),
}


def constants_of(platform: str) -> MemoryConstants:
    """Returns the constants of a platform such as "cpu". An unknown platform gets those of a GPU."""
    return _CONSTANTS.get(platform, _CONSTANTS["gpu"])


def _array(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def parameter_count(module: Any, dimensions: int, words: int = 2) -> int:
    """Returns the number of trained parameters of a model over `words` word vectors (see `words_trained`)."""
    return flattening(module, dimensions, words).count


@functools.lru_cache(maxsize=256)
def _state(
    module: Any, dimensions: int, words: int, added: tuple[str, ...]
) -> tuple[Any, Hyperparameters, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Returns the shapes of a run's state, settings (with those that were added), seed and word vectors."""
    defaults = stack([dataclasses.asdict(SECTIONS["optimizer"]())])
    settings = jax.tree.map(lambda leaf: _array(leaf.shape[1:], leaf.dtype), defaults)
    seed, vectors = _array((), np.uint32), _array((words, dimensions), np.float32)
    initial = functools.partial(initial_state, flattening(module, dimensions, words))
    return jax.eval_shape(initial, seed, settings, vectors), settings, seed, vectors


def step_shapes(module: Any, task: str, dimensions: int, batch: int, length: int, words: int = 2) -> tuple:
    """Returns the shapes of the arguments of a run's training step, without the static arguments (training/step.py).

    Arguments: as in `step_program`.

    Returns:
      state, settings, seed, active, rows, weights, split, vectors.
    """
    state, settings, seed, vectors = _state(module, dimensions, words, tuple(ADDED_DEFAULTS))
    if module.takes_characters:
        vectors = WordTable(vectors, _array((words, LONGEST_WORD), np.uint16))
    features = {name: _array((batch, length), np.int8) for name in module.token_features}
    split = {
        "tokens": {"ids": _array((batch, length), np.int32), **features},
        "sentences": _array((batch, length), np.int8),
        "labels": _array((batch,), np.float32 if task == "regression" else np.int32),
    }
    rows, weights, active = _array((batch,), np.int32), _array((batch,), np.float32), _array((), bool)
    return state, settings, seed, active, rows, weights, split, vectors


@functools.lru_cache(maxsize=32)  # the memory and the work of a step are both estimated from it
def step_program(
    module: Any, task: str, dimensions: int, batch: int, length: int, words: int = 2, most_words: int | None = None
) -> Any:
    """Traces one training step of one run and returns its `jaxpr`.

    Arguments:
      module: the model.
      task: the task, which determines the loss.
      dimensions: the number of dimensions of the word vectors.
      batch: the number of pairs of a step.
      length: the number of tokens of a pair, padding included.
      words: `words_trained` of the model.
      most_words: as in `BatchShape`.
    """
    step = functools.partial(train_step, flattening(module, dimensions, words), task, BatchShape(length, most_words))
    return jax.make_jaxpr(step)(*step_shapes(module, task, dimensions, batch, length, words)).jaxpr


@functools.lru_cache(maxsize=256)
def step_bytes(
    module: Any,
    task: str,
    dimensions: int,
    batch: int,
    length: int,
    platform: str,
    words: int = 2,
    most_words: int | None = None,
) -> int:
    """Estimates the temporary memory of one replica's training step, in bytes. Nothing is compiled or run.

    Arguments: as in `step_program`.
    """
    ratio, least, _ = constants_of(platform)
    return int(ratio * peak_bytes(step_program(module, task, dimensions, batch, length, words, most_words), least))


@functools.lru_cache(maxsize=256)
def answer_bytes(module: Any, task: str, dimensions: int, rows: int, length: int, platform: str, words: int = 2) -> int:
    """Estimates the temporary memory of one replica's forward pass over a batch of `rows` pairs, in bytes."""
    flat = flattening(module, dimensions, words)
    state, *_, split, vectors = step_shapes(module, task, dimensions, rows, length, words)

    def answer(parameters, tokens, sentences, vectors):
        return module.apply({"params": flat.to_tree(parameters)}, tokens, sentences, vectors, method="match")

    program = jax.make_jaxpr(answer)(state.parameters, split["tokens"], split["sentences"], vectors).jaxpr
    ratio, least, _ = constants_of(platform)
    return int(ratio * peak_bytes(program, least))


@dataclasses.dataclass(frozen=True)
class Needs:
    """The estimated memory of replicas on one device.

    Attributes:
      step: temporary bytes of one replica at the largest shape, of a training step or of an evaluation, whichever needs
        more.
      parameters: bytes of one replica's parameters.
      most: how many replicas are computed at the same time; None: all (training/replicas.py).
    """

    step: int
    parameters: int
    most: int | None

    def of(self, replicas: int) -> int:
        """Returns the bytes that training this number of replicas takes on one device."""
        side_by_side = at_once(replicas, self.most)
        copies = COPIES_OF_PARAMETERS + (COPIES_OF_A_LOOP if side_by_side < replicas else 0)
        return side_by_side * self.step + replicas * copies * self.parameters

    def within(self, available: float) -> int:
        """Returns a number of replicas that fit into `available` bytes on one device, at least 1.

        Any smaller number fits, too.
        """
        fit = max(1, int(available / self.of(1)))
        if self.most is None or fit <= self.most:
            return fit
        copies = COPIES_OF_PARAMETERS + COPIES_OF_A_LOOP + COPIES_OF_A_CHECKPOINT
        return max(self.most, int((available - self.most * self.step) / (copies * self.parameters)))

    def that_fit(self, devices: Sequence[jax.Device], shared: int = 0) -> int:
        """Returns a number of replicas that fit on all devices together, at least one for each device.

        Any smaller number fits, too.

        Arguments:
          devices: the devices, all of one kind.
          shared: the bytes on each device that its replicas share (`shared_bytes`).
        """
        memory_fraction = constants_of(devices[0].platform).memory_fraction
        return len(devices) * self.within(max(0, memory_fraction * (device_bytes(devices[0]) - shared)))


def needs(
    module: Any,
    task: str,
    dimensions: int,
    shapes: Iterable[tuple[int, int]],
    platform: str,
    answered: Iterable[tuple[int, int]] = (),
    words: int = 2,
    most_words: Mapping[tuple[int, int], int | None] | None = None,
) -> Needs:
    """Estimates the memory of training and evaluating a model.

    Arguments:
      module: the model.
      task: the task, which determines the loss.
      dimensions: the number of dimensions of the word vectors.
      shapes: (pairs, tokens) of the training batches.
      platform: the platform of the devices, such as "cpu".
      answered: (pairs, tokens) of the evaluation batches.
      words: `words_trained` of the model.
      most_words: (pairs, tokens) of training batches -> `BatchShape.most_words`. Evaluation is estimated without it.
    """
    shapes, most_words = list(shapes), most_words or {}
    step = max(step_bytes(module, task, dimensions, *shape, platform, words, most_words.get(shape)) for shape in shapes)
    most = most_at_once(max(batch for batch, _ in shapes), platform)
    if most is None:  # where replicas take turns, an evaluation holds the outputs of few
        step = max([step, *(answer_bytes(module, task, dimensions, *shape, platform, words) for shape in answered)])
    return Needs(step, 4 * flattening(module, dimensions, words).count, most)


def shared_bytes(data: EncodedData) -> int:
    """Returns the bytes that all replicas on a device share: the word vectors, and the pairs of each split, padded to
    the longest pair of the split.

    A training step gathers its batch from these arrays (`evaluation.device_split`). Evaluation keeps its batches.
    """
    train = data.splits["train"]
    features = sum(values is not None for values in (train.tags_a, train.exact_match_a))
    # The id; the sentence and the features.
    of_a_token = np.dtype(np.int32).itemsize + np.dtype(np.int8).itemsize * (1 + features)
    characters = 0 if data.characters is None else data.characters.nbytes
    tokens = sum(split.pairs * int(split.lengths.max(initial=0)) for split in data.splits.values())
    return data.vectors.nbytes + characters + tokens * of_a_token


def device_bytes(device: jax.Device) -> int:
    """Returns the memory of one device, in bytes. An accelerator that does not report it is assumed to be small."""
    if not hosts.local([device]):  # only local devices report it; those of a pod are equal
        device = jax.local_devices()[0]
    statistics: Mapping[str, int] = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    if device.platform != "cpu":
        return BYTES_OF_A_SMALL_DEVICE
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *granted_bytes()]) // max(1, jax.local_device_count())


def granted_bytes(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """Returns the memory limits of this process, in bytes, from Linux control groups (containers, batch systems).

    Arguments:
      groups: the file that lists the process's groups.
      root: the folder where the control groups are mounted.
    """
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except OSError:
        return []
    limits = []
    for line in lines:
        # A line of version 2 names no controllers. Version 1 has a hierarchy of its own for memory.
        if len(line) != 3 or (line[1] and "memory" not in line[1].split(",")):
            continue
        base, name = (root / "memory", "memory.limit_in_bytes") if line[1] else (root, "memory.max")
        inner = base / line[2].lstrip("/")
        for folder in (inner, *inner.parents):
            with contextlib.suppress(OSError, ValueError):  # "max" is no limit
                limits.append(int((folder / name).read_text()))
            if folder == base:
                break
    return limits
