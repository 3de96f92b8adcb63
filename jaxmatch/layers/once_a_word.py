"""What depends on a word alone, computed once for each distinct word of a batch.

In a batch of 64 pairs of SNLI a token in three or four is a new word, in one of 512 a token in seven.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

_ROOM: contextvars.ContextVar[int | None] = contextvars.ContextVar("room", default=None)


@contextlib.contextmanager
def room_for_words(room: int | None) -> Iterator[None]:
    """Traces models for batches with at most so many distinct words, where padding counts as one; None: any number."""
    before = _ROOM.set(room)
    try:
        yield
    finally:
        _ROOM.reset(before)


def once_a_word(encode: Callable[[jax.Array], jax.Array], ids: jax.Array, given: jax.Array, words: int) -> jax.Array:
    """`encode(given)`, where `given` is the same for all tokens that are the same word.

    Arguments:
      encode: [batch, length, ...] -> <float32>[batch, length, features], each token by itself.
      ids: <int32>[batch, length].
      given: [batch, length, ...], of each token.
      words: in the vocabulary.

    Returns:
      <float32>[batch, length, features].
    """
    room = _ROOM.get()
    if room is None or room >= ids.size:
        return encode(given)
    first, place = distinct(ids.reshape(-1), room, words)
    encoded = encode(given.reshape(-1, *given.shape[2:])[first][None])[0]
    return encoded[place].reshape(*ids.shape, -1)


def distinct(ids: jax.Array, room: int, words: int) -> tuple[jax.Array, jax.Array]:
    """The distinct numbers among `ids` <int32>[tokens], each below `words`; at most `room` of them.

    Returns:
      Where each of them comes first, <int32>[room], 0 where there are fewer; and which of these each token is,
      <int32>[tokens].
    """
    tokens = jax.lax.iota(jnp.int32, len(ids))
    first_of = jnp.full(words, len(ids), jnp.int32).at[ids].min(tokens)[ids]
    is_first = first_of == tokens
    number = jnp.cumsum(is_first, dtype=jnp.int32) - 1
    first = jnp.zeros(room, jnp.int32).at[jnp.where(is_first, number, room)].set(tokens, mode="drop")
    return first, number[first_of]
