"""The matrix product that all layers use, in the precision that a config requests."""

import contextlib
import contextvars
import functools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp

from jaxmatch.layers.parts import Parts, sizes, split

# precision -> the type of the factors and of the outputs of layers. jaxmatch/products.py describes how a device rounds
# float32 factors.
PRECISIONS = {"highest": jnp.float32, "float32": jnp.float32, "tensorfloat32": jnp.float32, "bfloat16": jnp.bfloat16}
# precision -> the precision that JAX is given for a product; the others use JAX's default.
JAX_PRECISIONS = {"highest": jax.lax.Precision.HIGHEST, "tensorfloat32": jax.lax.Precision.HIGH}

# The names of GPUs in JAX and XLA.
GPUS = ("gpu", "cuda", "rocm")
# In aligned products, rows of matrices begin at multiples of this many bytes. cuBLAS reads rows that begin elsewhere
# number by number (benchmarks/NOTES.md).
ALIGNMENT = 16
_PLATFORM = contextvars.ContextVar("platform", default="cpu")


@contextlib.contextmanager
def products_for(platform: str) -> Iterator[None]:
    """Traces products for the devices of a platform; without this, for a CPU.

    For GPUs, rows of matrices are padded with zeros to `ALIGNMENT`. For TPUs, a product of tokens with a weight keeps
    the axes of batch and length, which are one axis elsewhere. Results have the same shapes, and the same values up to
    rounding.
    """
    before = _PLATFORM.set(platform)
    try:
        yield
    finally:
        _PLATFORM.reset(before)


def of_scores(precision: str) -> str:
    """Returns the precision of logits and cosines: float32 if a model's precision is bfloat16, otherwise the same."""
    return "float32" if precision == "bfloat16" else precision


def over_features(vector: jax.Array, values: jax.Array) -> jax.Array:
    """Prepares a vector with one number per feature, such as a bias, for arithmetic with all rows of `values`.

    Arguments:
      vector: <float32>[features].
      values: <float32 or bfloat16>[..., features].

    Returns:
      [1, ..., features] in the type of `values`.
    """
    return vector.astype(values.dtype).reshape((1,) * (values.ndim - 1) + vector.shape)


def matmul(left: jax.Array, right: jax.Array, precision: str) -> jax.Array:
    """Multiplies matrices in `precision`, or in bfloat16 if `left` is bfloat16.

    Arguments:
      left: <float32 or bfloat16>[..., rows, inner].
      right: <float32 or bfloat16>[..., inner, columns].
      precision: the precision, a key of `PRECISIONS`.

    Returns:
      [..., rows, columns] in the type of `left`.
    """
    return _sum_of_products((left,), (right,), precision)


def _sum_of_products(lefts: Sequence[jax.Array], rights: Sequence[jax.Array], precision: str) -> jax.Array:
    """Returns the sum of the products of several pairs of matrices, all as `matmul` takes them and of equal shapes but
    for `inner`.
    """
    *rows, _ = lefts[0].shape
    columns = rights[0].shape[-1]
    # As products of two matrices: on a CPU and a GPU, their gradients need no copies in another layout. A TPU pads the
    # innermost axis in memory to a multiple of 128. If the axes are kept, XLA makes the batch innermost. Otherwise the
    # features are, and 150 of them take the memory of 256.
    one_axis = rights[0].ndim == 2 and len(rows) > 1 and _PLATFORM.get() != "tpu"
    if one_axis:
        lefts = [left.reshape(-1, left.shape[-1]) for left in lefts]
    products = [_product(left, right, precision) for left, right in zip(lefts, rights, strict=True)]
    # Columns that are only padding are cut off once, after the sum. Otherwise XLA copies each product to add it.
    summed = functools.reduce(jnp.add, products)[..., :columns]
    return summed.reshape(*rows, columns) if one_axis else summed


def _product(left: jax.Array, right: jax.Array, precision: str) -> jax.Array:
    """Returns a product as `matmul` does. On GPUs, columns of zeros may follow."""
    dtype = jnp.bfloat16 if left.dtype == jnp.bfloat16 else PRECISIONS[precision]
    # The result is rounded to `dtype` before it is converted to the type of `left`, so that the two products of the
    # gradient are computed in `dtype` as well.
    output_dtype = left.dtype
    left, right = left.astype(dtype), right.astype(dtype)
    if _PLATFORM.get() in GPUS:
        left, right = _aligned(left, (left.ndim - 1,)), _aligned(right, (right.ndim - 2, right.ndim - 1))
    return jnp.matmul(left, right, precision=JAX_PRECISIONS.get(precision)).astype(output_dtype)


def _aligned(matrices: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Pads the given axes with zeros to multiples of `ALIGNMENT` bytes."""
    least = ALIGNMENT // matrices.dtype.itemsize
    widths = [(0, -size % least if axis in axes else 0) for axis, size in enumerate(matrices.shape)]
    return jnp.pad(matrices, widths)


def matmul_in_parts(parts: Parts, kernel: jax.Array, precision: str) -> jax.Array:
    """Computes `[part; ...; part] @ kernel` without the concatenation (layers/parts.py).

    Arguments:
      parts: parts of <float32>[..., inputs of the part].
      kernel: <float32>[inputs, columns].
      precision: the precision, as for `matmul`.

    Returns:
      <float32>[..., columns].
    """
    return matmul_by_rows(parts, split(kernel, sizes(parts), axis=0), precision)


def matmul_by_rows(parts: Parts, rows: Sequence[jax.Array], precision: str) -> jax.Array:
    """Computes `matmul_in_parts` with the rows of the kernel for each part, <float32>[inputs of the part, columns]."""
    return _sum_of_products(parts, rows, precision)
