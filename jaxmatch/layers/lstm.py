"""A (bidirectional) LSTM over the sentences of a row: the encoder of ESAN (section 2.1) and CSRAN (Eq. 1).

Both directions and both sentences of all rows run in one scan. What does not depend on the step before is kept out of it:
the product with the inputs is made once before the scan, and in the backward pass the gradient of the recurrent kernel is one
product after the scan rather than a sum over its steps.

The large arrays, [row, step, 4 * features] of a direction, are neither copied nor laid out anew: a step reads its place in them
and writes it. First they hold what the inputs add to the gates, then the gates. The backward pass writes the gradients of the
sums into the gates to arrays of their own: in the place of the gates, XLA would copy the whole arrays in each step.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.matmul import matmul, matmul_in_parts
from jaxmatch.layers.parts import Parts, sizes, split

_GATES = 4  # in the order input, forget, candidate, output
Directions = tuple[jax.Array, ...]  # an array for each: the first reads a row from its start, the second from its end


def _activated(gates: jax.Array) -> jax.Array:
    """The sums that go into the gates -> the gates, [..., 4 * features] both."""
    features = gates.shape[-1] // _GATES
    # One tanh serves all four, in one pass over memory: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2.
    scale = jnp.where(jnp.arange(_GATES * features) // features == 2, 1.0, 0.5).astype(gates.dtype)
    return jnp.tanh(gates * scale) * scale + (1 - scale)


def _at(values: jax.Array, place: jax.Array, first: int = 0, size: int | None = None) -> jax.Array:
    """The given columns of one place of all rows: [row, step, columns] -> [row, size]."""
    rows, _, columns = values.shape
    return jax.lax.dynamic_slice(values, (0, place, first), (rows, 1, columns if size is None else size))[:, 0]


def _put(values: jax.Array, new: jax.Array, place: jax.Array, first: int = 0) -> jax.Array:
    """Writes one place of all rows; inside a scan that copies none of the others."""
    return jax.lax.dynamic_update_slice(values, new[:, None], (0, place, first))


def _places(step: jax.Array, length: int, directions: int) -> tuple[jax.Array, ...]:
    """Where each direction reads in a step."""
    return (step, length - 1 - step)[:directions]


def _scan(added: Directions, kernel, bias, is_token, begins, precision, keep: bool):
    """As `recurrence`.

    Returns:
      hidden states, <float32>[row, step, directions * features]; and, for the backward pass, the gates in the place of `added`
      and the cells that each step met, <float32>[step, row, features] of each direction.
    """
    rows, length, _ = added[0].shape
    directions, features, _ = kernel.shape
    kernels, biases = list(kernel), list(bias)  # cut outside the scan, not in each step

    def one_step(carry, step):
        states, buffers, hidden_states = carry
        after, written, met = [], [], []
        for direction, place in enumerate(_places(step, length, directions)):
            starts, token = _at(begins[direction], place), _at(is_token, place)
            hidden, cell = (jnp.where(starts, 0.0, part) for part in states[direction])
            sums = _at(buffers[direction], place) + matmul(hidden, kernels[direction], precision) + biases[direction]
            gates = _activated(sums)
            let_in, forget, candidate, let_out = jnp.split(gates, _GATES, axis=-1)
            new_cell = forget * cell + let_in * candidate
            new_hidden = jnp.where(token, let_out * jnp.tanh(new_cell), hidden)
            hidden_states = _put(hidden_states, new_hidden, place, direction * features)
            after.append((new_hidden, jnp.where(token, new_cell, cell)))
            if keep:
                written.append(_put(buffers[direction], gates, place))
                met.append(cell)
        return (after, written if keep else buffers, hidden_states), met

    zeros = jnp.zeros((rows, features), added[0].dtype)
    start = [(zeros, zeros)] * directions, list(added), jnp.zeros((rows, length, directions * features), added[0].dtype)
    (_, gates, hidden_states), cells = jax.lax.scan(one_step, start, jnp.arange(length))
    return hidden_states, gates, cells


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def recurrence(
    added: Directions, kernel: jax.Array, bias: jax.Array, is_token: jax.Array, begins: Directions, precision: str
) -> jax.Array:
    """The recurrent part of an LSTM. Padding leaves a state as it is; the first token of a sentence finds zeros.

    Arguments:
      added: what the inputs add to the gates, <float32>[row, step, 4 * features] of each direction.
      kernel: <float32>[direction, features, 4 * features].
      bias: <float32>[direction, 4 * features].
      is_token: <bool>[row, step, 1].
      begins: <bool>[row, step, 1] of each direction, the first token of a sentence as the direction reads it.
      precision: of the matrix products.

    Returns:
      the hidden states, <float32>[row, step, directions * features]; where there is no token, those of the token before.
    """
    return _scan(added, kernel, bias, is_token, begins, precision, keep=False)[0]


def _forward(added, kernel, bias, is_token, begins, precision):
    hidden_states, gates, cells = _scan(added, kernel, bias, is_token, begins, precision, keep=True)
    return hidden_states, (kernel, is_token, begins, hidden_states, gates, cells)


def _backward(precision, residuals, state_gradients):
    kernel, is_token, begins, hidden_states, gates, cells = residuals
    directions, features, _ = kernel.shape
    rows, length, _ = hidden_states.shape
    transposed = list(jnp.swapaxes(kernel, -1, -2))

    def one_step(carry, step_and_cells):
        """From the gradients of the states after a step to those of the states before it, and of the sums into its gates."""
        gradients, of_added = carry
        step, met = step_and_cells
        before, written = [], []
        for direction, place in enumerate(_places(step, length, directions)):
            starts, token, cell = _at(begins[direction], place), _at(is_token, place), met[direction]
            # Each read for itself: cut from one read of all four, XLA's CPU compiler does not vectorise what reads them.
            let_in, forget, candidate, let_out = (
                _at(gates[direction], place, gate * features, features) for gate in range(_GATES)
            )
            squashed = jnp.tanh(forget * cell + let_in * candidate)
            of_hidden, of_cell = gradients[direction]
            of_hidden = of_hidden + _at(state_gradients, place, direction * features, features)
            of_output = jnp.where(token, of_hidden, 0.0)
            of_sum = jnp.where(token, of_cell, 0.0) + of_output * let_out * (1 - squashed * squashed)
            of_sums = jnp.concatenate(
                [
                    of_sum * candidate * let_in * (1 - let_in),
                    of_sum * cell * forget * (1 - forget),
                    of_sum * let_in * (1 - candidate * candidate),
                    of_output * squashed * let_out * (1 - let_out),
                ],
                axis=-1,
            )
            written.append(_put(of_added[direction], of_sums, place))
            new = matmul(of_sums, transposed[direction], precision), of_sum * forget
            new = (jnp.where(token, part, old) for part, old in zip(new, (of_hidden, of_cell), strict=True))
            before.append(tuple(jnp.where(starts, 0.0, part) for part in new))
        return (before, written), None

    zeros = jnp.zeros((rows, features), hidden_states.dtype)
    start = [(zeros, zeros)] * directions, [jnp.zeros_like(one) for one in gates]
    (_, of_added), _ = jax.lax.scan(one_step, start, (jnp.arange(length), cells), reverse=True)
    met = _met(hidden_states, begins, features)
    of_kernel = [
        matmul(_flat(hidden).T, _flat(of_sums), precision) for hidden, of_sums in zip(met, of_added, strict=True)
    ]
    of_bias = [of_sums.sum(axis=(0, 1)) for of_sums in of_added]
    return tuple(of_added), jnp.stack(of_kernel), jnp.stack(of_bias), None, None


def _met(hidden_states: jax.Array, begins: Directions, features: int) -> list[jax.Array]:
    """The hidden states that each step met: <float32>[row, step, features] of each direction."""
    met = []
    for direction, starts in enumerate(begins):
        own = split(hidden_states, [features] * len(begins))[direction]
        # One place on in the order of reading, with zeros at the start.
        one_on = (1, -1, 0) if direction == 0 else (-1, 1, 0)
        met.append(jnp.where(starts, 0.0, jax.lax.pad(own, jnp.zeros((), own.dtype), ((0, 0, 0), one_on, (0, 0, 0)))))
    return met


def _flat(values: jax.Array) -> jax.Array:
    """[row, step, size] -> [row * step, size]."""
    return values.reshape(-1, values.shape[-1])


recurrence.defvjp(_forward, _backward)


def _begins(sentences: jax.Array) -> Directions:
    """Where either direction comes to the sentence that it reads second: <int8>[row, step] -> <bool>[row, step, 1] twice.

    The sentence that it reads first needs no mark: it finds the zeros of the start.
    """
    of_first, of_second = sentences == 1, sentences == 2
    place = jnp.arange(sentences.shape[1])
    start_of_second = of_second & (place == jnp.argmax(of_second, axis=1)[:, None])
    end_of_first = of_first & (place[::-1] == jnp.argmax(of_first[:, ::-1], axis=1)[:, None])
    return start_of_second[..., None], end_of_first[..., None]


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

    def _weights(self, inputs: int) -> tuple[list[jax.Array], jax.Array, jax.Array]:
        """The kernels of inputs, one a direction, those of states, and the bias; the gates of a direction side by side."""
        directions, features = 1 + self.bidirectional, self.features
        glorot = functools.partial(nn.initializers.variance_scaling, 1.0, "fan_avg", "uniform", out_axis=-1)
        of_inputs = glorot(in_axis=0, batch_axis=(1, 2))
        of_states = glorot(in_axis=1, batch_axis=(0, 2))

        def start_of_bias(key, shape, dtype):
            return jnp.zeros(shape, dtype).at[:, 1].set(self.forget_bias)

        input_kernel = self.param("input_kernel", of_inputs, (inputs, directions, _GATES, features), jnp.float32)
        kernel = self.param("recurrent_kernel", of_states, (directions, features, _GATES, features), jnp.float32)
        bias = self.param("bias", start_of_bias, (directions, _GATES, features), jnp.float32)
        input_kernels = [one.reshape(inputs, -1) for one in split(input_kernel, [1] * directions, axis=1)]
        return input_kernels, kernel.reshape(directions, features, -1), bias.reshape(directions, -1)

    @nn.compact
    def __call__(self, sequence: Parts, sentences: jax.Array) -> jax.Array:
        """Encodes the sentences of a row.

        Arguments:
          sequence: parts of <float32>[batch, length, inputs] (layers/parts.py).
          sentences: <int8>[batch, length], which sentence a token is of, the first before the second; 0 is padding.

        Returns:
          <float32>[batch, length, directions * features], zeros at padding.
        """
        input_kernels, kernel, bias = self._weights(sum(sizes(sequence)))
        is_token = sentences[..., None] > 0
        # States are float32 whatever the rest is in: rounding would add up over the steps.
        added = (matmul_in_parts(sequence, input_kernel, self.precision) for input_kernel in input_kernels)
        added = tuple(one.astype(jnp.float32) for one in added)
        states = recurrence(added, kernel, bias, is_token, _begins(sentences)[: len(added)], self.precision)
        return jnp.where(is_token, states, 0.0).astype(sequence[0].dtype)
