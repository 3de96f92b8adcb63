"""The equations of the LSTM cell that all forms of the recurrence share."""

import jax
import jax.numpy as jnp

GATES = 4  # in the order input, forget, candidate, output


def gate_gradient(
    d_new_cell: jax.Array, d_new_hidden: jax.Array, gates: tuple[jax.Array, ...], cell: jax.Array, squashed: jax.Array
) -> jax.Array:
    """Computes the gradient of the gate pre-activations.

    Arguments:
      d_new_cell: the gradient of the new cell, forget * cell + input * candidate, <float32>[..., features].
      d_new_hidden: the gradient of the new hidden state, output * squashed, <float32>[..., features].
      gates: the input, forget, candidate and output gates, <float32>[..., features] each.
      cell: the cell before the step, <float32>[..., features].
      squashed: the tanh of the new cell, <float32>[..., features].

    Returns:
      <float32>[..., 4 * features], gate by gate.
    """
    input_gate, forget, candidate, output_gate = gates
    return jnp.concatenate(
        [
            d_new_cell * candidate * input_gate * (1 - input_gate),
            d_new_cell * cell * forget * (1 - forget),
            d_new_cell * input_gate * (1 - candidate * candidate),
            d_new_hidden * squashed * output_gate * (1 - output_gate),
        ],
        axis=-1,
    )
