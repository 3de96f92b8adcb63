"""The speed of a device, for estimates of time."""

import functools
import time

import jax
import jax.numpy as jnp

# The share of the measured speed of a large product that a training step reaches in practice.
SHARE_OF_PEAK = 0.5


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
