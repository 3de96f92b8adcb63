"""What depends on a word alone, computed once for each distinct word of a batch.

Of the tokens of 64 pairs of SNLI a third to a quarter are distinct words, of those of 512 pairs a sixth to an eighth.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

_MOST_WORDS: contextvars.ContextVar[int | None] = contextvars.ContextVar("most_words", default=None)


@contextlib.contextmanager
def at_most_words(most: int | None) -> Iterator[None]:
    """Traces models for batches with at most so many distinct words, padding included; None: for any batch, whose
    tokens are each computed by themselves.
    """
    before = _MOST_WORDS.set(most)
    try:
        yield
    finally:
        _MOST_WORDS.reset(before)


def once_a_word(encode: Callable[[jax.Array], jax.Array], ids: jax.Array, given: jax.Array, words: int) -> jax.Array:
    """`encode(given)`, where `given` is the same for all tokens that are the same word.

    Arguments:
      encode: [batch, length, ...] -> <float32 or bfloat16>[batch, length, features], each token by itself.
      ids: <int32>[batch, length].
      given: [batch, length, ...], of each token.
      words: in the vocabulary.

    Returns:
      <float32>[batch, length, features].
    """
    most = _MOST_WORDS.get()
    if most is None or most >= ids.size:
        return encode(given).astype(jnp.float32)
    first, place = distinct(ids.reshape(-1), most, words)
    encoded = encode(given.reshape(-1, *given.shape[2:])[first][None])[0]
    # In float32, as the gradient sums over all tokens of a word.
    return encoded.astype(jnp.float32)[place].reshape(*ids.shape, -1)


def distinct(ids: jax.Array, most: int, words: int) -> tuple[jax.Array, jax.Array]:
    """The distinct numbers among `ids` <int32>[tokens], each below `words`; there must be no more than `most`.

    Returns:
      Where each of them comes first, <int32>[most], 0 where there are fewer; and which of these each token is,
      <int32>[tokens].
    """
    tokens = jax.lax.iota(jnp.int32, len(ids))
    first_of = jnp.full(words, len(ids), jnp.int32).at[ids].min(tokens)[ids]
    is_first = first_of == tokens
    number = jnp.cumsum(is_first, dtype=jnp.int32) - 1
    first = jnp.zeros(most, jnp.int32).at[jnp.where(is_first, number, most)].set(tokens, mode="drop")
    return first, number[first_of]
