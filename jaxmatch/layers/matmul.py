"""The one matrix product all layers use, in the precision a config asks for."""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp

from jaxmatch.layers.parts import Parts, sizes, split

# precision -> the type of the factors, and of what layers hand on. What a device makes of float32 ones:
# jaxmatch/products.py.
PRECISIONS = {"highest": jnp.float32, "float32": jnp.float32, "tensorfloat32": jnp.float32, "bfloat16": jnp.bfloat16}
# How a product is asked for; the others as JAX does by default.
ASKED = {"highest": jax.lax.Precision.HIGHEST, "tensorfloat32": jax.lax.Precision.HIGH}

# What JAX and XLA call GPUs.
GPUS = ("gpu", "cuda", "rocm")
# Rows of matrices begin at multiples of so many bytes where products are aligned. cuBLAS reads what begins elsewhere
# number by number (benchmarks/NOTES.md).
ALIGNMENT = 16
_ALIGNED = contextvars.ContextVar("aligned", default=False)


@contextlib.contextmanager
def products_for(platform: str) -> Iterator[None]:
    """Traces products as suits devices of a platform: for GPUs, rows of matrices are filled up with zeros to
    `ALIGNMENT`. Results have the same shapes, and the same numbers up to rounding.
    """
    before = _ALIGNED.set(platform in GPUS)
    try:
        yield
    finally:
        _ALIGNED.reset(before)


def of_scores(precision: str) -> str:
    """For what scores are read from, in a model of some precision: float32 where that is bfloat16, else the same."""
    return "float32" if precision == "bfloat16" else precision


def over_features(vector: jax.Array, values: jax.Array) -> jax.Array:
    """One number a feature, such as a bias, for all rows of `values`: <float32>[features] -> [1, ..., features] of the
    type of `values` <float32 or bfloat16>[..., features].
    """
    return vector.astype(values.dtype).reshape((1,) * (values.ndim - 1) + vector.shape)


def matmul(left: jax.Array, right: jax.Array, precision: str) -> jax.Array:
    """Multiplies matrices in `precision`, or in bfloat16 where the left one is.

    Arguments:
      left: <float32 or bfloat16>[..., rows, inner].
      right: <float32 or bfloat16>[..., inner, columns].
      precision: a key of `PRECISIONS`.

    Returns:
      [..., rows, columns] of the left one's type.
    """
    dtype = jnp.bfloat16 if left.dtype == jnp.bfloat16 else PRECISIONS[precision]
    *rows, inner = left.shape
    if right.ndim == 2 and len(rows) > 1:
        # As one product of two matrices, whose gradients need no copies in another layout on a CPU.
        return matmul(left.reshape(-1, inner), right, precision).reshape(*rows, right.shape[-1])
    # The result is rounded to `dtype` before it becomes the left one's, so that the gradient's two products run in it
    # as well.
    columns, given = right.shape[-1], left.dtype
    left, right = left.astype(dtype), right.astype(dtype)
    if _ALIGNED.get():
        left, right = _aligned(left, (left.ndim - 1,)), _aligned(right, (right.ndim - 2, right.ndim - 1))
    return jnp.matmul(left, right, precision=ASKED.get(precision))[..., :columns].astype(given)


def _aligned(matrices: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Fills up axes with zeros to multiples of `ALIGNMENT` bytes."""
    least = ALIGNMENT // matrices.dtype.itemsize
    widths = [(0, -size % least if axis in axes else 0) for axis, size in enumerate(matrices.shape)]
    return jnp.pad(matrices, widths)


def matmul_in_parts(parts: Parts, kernel: jax.Array, precision: str) -> jax.Array:
    """`[part; ...; part] @ kernel` without the concatenation (layers/parts.py).

    Arguments:
      parts: of <float32>[..., inputs of the part].
      kernel: <float32>[inputs, columns].
      precision: as of `matmul`.

    Returns:
      <float32>[..., columns].
    """
    return matmul_by_rows(parts, split(kernel, sizes(parts), axis=0), precision)


def matmul_by_rows(parts: Parts, rows: Sequence[jax.Array], precision: str) -> jax.Array:
    """As `matmul_in_parts`, of a kernel that is given as each part's rows: <float32>[inputs of the part, columns]."""
    return sum(matmul(part, own_rows, precision) for part, own_rows in zip(parts, rows, strict=True))
