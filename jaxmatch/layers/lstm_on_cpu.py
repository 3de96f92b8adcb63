"""The recurrence of an LSTM, written for the memory and the compiler of a CPU.

Both directions and both sentences of all rows run in one scan. Work that does not depend on the previous step is kept
out of it: the product with the inputs is computed once before the scan, and in the backward pass the gradient of the
recurrent kernel is one product after the scan rather than a sum over its steps.

The large arrays, [row, step, 4 * features] for each direction, are updated in place, without a copy or another layout.
They first hold the input projections, then the gates. The backward pass writes the gradients of the gate
pre-activations to separate arrays: if it overwrote the gates, XLA would copy the whole arrays in each step.
"""

import functools

import jax
import jax.numpy as jnp

from jaxmatch.layers.lstm_cell import GATES, gradient_of_sums
from jaxmatch.layers.matmul import matmul, matmul_in_parts, over_features
from jaxmatch.layers.parts import Parts, split

Directions = tuple[jax.Array, ...]  # one array per direction; the first reads from the start, the second from the end


def _activated(gates: jax.Array) -> jax.Array:
    """Computes the gates from their pre-activations, [..., 4 * features] both."""
    features = gates.shape[-1] // GATES
    # One tanh serves all four gates, in one pass over memory: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2.
    scale = over_features(jnp.where(jnp.arange(GATES * features) // features == 2, 1.0, 0.5), gates)
    return jnp.tanh(gates * scale) * scale + (1 - scale)


def _at(values: jax.Array, place: jax.Array, first: int = 0, size: int | None = None) -> jax.Array:
    """Reads the given columns at one place of all rows: [row, step, columns] -> [row, size]."""
    rows, _, columns = values.shape
    return jax.lax.dynamic_slice(values, (0, place, first), (rows, 1, columns if size is None else size))[:, 0]


def _put(values: jax.Array, new: jax.Array, place: jax.Array, first: int = 0) -> jax.Array:
    """Writes one place of all rows. Inside a scan, this copies none of the other places."""
    return jax.lax.dynamic_update_slice(values, new[:, None], (0, place, first))


def _places(step: jax.Array, length: int, directions: int) -> tuple[jax.Array, ...]:
    """Returns the place that each direction reads in a step."""
    return (step, length - 1 - step)[:directions]


def _scan(added: Directions, kernel, bias, is_token, begins, precision, keep: bool):
    """Runs the scan of `recurrence`, whose arguments it takes.

    Returns:
      the hidden states, <float32>[row, step, directions * features]; and, with `keep` for the backward pass, the gates
      in the buffers of `added` and the cells before each step, <float32>[step, row, features] for each direction.
    """
    rows, length, _ = added[0].shape
    directions, features, _ = kernel.shape
    kernels, biases = list(kernel), list(bias[:, None])  # split outside the scan, not in each step

    def one_step(carry, step):
        states, buffers, hidden_states = carry
        after, written, met = [], [], []
        for direction, place in enumerate(_places(step, length, directions)):
            starts, token = _at(begins[direction], place), _at(is_token, place)
            hidden, cell = (jnp.where(starts, 0.0, part) for part in states[direction])
            sums = _at(buffers[direction], place) + matmul(hidden, kernels[direction], precision) + biases[direction]
            gates = _activated(sums)
            let_in, forget, candidate, let_out = jnp.split(gates, GATES, axis=-1)
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
    (_, gates, hidden_states), cells = jax.lax.scan(one_step, start, jax.lax.iota(jnp.int32, length))
    return hidden_states, gates, cells


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def recurrence(
    added: Directions, kernel: jax.Array, bias: jax.Array, is_token: jax.Array, begins: Directions, precision: str
) -> jax.Array:
    """Computes the recurrent part of an LSTM.

    Padding keeps the state. At the first token of a sentence, the state is zero.

    Arguments:
      added: the input projections, which are added to the gate pre-activations, <float32>[row, step, 4 * features] for
        each direction.
      kernel: <float32>[direction, features, 4 * features].
      bias: <float32>[direction, 4 * features].
      is_token: <bool>[row, step, 1].
      begins: <bool>[row, step, 1] for each direction, True at the first token of a sentence in its reading order.
      precision: the precision of the matrix products.

    Returns:
      the hidden states, <float32>[row, step, directions * features]; at padding, the state of the token read before.
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
        """Computes the gradients of the previous state and of the gate pre-activations from those of the next state."""
        gradients, of_added = carry
        step, met = step_and_cells
        before, written = [], []
        for direction, place in enumerate(_places(step, length, directions)):
            starts, token, cell = _at(begins[direction], place), _at(is_token, place), met[direction]
            # Each gate is read separately. If one read of all four were split, XLA's CPU compiler would not vectorize
            # the code that uses them.
            let_in, forget, candidate, let_out = (
                _at(gates[direction], place, gate * features, features) for gate in range(GATES)
            )
            squashed = jnp.tanh(forget * cell + let_in * candidate)
            of_hidden, of_cell = gradients[direction]
            of_hidden = of_hidden + _at(state_gradients, place, direction * features, features)
            of_output = jnp.where(token, of_hidden, 0.0)
            of_sum = jnp.where(token, of_cell, 0.0) + of_output * let_out * (1 - squashed * squashed)
            of_sums = gradient_of_sums(of_sum, of_output, (let_in, forget, candidate, let_out), cell, squashed)
            written.append(_put(of_added[direction], of_sums, place))
            new = matmul(of_sums, transposed[direction], precision), of_sum * forget
            new = (jnp.where(token, part, old) for part, old in zip(new, (of_hidden, of_cell), strict=True))
            before.append(tuple(jnp.where(starts, 0.0, part) for part in new))
        return (before, written), None

    zeros = jnp.zeros((rows, features), hidden_states.dtype)
    start = [(zeros, zeros)] * directions, [jnp.zeros_like(one) for one in gates]
    (_, of_added), _ = jax.lax.scan(one_step, start, (jax.lax.iota(jnp.int32, length), cells), reverse=True)
    met = _met(hidden_states, begins, features)
    of_kernel = [
        matmul(_flat(hidden).T, _flat(of_sums), precision) for hidden, of_sums in zip(met, of_added, strict=True)
    ]
    of_bias = [of_sums.sum(axis=(0, 1)) for of_sums in of_added]
    return tuple(of_added), jnp.stack(of_kernel), jnp.stack(of_bias), None, None


def _met(hidden_states: jax.Array, begins: Directions, features: int) -> list[jax.Array]:
    """Returns the hidden states before each step: <float32>[row, step, features] for each direction."""
    met = []
    for direction, starts in enumerate(begins):
        own = split(hidden_states, [features] * len(begins))[direction]
        # Shifted by one place in the reading order, with zeros at the start.
        one_on = (1, -1, 0) if direction == 0 else (-1, 1, 0)
        met.append(jnp.where(starts, 0.0, jax.lax.pad(own, jnp.zeros((), own.dtype), ((0, 0, 0), one_on, (0, 0, 0)))))
    return met


def _flat(values: jax.Array) -> jax.Array:
    """Merges rows and steps: [row, step, size] -> [row * step, size]."""
    return values.reshape(-1, values.shape[-1])


recurrence.defvjp(_forward, _backward)


def hidden_states(
    sequences: tuple[Parts, ...],
    input_kernel: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    is_token: jax.Array,
    begins: Directions,
    precision: str,
) -> jax.Array:
    """Computes the hidden states of an LSTM.

    Arguments:
      sequences: for each direction, the last direction first, the same parts of <float32>[row, step, inputs]
        (layers/parts.py).
      input_kernel: <float32>[inputs, direction, 4, features].
      kernel: <float32>[direction, features, 4, features].
      bias: <float32>[direction, 4, features].
      is_token, begins, precision: the same as for `recurrence`.

    Returns:
      the hidden states, as `recurrence` returns them.
    """
    inputs, directions, *_ = input_kernel.shape
    input_kernels = [one.reshape(inputs, -1) for one in split(input_kernel, [1] * directions, axis=1)]
    added = tuple(
        matmul_in_parts(sequence, input_kernel, precision).astype(jnp.float32)
        for sequence, input_kernel in zip(reversed(sequences), input_kernels, strict=True)
    )
    kernel, bias = kernel.reshape(directions, kernel.shape[1], -1), bias.reshape(directions, -1)
    return recurrence(added, kernel, bias, is_token, begins, precision)
