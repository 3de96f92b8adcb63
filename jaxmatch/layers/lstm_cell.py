"""The equations of an LSTM's cell that every form of its recurrence shares."""

import jax
import jax.numpy as jnp

GATES = 4  # in the order input, forget, candidate, output


def gradient_of_sums(
    of_sum: jax.Array, of_output: jax.Array, gates: tuple[jax.Array, ...], cell: jax.Array, squashed: jax.Array
) -> jax.Array:
    """The gradient of the sums that go into the gates.

    Arguments:
      of_sum: gradient of the new cell, forget * cell + input * candidate, <float32>[..., features].
      of_output: gradient of the new hidden state, output * squashed, <float32>[..., features].
      gates: input, forget, candidate and output, <float32>[..., features] each.
      cell: that the step met, <float32>[..., features].
      squashed: tanh of the new cell, <float32>[..., features].

    Returns:
      <float32>[..., 4 * features], gate by gate.
    """
    let_in, forget, candidate, let_out = gates
    return jnp.concatenate(
        [
            of_sum * candidate * let_in * (1 - let_in),
            of_sum * cell * forget * (1 - forget),
            of_sum * let_in * (1 - candidate * candidate),
            of_output * squashed * let_out * (1 - let_out),
        ],
        axis=-1,
    )
