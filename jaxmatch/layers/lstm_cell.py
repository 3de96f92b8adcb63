"""The equations of the LSTM cell that all forms of the recurrence share."""

import jax
import jax.numpy as jnp

GATES = 4  # in the order input, forget, candidate, output


def gradient_of_sums(
    of_sum: jax.Array, of_output: jax.Array, gates: tuple[jax.Array, ...], cell: jax.Array, squashed: jax.Array
) -> jax.Array:
    """Computes the gradient of the gate pre-activations.

    Arguments:
      of_sum: the gradient of the new cell, forget * cell + input * candidate, <float32>[..., features].
      of_output: the gradient of the new hidden state, output * squashed, <float32>[..., features].
      gates: the input, forget, candidate and output gates, <float32>[..., features] each.
      cell: the cell before the step, <float32>[..., features].
      squashed: the tanh of the new cell, <float32>[..., features].

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
