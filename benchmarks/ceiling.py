"""The peak speed of a device's matrix products, measured."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import stopwatch

# The number of successive products in a timed program, so that the time to start the program does not count.
PRODUCTS = 8
# The sides of the square matrices to try. The fastest product gives the peak of the device.
SIDES = {"cpu": (512, 1024)}
SIDES_OF_AN_ACCELERATOR = (4096, 8192)


def default_products() -> str:
    """Returns the precision in which the device multiplies float32 matrices by default: "float32", "TF32" or
    "bfloat16".

    JAX leaves the precision to the device: an NVIDIA GPU since Ampere rounds the factors to TF32 (10 bits after the
    point), a TPU to bfloat16 (7 bits), and a CPU does not round them. It is detected here with numbers that need 9 and
    12 bits.
    """
    one = jnp.eye(512, dtype=jnp.float32)
    product = jax.jit(jnp.matmul)
    needs_nine, needs_twelve = (float(product(one * np.float32(1 + 2.0**-bits), one)[0, 0]) != 1.0 for bits in (9, 12))
    return "float32" if needs_twelve else "TF32" if needs_nine else "bfloat16"


def measure(rounds: int, sides: tuple[int, ...] | None = None) -> dict[str, float]:
    """Measures the device's fastest matrix products, in operations a second. A multiply-add is two operations.

    Arguments:
      rounds: the number of times that each product is timed.
      sides: the sides of the square matrices; default: the `SIDES` of the device.

    Returns:
      {"float32": ...}, and on an accelerator also "bfloat16" and, if it has it, "TF32": the best of the medians of all
      sizes.
    """
    accelerator = jax.default_backend() != "cpu"
    sides = sides or SIDES.get(jax.default_backend(), SIDES_OF_AN_ACCELERATOR)
    precisions = {"float32": (jnp.float32, "highest")}
    if accelerator:
        precisions["bfloat16"] = (jnp.bfloat16, "default")
        if default_products() == "TF32":
            precisions["TF32"] = (jnp.float32, "tensorfloat32")
    best = dict.fromkeys(precisions, 0.0)
    for side in sides:
        candidates = {name: _chain(side, dtype, how) for name, (dtype, how) in precisions.items()}
        for name, seconds in stopwatch.in_turn(candidates, rounds).items():
            speed = 2 * PRODUCTS * side**3 / stopwatch.spread(seconds)["median"]
            best[name] = max(best[name], speed)
    return best


def _chain(side: int, dtype: Any, precision: str) -> Callable[[], None]:
    """Compiles a program of `PRODUCTS` products, each of the one before, and returns a function that runs it."""
    with jax.default_matmul_precision(precision):
        matrices = np.random.default_rng(0).normal(size=(2, side, side)).astype(np.float32) / math.sqrt(side)
        left, right = (jax.device_put(matrix.astype(dtype)) for matrix in matrices)

        def products(left: jax.Array, right: jax.Array) -> jax.Array:
            for _ in itertools.repeat(None, PRODUCTS):
                left = left @ right
            return left

        compiled = jax.jit(products).lower(left, right).compile()

    def work() -> None:
        jax.block_until_ready(compiled(left, right))

    return work
