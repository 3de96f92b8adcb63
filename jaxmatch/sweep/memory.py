"""How many replicas fit, by an estimate for which nothing is compiled.

A plan cuts the runs of a signature into cohorts by it, so that a cohort is the same whatever a compiler makes of it. How many of
a cohort's replicas an accelerator computes side by side is settled by the compiled programs (training/room.py).
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

from jaxmatch.data.characters import LONGEST_WORD
from jaxmatch.data.encoding import EncodedData
from jaxmatch.layers.words import WordTable
from jaxmatch.sweep.liveness import peak_bytes
from jaxmatch.training.hyperparameters import Hyperparameters
from jaxmatch.training.replicas import at_once, most_at_once
from jaxmatch.training.room import SHARE_TO_USE
from jaxmatch.training.step import flattening, initial_state, train_step

# Parameters, Adam's two moments and the best so far, which stay from step to step.
COPIES_OF_PARAMETERS = 4
# What a loop over replicas writes, where not all are computed side by side, beside what it reads: parameters and both moments.
COPIES_OF_A_LOOP = 3
# What a checkpoint takes to the host, whose memory a CPU's is; not part of a step.
COPIES_OF_A_CHECKPOINT = 4
BYTES_OF_A_SMALL_DEVICE = 8 * 2**30


class Calibration(NamedTuple):
    """What the estimate takes for granted of a platform.

    Attributes:
      held: what a compiled step holds beside its state, of what it must: copies in another layout and what is scheduled early
        come on top, and what is computed again comes off.
      least_item_bytes: what a number takes at least.
      to_use: of a device's memory. Elsewhere than on a CPU it is the compiled program that tells in the end how many replicas are
        computed side by side (training/room.py); a plan that is too careful would leave the device idle.
    """

    held: float
    least_item_bytes: int
    to_use: float


_CALIBRATIONS = {
    # `memory_analysis()` of the training program, 1 to 3 blocks, 8 to 512 pairs of 24 to 96 tokens: 1.45 to 1.65;
    # `python -m benchmarks memory` measures it anew. The rest of the memory is for the runtime and what an estimate leaves out.
    "cpu": Calibration(held=1.5, least_item_bytes=4, to_use=0.7),
    # Temporaries of the training programs of all models as compiled for an H100 and an A100, 10 and 32 runs at 64 and 512 pairs of
    # 40 tokens, float32 and bfloat16: RE2 0.68 to 0.92, the others 0.54 to 0.76 (benchmarks/results/accelerators, commit 883f009).
    # One run at 64 pairs holds up to 1.35.
    "gpu": Calibration(held=0.9, least_item_bytes=2, to_use=SHARE_TO_USE),
    # The same for a v5e: 9.7 GB of two runs at 512 pairs, which is 2.8, and 16.6 GB of ten, 0.96, which the compiler was to
    # make fit 15.75 GB and could not (jax 0.10.2).
    "tpu": Calibration(held=1.5, least_item_bytes=2, to_use=SHARE_TO_USE),
}


def calibration(platform: str) -> Calibration:
    """Of a platform, as "cpu"; one that is not known is taken for a GPU."""
    return _CALIBRATIONS.get(platform, _CALIBRATIONS["gpu"])


def _array(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def parameter_count(module: Any, dimensions: int) -> int:
    """How many numbers a model over `dimensions`-dimensional word vectors trains."""
    return flattening(module, dimensions).count


@functools.lru_cache(maxsize=256)
def _state(module: Any, dimensions: int) -> tuple[Any, Hyperparameters, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """The shapes of a run's state, settings and seed, and of the word vectors; of those as few as do."""
    settings = Hyperparameters(*(_array((), np.float32) for _ in Hyperparameters._fields))
    seed, vectors = _array((), np.uint32), _array((2, dimensions), np.float32)
    initial = functools.partial(initial_state, flattening(module, dimensions))
    return jax.eval_shape(initial, seed, settings, vectors), settings, seed, vectors


def step_shapes(module: Any, task: str, dimensions: int, batch: int, length: int) -> tuple:
    """What one training step of one run is given, behind what is static; as shapes (training/step.py).

    Arguments: as of `step_program`.

    Returns:
      state, settings, seed, active, rows, weights, split, vectors.
    """
    state, settings, seed, vectors = _state(module, dimensions)
    if module.takes_characters:
        vectors = WordTable(vectors, _array((2, LONGEST_WORD), np.uint16))
    features = {name: _array((batch, length), np.int8) for name in module.token_features}
    split = {
        "tokens": {"ids": _array((batch, length), np.int32), **features},
        "sentences": _array((batch, length), np.int8),
        "labels": _array((batch,), np.float32 if task == "regression" else np.int32),
    }
    rows, weights, active = _array((batch,), np.int32), _array((batch,), np.float32), _array((), bool)
    return state, settings, seed, active, rows, weights, split, vectors


