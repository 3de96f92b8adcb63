"""Measures the memory of a training step in a fresh process. `items/memory.py` starts it.

The request is {"model", "optimizer", "replicas", "batch", "length", "words", "dimensions", "classes"}. The answer has:

  needs      the estimate of a plan: the fields of `jaxmatch.sweep.memory.Needs`
  live       the arrays that stay from step to step
  shared     the data and vectors, which all runs share
  compiled   the peak as the compiled program states it, with the best parameters of a cohort and without `shared`; None
             if it does not say
  measured   the peak as the device reports it, without `shared`; on a CPU, `live` and the growth of the process during
             a step; None if unknown
  limit      the memory of the device
  device     the kind of device: "cpu", "gpu", ...

All sizes are in bytes.
"""

import ctypes
import dataclasses
import gc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import fresh_process
from jaxmatch import models
from jaxmatch.data.characters import LONGEST_WORD
from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.data.tokens import Preprocessing
from jaxmatch.data.vocabulary import Vocabulary
from jaxmatch.sweep import memory
from jaxmatch.training.evaluation import device_split
from jaxmatch.training.lockstep import Lockstep
from jaxmatch.training.replicas_at_once import bytes_beside_arguments


def pairs_of(length: int, pairs: int, words: int, dimensions: int, classes: int, features: bool = False) -> EncodedData:
    """Returns random pairs that all have `length` tokens, half of them in each sentence, with all features of words or
    with none.

    The words follow Zipf's law: the frequency of the n-th word is proportional to 1 / n.
    """
    random = np.random.default_rng(0)
    first = length // 2
    sides = [
        (_words(random, words, pairs * size), np.arange(pairs + 1, dtype=np.int64) * size)
        for size in (first, length - first)
    ]
    labels = random.integers(0, classes, pairs).astype(np.int32)
    # Further features of each token. Models that take none ignore them.
    features_of_tokens = {
        f"{name}_{side}": random.integers(0, many, len(tokens)).astype(np.uint8)
        for name, many in ((("tags", 40), ("exact_match", 2)) if features else ())
        for side, (tokens, _) in zip("ab", sides, strict=True)
    }
    split = EncodedSplit(*sides[0], *sides[1], labels, **features_of_tokens)
    return EncodedData(
        name="random",
        task="classification",
        labels=tuple(str(number) for number in range(classes)),
        splits={"train": split},
        vocabulary=Vocabulary(["<padding>", "<unknown>"] + [f"w{number}" for number in range(2, words)]),
        vectors=random.normal(size=(words, dimensions)).astype(np.float32),
        preprocessing=Preprocessing(),
        report={},
        fingerprint="random",
        characters=random.integers(1, 128, (words, LONGEST_WORD)).astype(np.uint16) if features else None,
    )


def _words(random: np.random.Generator, words: int, tokens: int) -> np.ndarray:
    """Draws <int32>[tokens], word ids from 2 to `words` - 1, whose logarithms are distributed evenly."""
    return (2 * (words / 2) ** random.random(tokens)).astype(np.int32)


def forget_peak() -> bool:
    """Gives freed memory back to the system and resets "VmHWM". Returns whether the system can do that."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except (OSError, AttributeError):
        return False
    return True


def size(tree: Any) -> int:
    """Returns the bytes of a tree's arrays."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def compiled_bytes(executable: Any) -> int | None:
    """Returns the peak memory of a compiled program in bytes, as XLA states it: arguments, results and temporaries.
    None if XLA does not say.
    """
    more = bytes_beside_arguments(executable)
    return None if more is None else executable.memory_analysis().argument_size_in_bytes + more


def measure(
    model: dict, optimizer: dict, replicas: int, batch: int, length: int, words: int, dimensions: int, classes: int
) -> dict:
    """Measures a training step. The head of this file lists the arguments (the request) and the result (the answer)."""
    device = jax.devices()[0]
    data = pairs_of(length, 2 * batch, words, dimensions, classes)
    lockstep = Lockstep(
        model=model,
        data=data,
        batch_size=batch,
        maximum_buckets=1,
        seeds=range(replicas),
        optimizer=[optimizer] * replicas,
        devices=(device,),
    )
    state, epoch = lockstep.initial(), lockstep.epoch(0)
    best = jax.block_until_ready(jnp.zeros_like(state.parameters))  # a cohort keeps its best parameters
    live = size((state, best))
    program = lockstep.programs.train
    state = jax.block_until_ready(lockstep.step(state, epoch, 0))  # compiles

    forgot = device.platform == "cpu" and forget_peak()
    before = fresh_process.resident("VmRSS") if forgot else None
    state = jax.block_until_ready(lockstep.step(state, epoch, 1))
    if device.platform == "cpu":
        measured = fresh_process.resident("VmHWM") - before + live if before is not None else None
    else:
        measured = (device.memory_stats() or {}).get("peak_bytes_in_use")

    (executable,) = program.executables.values()
    shared = size(lockstep.vectors) + size(device_split(data.splits["train"]))
    compiled = compiled_bytes(executable)
    if compiled is not None:
        compiled += size(best) - shared
    if measured is not None and device.platform != "cpu":
        measured -= shared
    module = models.build(model, outputs=classes)
    needs = memory.needs(module, data.task, dimensions, [(batch, length)], device.platform)
    return {
        "needs": dataclasses.asdict(needs),
        "live": live,
        "shared": shared,
        "compiled": compiled,
        "measured": measured,
        "limit": memory.device_bytes(device),
        "device": device.platform,
    }


def main() -> None:
    values = fresh_process.request()
    names = ("model", "optimizer", "replicas", "batch", "length", "words", "dimensions", "classes")
    fresh_process.answer(measure(**{name: values[name] for name in names}))


if __name__ == "__main__":
    main()
