"""The programs of a signature: initial states, training steps, and evaluation, each over replicas."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax

from jaxmatch.training.evaluation import cohort_outputs
from jaxmatch.training.programs import Program, replica_mesh
from jaxmatch.training.step import Flattening, cohort_step, cohort_steps, flattening, initial_state


class Programs(NamedTuple):
    """The programs that a signature compiles, and the flattening of its parameters."""

    flat: Flattening
    initialize: Program
    train: Program
    train_many: Program
    evaluate: Program


@functools.lru_cache(maxsize=64)
def programs(
    module: nn.Module,
    task: str,
    dimensions: int,
    words: int,
    devices: tuple[jax.Device, ...],
    added: tuple[tuple[str, Callable], ...] = (),
) -> Programs:
    """Returns the programs of a signature, which all its cohorts share.

    `added` are the items of `losses.ADDED`. A loss that is added again therefore makes other programs.
    """
    mesh = replica_mesh(devices)
    flat = flattening(module, dimensions, words, devices[0].platform)
    initialize = jax.vmap(functools.partial(initial_state, flat), (0, 0, None))
    return Programs(
        flat,
        Program(initialize, name="initialize", by_replica=(True, True, False), mesh=mesh, runs_once=True),
        Program(
            cohort_step(flat, task),
            name="train_step",
            by_replica=(True, True, True, True, True, True, False, False, False),
            mesh=mesh,
            donated=(0,),
        ),
        Program(
            cohort_steps(flat, task),
            name="train_steps",
            by_replica=(True, True, True, True, True, False, False, False, False, False),
            mesh=mesh,
            donated=(0,),
        ),
        Program(cohort_outputs(flat), name="evaluate", by_replica=(True, False, False, False), mesh=mesh),
    )