def step_program(module: Any, task: str, dimensions: int, batch: int, length: int) -> Any:
    """The `jaxpr` of one training step of one run.

    Arguments:
      module: the model.
      task: which loss.
      dimensions: of the word vectors.
      batch: pairs a step.
      length: tokens of a pair, padding included.
    """
    step = functools.partial(train_step, flattening(module, dimensions), task, length)
    return jax.make_jaxpr(step)(*step_shapes(module, task, dimensions, batch, length)).jaxpr


@functools.lru_cache(maxsize=256)
def step_bytes(module: Any, task: str, dimensions: int, batch: int, length: int, platform: str) -> int:
    """An estimate of what a step of one replica holds beside its state on a platform; nothing is compiled or run.

    Arguments: as of `step_program`.
    """
    held, least, _ = calibration(platform)
    return int(held * peak_bytes(step_program(module, task, dimensions, batch, length), least))


@functools.lru_cache(maxsize=256)
def answer_bytes(module: Any, task: str, dimensions: int, rows: int, length: int, platform: str) -> int:
    """The same of what scores a batch: a forward pass, of as many rows as an evaluation has."""
    flat = flattening(module, dimensions)
    state, *_, split, vectors = step_shapes(module, task, dimensions, rows, length)

    def answer(parameters, tokens, sentences, vectors):
        return module.apply({"params": flat.to_tree(parameters)}, tokens, sentences, vectors, method="match")

    program = jax.make_jaxpr(answer)(state.parameters, split["tokens"], split["sentences"], vectors).jaxpr
    held, least, _ = calibration(platform)
    return int(held * peak_bytes(program, least))


@dataclasses.dataclass(frozen=True)
class Needs:
    """An estimate of the memory that replicas need on a device.

    Attributes:
      step: bytes that a step of one replica, or its answer in an evaluation, holds beside its state, at the largest shape.
      parameters: bytes of one replica's parameters, with the zeros behind them (training/step.py).
      most: how many are computed side by side (training/replicas.py).
    """

    step: int
    parameters: int
    most: int | None

    def of(self, replicas: int) -> int:
        """Bytes of so many replicas on one device in training."""
        side_by_side = at_once(replicas, self.most)
        copies = COPIES_OF_PARAMETERS + (COPIES_OF_A_LOOP if side_by_side < replicas else 0)
        return side_by_side * self.step + replicas * copies * self.parameters

    def within(self, room: float) -> int:
        """How many replicas, or any number less, need at most `room` bytes on one device; at least one."""
        fit = max(1, int(room / self.of(1)))
        if self.most is None or fit <= self.most:
            return fit
        copies = COPIES_OF_PARAMETERS + COPIES_OF_A_LOOP + COPIES_OF_A_CHECKPOINT
        return max(self.most, int((room - self.most * self.step) / (copies * self.parameters)))

    def that_fit(self, devices: Sequence[jax.Device], shared: int = 0) -> int:
        """How many replicas, or any number less, the devices hold together beside what all share on each; at least one on each."""
        to_use = calibration(devices[0].platform).to_use
        return len(devices) * self.within(max(0, to_use * (device_bytes(devices[0]) - shared)))


def needs(
    module: Any,
    task: str,
    dimensions: int,
    shapes: Iterable[tuple[int, int]],
    platform: str,
    answered: Iterable[tuple[int, int]] = (),
) -> Needs:
    """What training a model with batches of some (pairs, tokens), and evaluating it with others, needs on devices of a platform."""
    shapes = list(shapes)
    step = max(step_bytes(module, task, dimensions, *shape, platform) for shape in shapes)
    most = most_at_once(max(batch for batch, _ in shapes), platform)
    if most is None:  # where replicas take turns, an evaluation holds the answers of few
        step = max([step, *(answer_bytes(module, task, dimensions, *shape, platform) for shape in answered)])
    return Needs(step, 4 * flattening(module, dimensions).length, most)


def shared_bytes(data: EncodedData) -> int:
    """What all replicas on a device share: the word vectors, and the training pairs, each padded to the longest.

    (A step takes its batch out of these; `evaluation.device_split`. Dev and test are cut to a few lengths, and are far fewer.)
    """
    train = data.splits["train"]
    features = sum(values is not None for values in (train.tags_a, train.exact_match_a))
    of_a_token = np.dtype(np.int32).itemsize + np.dtype(np.int8).itemsize * (1 + features)  # the id; the sentence and the features
    characters = 0 if data.characters is None else data.characters.nbytes
    return data.vectors.nbytes + characters + train.pairs * int(train.lengths.max(initial=0)) * of_a_token


def device_bytes(device: jax.Device) -> int:
    """The memory that one device offers. An accelerator that does not tell is taken for a small one."""
    statistics: Mapping[str, int] = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    if device.platform != "cpu":
        return BYTES_OF_A_SMALL_DEVICE
    there_are = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([there_are, *granted_bytes()]) // max(1, len(jax.devices()))


def granted_bytes(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """What Linux's control groups, of a container or a batch system, grant this process; each is a limit."""
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except OSError:
        return []
    limits = []
    for line in lines:
        # Version 2 has no names, version 1 a tree of its own for memory.
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
