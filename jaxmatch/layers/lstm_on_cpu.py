"""The recurrence of an LSTM, written for the memory and the compiler of a CPU.

Both directions and both sentences of all rows run in one scan. Work that does not depend on the previous step is kept
out of it: the product with the inputs is computed once before the scan, and in the backward pass the gradient of the
recurrent kernel is one product after the scan rather than a sum over its steps.

The large arrays, [row, step, 4 * features] for each direction, are overwritten, without a copy or another layout.
They first hold the input projections, then the gates. The backward pass writes the gradients of the gate
pre-activations to separate arrays: if it overwrote the gates, XLA would copy the whole arrays in each step.
"""

import functools

import jax
import jax.numpy as jnp

from jaxmatch.layers.core import Features, matmul, matmul_features, split

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


Directions = tuple[jax.Array, ...]  # one array per direction; the first reads from the start, the second from the end


def _activated(gates: jax.Array) -> jax.Array:
    """Computes the gates from their pre-activations, [..., 4 * features] both."""
    features = gates.shape[-1] // GATES
    # One tanh serves all four gates, in one pass over memory: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2.
    scale = jnp.where(jnp.arange(GATES * features) // features == 2, 1.0, 0.5).astype(gates.dtype)
    return jnp.tanh(gates * scale) * scale + (1 - scale)


def _at(values: jax.Array, position: jax.Array, first: int = 0, size: int | None = None) -> jax.Array:
    """Reads the given columns at one position of all rows: [row, step, columns] -> [row, size]."""
    rows, _, columns = values.shape
    return jax.lax.dynamic_slice(values, (0, position, first), (rows, 1, columns if size is None else size))[:, 0]


def _put(values: jax.Array, new: jax.Array, position: jax.Array, first: int = 0) -> jax.Array:
    """Writes one position of all rows. Inside a scan, the other positions are not copied."""
    return jax.lax.dynamic_update_slice(values, new[:, None], (0, position, first))


def _positions(step: jax.Array, length: int, directions: int) -> tuple[jax.Array, ...]:
    """Returns the position that each direction reads in a step."""
    return (step, length - 1 - step)[:directions]


def _scan(added: Directions, kernel, bias, is_token, is_start, precision, keep: bool):
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
        after, written, previous_cells = [], [], []
        for direction, position in enumerate(_positions(step, length, directions)):
            starts, token = _at(is_start[direction], position), _at(is_token, position)
            hidden, cell = (jnp.where(starts, 0.0, part) for part in states[direction])
            sums = _at(buffers[direction], position) + matmul(hidden, kernels[direction], precision) + biases[direction]
            gates = _activated(sums)
            input_gate, forget, candidate, output_gate = jnp.split(gates, GATES, axis=-1)
            new_cell = forget * cell + input_gate * candidate
            new_hidden = jnp.where(token, output_gate * jnp.tanh(new_cell), hidden)
            hidden_states = _put(hidden_states, new_hidden, position, direction * features)
            after.append((new_hidden, jnp.where(token, new_cell, cell)))
            if keep:
                written.append(_put(buffers[direction], gates, position))
                previous_cells.append(cell)
        return (after, written if keep else buffers, hidden_states), previous_cells

    zeros = jnp.zeros((rows, features), added[0].dtype)
    start = [(zeros, zeros)] * directions, list(added), jnp.zeros((rows, length, directions * features), added[0].dtype)
    (_, gates, hidden_states), cells = jax.lax.scan(one_step, start, jax.lax.iota(jnp.int32, length))
    return hidden_states, gates, cells


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def recurrence(
    added: Directions, kernel: jax.Array, bias: jax.Array, is_token: jax.Array, is_start: Directions, precision: str
) -> jax.Array:
    """Computes the recurrent part of an LSTM.

    Padding keeps the state. At the first token of a sentence, the state is zero.

    Arguments:
      added: the input projections, which are added to the gate pre-activations, <float32>[row, step, 4 * features] for
        each direction.
      kernel: <float32>[direction, features, 4 * features].
      bias: <float32>[direction, 4 * features].
      is_token: <bool>[row, step, 1].
      is_start: <bool>[row, step, 1] for each direction, True at the first token of a sentence in its reading order.
      precision: the precision of the matrix products.

    Returns:
      the hidden states, <float32>[row, step, directions * features]; at padding, the state of the token read before.
    """
    return _scan(added, kernel, bias, is_token, is_start, precision, keep=False)[0]


def _forward(added, kernel, bias, is_token, is_start, precision):
    hidden_states, gates, cells = _scan(added, kernel, bias, is_token, is_start, precision, keep=True)
    return hidden_states, (kernel, is_token, is_start, hidden_states, gates, cells)


def _backward(precision, residuals, state_gradients):
    kernel, is_token, is_start, hidden_states, gates, cells = residuals
    directions, features, _ = kernel.shape
    rows, length, _ = hidden_states.shape
    transposed = list(jnp.swapaxes(kernel, -1, -2))

    def one_step(carry, step_and_cells):
        """Computes the gradients of the previous state and of the gate pre-activations from those of the next state."""
        gradients, d_added = carry
        step, previous_cells = step_and_cells
        before, written = [], []
        for direction, position in enumerate(_positions(step, length, directions)):
            starts, token, cell = _at(is_start[direction], position), _at(is_token, position), previous_cells[direction]
            # Each gate is read separately. If one read of all four were split, XLA's CPU compiler would not vectorize
            # the code that uses them.
            input_gate, forget, candidate, output_gate = (
                _at(gates[direction], position, gate * features, features) for gate in range(GATES)
            )
            squashed = jnp.tanh(forget * cell + input_gate * candidate)
            d_hidden, d_cell = gradients[direction]
            d_hidden = d_hidden + _at(state_gradients, position, direction * features, features)
            d_new_hidden = jnp.where(token, d_hidden, 0.0)
            d_new_cell = jnp.where(token, d_cell, 0.0) + d_new_hidden * output_gate * (1 - squashed * squashed)
            d_gates = gate_gradient(
                d_new_cell, d_new_hidden, (input_gate, forget, candidate, output_gate), cell, squashed
            )
            written.append(_put(d_added[direction], d_gates, position))
            new = matmul(d_gates, transposed[direction], precision), d_new_cell * forget
            new = (jnp.where(token, part, old) for part, old in zip(new, (d_hidden, d_cell), strict=True))
            before.append(tuple(jnp.where(starts, 0.0, part) for part in new))
        return (before, written), None

    zeros = jnp.zeros((rows, features), hidden_states.dtype)
    start = [(zeros, zeros)] * directions, [jnp.zeros_like(one) for one in gates]
    (_, d_added), _ = jax.lax.scan(one_step, start, (jax.lax.iota(jnp.int32, length), cells), reverse=True)
    previous_states = _previous_states(hidden_states, is_start, features)
    d_kernel = [
        matmul(_flat(hidden).T, _flat(d_gates), precision)
        for hidden, d_gates in zip(previous_states, d_added, strict=True)
    ]
    d_bias = [d_gates.sum(axis=(0, 1)) for d_gates in d_added]
    return tuple(d_added), jnp.stack(d_kernel), jnp.stack(d_bias), None, None


def _previous_states(hidden_states: jax.Array, is_start: Directions, features: int) -> list[jax.Array]:
    """Returns the hidden states before each step: <float32>[row, step, features] for each direction."""
    previous_states = []
    for direction, starts in enumerate(is_start):
        own = split(hidden_states, [features] * len(is_start))[direction]
        # Shifted by one position in the reading order, with zeros at the start.
        shift = (1, -1, 0) if direction == 0 else (-1, 1, 0)
        shifted = jax.lax.pad(own, jnp.zeros((), own.dtype), ((0, 0, 0), shift, (0, 0, 0)))
        previous_states.append(jnp.where(starts, 0.0, shifted))
    return previous_states


def _flat(values: jax.Array) -> jax.Array:
    """Merges rows and steps: [row, step, size] -> [row * step, size]."""
    return values.reshape(-1, values.shape[-1])


recurrence.defvjp(_forward, _backward)


def hidden_states(
    sequence: Features,
    input_kernel: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    is_token: jax.Array,
    is_start: Directions,
    precision: str,
) -> jax.Array:
    """Computes the hidden states of an LSTM.

    Arguments:
      sequence: <float32>[row, step, inputs] each.
      input_kernel: <float32>[inputs, direction, 4, features].
      kernel: <float32>[direction, features, 4, features].
      bias: <float32>[direction, 4, features].
      is_token, is_start, precision: the same as for `recurrence`.

    Returns:
      the hidden states, as `recurrence` returns them.
    """
    inputs, directions, *_ = input_kernel.shape
    input_kernels = [one.reshape(inputs, -1) for one in split(input_kernel, [1] * directions, axis=1)]
    added = tuple(
        matmul_features(sequence, input_kernel, precision).astype(jnp.float32) for input_kernel in input_kernels
    )
    kernel, bias = kernel.reshape(directions, kernel.shape[1], -1), bias.reshape(directions, -1)
    return recurrence(added, kernel, bias, is_token, is_start, precision)
