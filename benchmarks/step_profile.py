"""Measures what a training step spends time on besides the model: padding, the host, compilation.

    python -m benchmarks.step_profile configs/re2.py --data-directory DATA --vectors VECTORS [--replicas 1] [--steps 20]
        [--config.model.hidden_size=160 ...]

Prints, for the config's training split and batch size:
  - the share of padding among all tokens, in length buckets and in random batches padded to their longest sentences;
  - the seconds to compile each shape of the training program;
  - the time of a step, and the share of it in which the host prepares and starts the step instead of waiting for it.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import jax
import numpy as np

from jaxmatch.cli.dotted import take_dotted
from jaxmatch.data.encoded import EncodedSplit
from jaxmatch.errors import InputError
from jaxmatch.settings import with_overrides
from jaxmatch.sweep import preparation
from jaxmatch.sweep.launcher_files import load_config
from jaxmatch.sweep.recording import device_name, versions
from jaxmatch.training.cohort import Cohort


def random_padding(split: EncodedSplit, batch_size: int) -> float:
    """Returns the share of padding if batches are drawn at random and each side is padded to its longest sentence."""
    order = np.random.default_rng(0).permutation(split.pairs)
    padded = 0
    for start in range(0, split.pairs, batch_size):
        rows = order[start : start + batch_size]
        padded += len(rows) * int(split.lengths_a[rows].max() + split.lengths_b[rows].max())
    return 1 - int(split.lengths.sum()) / padded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--data-directory", default="")
    parser.add_argument("--vectors", default="")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    rest, dotted = take_dotted(sys.argv[1:])
    arguments = parser.parse_args(rest)
    overrides = {"data.directory": arguments.data_directory, "data.vectors": arguments.vectors, **dotted["config"]}
    if arguments.steps < 1:
        raise InputError("--steps must be at least 1")
    if dotted["grid"] or dotted["space"]:
        raise InputError("--grid and --space change a sweep, but this is one config", remedy="leave them out")
    config = with_overrides(load_config(arguments.config), overrides)
    data = preparation.prepare(config)
    train = data.splits["train"]
    cohort = Cohort(
        model=config.model.to_dict(),
        training=config.training.to_dict(),
        execution=config.execution.to_dict(),
        data=data,
        seeds=range(arguments.replicas),
        optimizer=[config.optimizer.to_dict()] * arguments.replicas,
    )
    print(
        f"{device_name(jax.devices())}, jax {versions()['jax']}, {data.name}: {train.pairs:,} pairs, batch "
        f"{config.training.batch_size}"
    )
    replicas = cohort.lockstep
    buckets = replicas.batches.padding_share(train.lengths)
    print(f"padding: {buckets:.1%} of tokens in {len(replicas.buckets)} length buckets {replicas.buckets}")
    print(f"padding: {random_padding(train, config.training.batch_size):.1%} of tokens in random batches")

    state, epoch, program = replicas.initial(), replicas.epoch(0), replicas.programs.train
    seconds, host = [], []
    for index in range(len(epoch.sequence)):
        compiled = program.compile_seconds
        jax.block_until_ready(state)
        began, busy = time.perf_counter(), time.thread_time()
        state = replicas.step(state, epoch, index)
        used = time.thread_time() - busy
        jax.block_until_ready(state)
        if program.compile_seconds > compiled:
            print(f"compiling shape {program.compilations}: {program.compile_seconds - compiled:.1f} s")
        else:
            seconds.append(time.perf_counter() - began)
            host.append(used)
        if len(seconds) == arguments.steps:
            break
    print(
        f"step: median {statistics.median(seconds) * 1e3:.1f} ms over {len(seconds)} steps, {arguments.replicas} "
        "replicas"
    )
    print(f"host: {sum(host) / sum(seconds):.2%} of the time of a step")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(f"benchmarks.step_profile: {error}", file=sys.stderr)
        sys.exit(2)
