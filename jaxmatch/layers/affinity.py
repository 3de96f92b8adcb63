"""Co-stack residual affinity (CSRAN, section 2.4)."""

import functools
import itertools

import jax
import jax.numpy as jnp

from jaxmatch.layers.attention import attention_weights, of_other_sentence
from jaxmatch.layers.matmul import matmul
from jaxmatch.layers.parts import Parts


def co_stack_affinity(stack: Parts, precision: str) -> jax.Array:
    """Computes Eq. 4: the affinity of two tokens at the pair of layers at which they match best.

    The printed equation has sums over p and q under the maximum. The paper's text and the released code take the
    maximum over all pairs of layers.

    Arguments:
      stack: the output of each layer, <float32>[batch, length, size].
      precision: the precision of the matrix products.

    Returns:
      s_ij = max_{p, q} a_pi^T b_qj for all pairs of tokens of a row, <float32>[batch, length, length].
    """
    # The product of layers (q, p) is the transpose of that of layers (p, q), so half of the products suffice.
    pairs = itertools.combinations_with_replacement(stack, 2)
    best = functools.reduce(jnp.maximum, (matmul(one, jnp.swapaxes(other, -1, -2), precision) for one, other in pairs))
    return jnp.maximum(best, jnp.swapaxes(best, -1, -2)) if len(stack) > 1 else best


def co_stack_weights(stack: Parts, sentences: jax.Array, precision: str) -> jax.Array:
    """Computes how much each token attends to each token of the other sentence: the softmax of the affinity.

    Arguments:
      stack: the output of each layer, <float32>[batch, length, size].
      sentences: <int8>[batch, length], the sentence of each token, 1 or 2; 0 is padding.
      precision: the precision of the matrix products.

    Returns:
      <float32>[batch, length, length].
    """
    return attention_weights(co_stack_affinity(stack, precision), of_other_sentence(sentences))


def bidirectional_alignment(stack: Parts, weights: jax.Array, precision: str) -> Parts:
    """Computes Eq. 5: the aligned representation of each token at every layer, a weighted sum over the other sentence.

    Arguments:
      stack: the output of each layer, <float32>[batch, length, size].
      weights: <float32>[batch, length, length], the result of `co_stack_weights`.
      precision: the precision of the matrix products.

    Returns:
      parts with the shapes of `stack`.
    """
    return tuple(matmul(weights, layer, precision) for layer in stack)
