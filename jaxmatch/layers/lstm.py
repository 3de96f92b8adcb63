"""A (bidirectional) LSTM over the sentences of a row: the encoder of ESAN (section 2.1) and CSRAN (Eq. 1).

Both directions and both sentences of all rows run in one scan. What does not depend on the step before is kept out of it:
the product with the inputs is made once before the scan, and in the backward pass the gradient of the recurrent kernel is one
product after the scan rather than a sum over its steps.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.matmul import PRECISIONS, matmul, matmul_in_parts
from jaxmatch.layers.parts import Parts, sizes

_GATES = 4  # in the order input, forget, candidate, output


def _activated(gates: jax.Array) -> jax.Array:
    """The sums that go into the gates -> the gates, [..., 4 * features] both."""
    features = gates.shape[-1] // _GATES
    # One tanh serves all four, in one pass over memory: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2.
    scale = jnp.where(jnp.arange(_GATES * features) // features == 2, 1.0, 0.5).astype(gates.dtype)
    return jnp.tanh(gates * scale) * scale + (1 - scale)


def _step(kernel, precision, state, now):
    """One token of every row in every direction.

    Arguments:
      state: hidden and cell, <float32>[direction, row, features] each.
      now: what the inputs add to the gates, <float32>[direction, row, 4 * features]; whether there is a token and whether it
        begins a sentence, <bool>[direction, row, 1] each.

    Returns:
      the state after, the output, and what the backward pass needs: the gates and the state that they met.
    """
    added, is_token, begins = now
    hidden, cell = (jnp.where(begins, 0.0, part) for part in state)
    gates = _activated(added + matmul(hidden, kernel, precision))
    let_in, keep, candidate, let_out = jnp.split(gates, _GATES, axis=-1)
    new_cell = keep * cell + let_in * candidate
    new_hidden = let_out * jnp.tanh(new_cell)
    after = jnp.where(is_token, new_hidden, hidden), jnp.where(is_token, new_cell, cell)
    return after, jnp.where(is_token, new_hidden, 0.0), (gates, hidden, cell)


def _start(added: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The state before the first token: zeros, [direction, row, features] twice."""
    zeros = jnp.zeros((*added.shape[1:-1], added.shape[-1] // _GATES), added.dtype)
    return zeros, zeros


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def recurrence(added: jax.Array, kernel: jax.Array, is_token: jax.Array, begins: jax.Array, precision: str) -> jax.Array:
    """The recurrent part of an LSTM. Padding leaves a state as it is; the first token of a sentence finds zeros.

    Arguments:
      added: what the inputs add to the gates, <float32>[step, direction, row, 4 * features].
      kernel: <float32>[direction, features, 4 * features].
      is_token: <bool>[step, direction, row, 1].
      begins: <bool>[step, direction, row, 1], the first token of a sentence in the direction.
      precision: of the matrix products.

    Returns:
      the hidden states, <float32>[step, direction, row, features]; zeros where there is no token.
    """
    step = functools.partial(_step, kernel, precision)
    return jax.lax.scan(lambda state, now: step(state, now)[:2], _start(added), (added, is_token, begins))[1]


def _forward(added, kernel, is_token, begins, precision):
    def step(state, now):
        after, output, kept = _step(kernel, precision, state, now)
        return after, (output, kept)

    _, (outputs, kept) = jax.lax.scan(step, _start(added), (added, is_token, begins))
    return outputs, (kernel, is_token, begins, kept)


def _backward(precision, residuals, output_gradients):
    kernel, is_token, begins, (gates, hidden, cell) = residuals
    transposed = jnp.swapaxes(kernel, -1, -2)

    def step(gradients, then):
        """From the gradients of the state after a step to those of the state before it, and of the sums into its gates."""
        output_gradient, is_token, begins, gates, cell = then
        let_in, keep, candidate, let_out = jnp.split(gates, _GATES, axis=-1)
        squashed = jnp.tanh(keep * cell + let_in * candidate)
        of_hidden, of_cell = gradients
        of_output = jnp.where(is_token, of_hidden + output_gradient, 0.0)
        of_sum = jnp.where(is_token, of_cell, 0.0) + of_output * let_out * (1 - squashed * squashed)
        of_gates = jnp.concatenate(
            [
                of_sum * candidate * let_in * (1 - let_in),
                of_sum * cell * keep * (1 - keep),
                of_sum * let_in * (1 - candidate * candidate),
                of_output * squashed * let_out * (1 - let_out),
            ],
            axis=-1,
        )
        before = matmul(of_gates, transposed, precision), of_sum * keep
        before = (jnp.where(begins, 0.0, part) for part in before)
        return tuple(jnp.where(is_token, new, old) for new, old in zip(before, gradients, strict=True)), of_gates

    zeros = jnp.zeros_like(hidden[0]), jnp.zeros_like(cell[0])
    _, of_added = jax.lax.scan(step, zeros, (output_gradients, is_token, begins, gates, cell), reverse=True)
    dtype = PRECISIONS[precision]
    of_kernel = jnp.einsum("sdri,sdro->dio", hidden.astype(dtype), of_added.astype(dtype)).astype(kernel.dtype)
    return of_added, of_kernel, None, None


recurrence.defvjp(_forward, _backward)


def _both_ways(values: jax.Array, bidirectional: bool) -> jax.Array:
    """[step, direction, ...] of which the second direction is read from the end."""
    return jnp.concatenate([values[:, :1], values[::-1, 1:]], axis=1) if bidirectional else values


def _begins(sentences: jax.Array, second: int) -> jax.Array:
    """Where a row, read from its start, comes to its second sentence: <int8>[step, row] -> <bool>[step, row].

    The first sentence needs no mark: it finds the zeros of the start.
    """
    of_second = sentences == second
    return of_second & (jnp.arange(sentences.shape[0])[:, None] == jnp.argmax(of_second, axis=0))


class Lstm(nn.Module):
    """Hidden states of each sentence for itself.

    Glorot-initialised, gate by gate (CSRAN, section 3.2), with one bias a gate.

    Arguments:
      features: of a direction.
      bidirectional: whether the sentences are also read from their ends.
      forget_bias: what the bias of the forget gate starts at; the papers do not say, and cuDNN, which CSRAN uses, has 0.
      precision: of the matrix products.
    """

    features: int
    bidirectional: bool = True
    forget_bias: float = 0.0
    precision: str = "float32"

    def _weights(self, inputs: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The kernels of inputs and of states, and the bias; the gates of a direction side by side."""
        directions, features = 1 + self.bidirectional, self.features
        glorot = functools.partial(nn.initializers.variance_scaling, 1.0, "fan_avg", "uniform", out_axis=-1)
        of_inputs = glorot(in_axis=0, batch_axis=(1, 2))
        of_states = glorot(in_axis=1, batch_axis=(0, 2))

        def start_of_bias(key, shape, dtype):
            return jnp.zeros(shape, dtype).at[:, 1].set(self.forget_bias)

        input_kernel = self.param("input_kernel", of_inputs, (inputs, directions, _GATES, features), jnp.float32)
        kernel = self.param("recurrent_kernel", of_states, (directions, features, _GATES, features), jnp.float32)
        bias = self.param("bias", start_of_bias, (directions, _GATES, features), jnp.float32)
        return input_kernel.reshape(inputs, -1), kernel.reshape(directions, features, -1), bias.reshape(-1)

    @nn.compact
    def __call__(self, sequence: Parts, sentences: jax.Array) -> jax.Array:
        """Encodes the sentences of a row.

        Arguments:
          sequence: parts of <float32>[batch, length, inputs] (layers/parts.py).
          sentences: <int8>[batch, length], which sentence a token is of, the first before the second; 0 is padding.

        Returns:
          <float32>[batch, length, directions * features], zeros at padding.
        """
        input_kernel, kernel, bias = self._weights(sum(sizes(sequence)))
        batch, length = sentences.shape
        added = matmul_in_parts(sequence, input_kernel, self.precision) + bias
        added = added.reshape(batch, length, 1 + self.bidirectional, -1).transpose(1, 2, 0, 3)
        by_step = sentences.T
        tokens, begins = [by_step > 0], [_begins(by_step, 2)]
        if self.bidirectional:  # which comes to the first sentence second
            tokens, begins = [tokens[0], tokens[0][::-1]], [begins[0], _begins(by_step[::-1], 1)]
        states = recurrence(
            _both_ways(added, self.bidirectional),
            kernel,
            jnp.stack(tokens, axis=1)[..., None],
            jnp.stack(begins, axis=1)[..., None],
            self.precision,
        )
        states = _both_ways(states, self.bidirectional)
        return states.transpose(2, 0, 1, 3).reshape(batch, length, -1)
