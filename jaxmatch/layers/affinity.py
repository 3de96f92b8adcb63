"""Co-stack residual affinity (CSRAN, section 2.4)."""

import functools
import itertools

import jax
import jax.numpy as jnp

from jaxmatch.layers.attention import attention_weights, of_other_sentence
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.parts import Parts


def co_stack_affinity(stack: Parts, precision: str) -> jax.Array:
    """Eq. 4: how well two tokens match at the two layers at which they match best.

    The equation has sums over p and q under a maximum; its text, and the released code, take the maximum over all
    pairs of layers.

    Arguments:
      stack: each layer's <float32>[batch, length, size].
      precision: of the matrix products.

    Returns:
      s_ij = max_{p, q} a_pi^T b_qj of all pairs of tokens of a row, <float32>[batch, length, length].
    """
    # Layers (q, p) give the transpose of what (p, q) give: half of the products will do.
    pairs = itertools.combinations_with_replacement(stack, 2)
    best = functools.reduce(jnp.maximum, (matmul(one, jnp.swapaxes(other, -1, -2), precision) for one, other in pairs))
    return jnp.maximum(best, jnp.swapaxes(best, -1, -2)) if len(stack) > 1 else best


def co_stack_weights(stack: Parts, sentences: jax.Array, precision: str) -> jax.Array:
    """The softmax of the affinity over the other sentence: how much each token attends to each.

    Arguments:
      stack: each layer's <float32>[batch, length, size].
      sentences: <int8>[batch, length], which sentence a token is of; 0 is padding.
      precision: of the matrix products.

    Returns:
      <float32>[batch, length, length].
    """
    return attention_weights(co_stack_affinity(stack, precision), of_other_sentence(sentences))


def bidirectional_alignment(stack: Parts, weights: jax.Array, precision: str) -> Parts:
    """Eq. 5: what each token finds in the other sentence, at every layer.

    Arguments:
      stack: each layer's <float32>[batch, length, size].
      weights: <float32>[batch, length, length], of `co_stack_weights`.
      precision: of the matrix products.

    Returns:
      parts as `stack` has them.
    """
    return tuple(matmul(weights, layer, precision) for layer in stack)
