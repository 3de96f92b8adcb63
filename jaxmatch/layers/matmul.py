"""The one matrix product all layers use, in the precision a config asks for."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxmatch.layers.parts import Parts, sizes, split

PRECISIONS = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


def matmul(left: jax.Array, right: jax.Array, precision: str, exact: bool = False) -> jax.Array:
    """Multiplies matrices in `precision`; what goes in and comes out is float32.

    Arguments:
      left: <float32>[..., rows, inner].
      right: <float32>[..., inner, columns].
      precision: a key of `PRECISIONS`.
      exact: float32 to its last bits. Without, an accelerator rounds factors on the way in, as JAX does by default.

    Returns:
      <float32>[..., rows, columns].
    """
    dtype = PRECISIONS[precision]
    *rows, inner = left.shape
    if right.ndim == 2 and len(rows) > 1:
        # As one product of two matrices, whose gradients need no copies in another layout on a CPU.
        return matmul(left.reshape(-1, inner), right, precision, exact).reshape(*rows, right.shape[-1])
    # The result is rounded to `dtype` before it becomes float32, so that the gradient's two products run in it as well.
    how = jax.lax.Precision.HIGHEST if exact else None
    return jnp.matmul(left.astype(dtype), right.astype(dtype), precision=how).astype(jnp.float32)


def matmul_in_parts(parts: Parts, kernel: jax.Array, precision: str, exact: bool = False) -> jax.Array:
    """`[part; ...; part] @ kernel` without the concatenation (layers/parts.py).

    Arguments:
      parts: of <float32>[..., inputs of the part].
      kernel: <float32>[inputs, columns].
      precision, exact: as of `matmul`.

    Returns:
      <float32>[..., columns].
    """
    return matmul_by_rows(parts, split(kernel, sizes(parts), axis=0), precision, exact)


def matmul_by_rows(parts: Parts, rows: Sequence[jax.Array], precision: str, exact: bool = False) -> jax.Array:
    """As `matmul_in_parts`, of a kernel that is given as each part's rows: <float32>[inputs of the part, columns]."""
    return sum(matmul(part, own_rows, precision, exact) for part, own_rows in zip(parts, rows, strict=True))
