"""A (bidirectional) LSTM over the sentences of a row: the encoder of ESAN (section 2.1) and CSRAN (Eq. 1).

The recurrence has two forms: the one for accelerators takes a CPU up to twice the time (benchmarks/NOTES.md).

The form for accelerators, where each kernel launch in a step costs time, computes one matrix product for both
directions in a step, which `jax.vmap` extends to all runs. XLA compiles the rest of a step to two more kernels on a
GPU, or three in the backward pass: one or two that compute, and one that stores the outputs of the step. Optimization
barriers ensure this number: without them, each kernel that reads a value computes it again. One more kernel counts the
steps. Six values are saved for the backward pass (`kept`): the four gates, the previous cell and tanh(new cell). The
backward pass then only multiplies and adds. At padding, the saved input gate is 0, the saved forget and output gates
are 1, and the previous hidden state is saved instead of the tanh. So hidden state = output gate * saved tanh holds
everywhere. Scan arrays are step-major, in each direction's reading order: [step, direction, row, ...]; the input
projections (`added`) stay batch-major.

The form for a CPU overwrites its large arrays, [row, step, 4 * features] for each direction, without a copy or another
layout. They first hold the input projections, then the gates. The backward pass writes the gradients of the gates to
separate arrays: if it overwrote the gates, XLA would copy the whole arrays in each step. The gradient of the recurrent
kernel is one product after the scan rather than a sum over its steps.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.core import PRECISIONS, Features, matmul, matmul_features, sizes, split, target

GATES = 4  # in the order input, forget, candidate, output


def _gate_gradient(d_new_cell, d_new_hidden, gates, cell, squashed) -> jax.Array:
    """Computes the gradient of the gates before their activation, <float32>[..., 4 * features], from those of the new
    cell, forget * cell + input * candidate, and of the new hidden state, output * squashed.
    """
    input_gate, forget, candidate, output_gate = gates
    d_gates = (
        d_new_cell * candidate * input_gate * (1 - input_gate),
        d_new_cell * cell * forget * (1 - forget),
        d_new_cell * input_gate * (1 - candidate * candidate),
        d_new_hidden * squashed * output_gate * (1 - output_gate),
    )
    return jnp.concatenate(d_gates, axis=-1)


def _positions(step: jax.Array, length: int, directions: int) -> tuple[jax.Array, ...]:
    """Returns the position that each direction reads in a step."""
    return (step, length - 1 - step)[:directions]


# --- for accelerators ---

# The features are padded to a multiple of this. Otherwise XLA would pad the factors of a bfloat16 product for the
# matrix units of a GPU, and would do so in each step.
_MULTIPLE = 8


def _in_order(values: jax.Array) -> jax.Array:
    """Converts [row, step, direction, size] to [step, direction, row, size], in each direction's reading order."""
    return jnp.concatenate([values[:, :, :1], values[:, ::-1, 1:]], axis=2).transpose(1, 2, 0, 3)


def _in_place(values: jax.Array) -> jax.Array:
    """Inverts `_in_order`: [step, direction, row, size] -> [row, step, direction * size]."""
    values = values.transpose(2, 0, 1, 3)
    return jnp.concatenate(
        [values[:, :, 0], *(values[:, ::-1, direction] for direction in range(1, values.shape[2]))], axis=-1
    )


def _added_in(step: jax.Array, added: jax.Array, directions: int) -> jax.Array:
    """Returns the input projections of a step: <float32>[row, step, directions * size] -> [direction, row, size]."""
    rows, length, columns = added.shape
    size = columns // directions
    starts = [(0, at, direction * size) for direction, at in enumerate(_positions(step, length, directions))]
    return jnp.stack([jax.lax.dynamic_slice(added, start, (rows, 1, size))[:, 0] for start in starts])


def _scan(added, kernel, bias, is_token, starts, precision, keep: bool) -> jax.Array:
    """Runs the scan of `recurrence`.

    Returns:
      the hidden states, <float32>[step, direction, row, features]; or, with `keep`, the values saved for the backward
      pass, [step, direction, row, 6 * features] in the type of the products.
    """
    steps, directions, rows, _ = is_token.shape
    dtype = PRECISIONS[precision]
    kernel = kernel.astype(dtype)

    def one_step(carry, given):
        hidden, cell = carry
        step, token, start = given
        product = jnp.where(start, 0.0, matmul(hidden, kernel, precision, jnp.float32))
        sums = product + _added_in(step, added, directions) + bias[:, None]
        input_gate, forget, candidate, output_gate = jnp.split(sums, GATES, axis=-1)
        input_gate = jnp.where(token, jax.nn.sigmoid(input_gate), 0.0)
        forget, output_gate = (jnp.where(token, jax.nn.sigmoid(one), 1.0) for one in (forget, output_gate))
        candidate, previous_cell = jnp.tanh(candidate), jnp.where(start, 0.0, cell)
        new_cell = forget * previous_cell + input_gate * candidate
        squashed = jnp.where(token, jnp.tanh(new_cell), hidden)
        new_hidden = output_gate * squashed
        after = new_hidden.astype(dtype), new_cell
        if not keep:
            return after, new_hidden
        kept = tuple(one.astype(dtype) for one in (input_gate, forget, candidate, output_gate, previous_cell, squashed))
        # After the barrier, this write reads no state: the states after the step can overwrite those before it.
        return after, jnp.concatenate(jax.lax.optimization_barrier(kept), axis=-1)

    zeros = jnp.zeros((directions, rows, kernel.shape[1]), jnp.float32)
    return jax.lax.scan(one_step, (zeros.astype(dtype), zeros), (jax.lax.iota(jnp.int32, steps), is_token, starts))[1]


def _hidden_states(kept: jax.Array) -> jax.Array:
    """Computes the hidden states from the saved values: [..., 6 * features] -> <float32>[..., features]."""
    *_, output_gate, _, squashed = _values(kept)
    return output_gate * squashed


def _values(kept: jax.Array) -> list[jax.Array]:
    """Splits the saved values: [..., 6 * features] -> six of <float32>[..., features]."""
    return jnp.split(kept.astype(jnp.float32), GATES + 2, axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def recurrence(
    added: jax.Array, kernel: jax.Array, bias: jax.Array, is_token: jax.Array, starts: jax.Array, precision: str
) -> jax.Array:
    """Computes the recurrent part of an LSTM. Padding keeps the state, which is zero at the first token of a sentence.

    Arguments:
      added: the input projections, <float32 or bfloat16>[row, step, directions * 4 * features].
      kernel: <float32>[direction, features, 4 * features].
      bias: <float32>[direction, 4 * features].
      is_token: <bool>[step, direction, row, 1], in each direction's reading order.
      starts: <bool>[step, direction, row, 1] in the same order, True at the first token of a sentence and everywhere in
        the first step.

    Returns:
      the hidden states, <float32>[row, step, directions * features].
    """
    return _in_place(_scan(added, kernel, bias, is_token, starts, precision, keep=False))


def _forward(added, kernel, bias, is_token, starts, precision):
    kept = _scan(added, kernel, bias, is_token, starts, precision, keep=True)
    return _in_place(_hidden_states(kept)), (kernel, is_token, starts, kept, jnp.zeros(0, added.dtype))


# This is traced after the end of `core.traced_for`, so the features are padded to `_MULTIPLE` instead.
def _backward(precision, residuals, state_gradients):
    kernel, is_token, starts, kept, of_type = residuals
    steps, directions, rows, _ = is_token.shape
    features, dtype = kernel.shape[1], PRECISIONS[precision]
    transposed = jnp.swapaxes(kernel, -1, -2).astype(dtype)
    zeros = jnp.zeros((directions, rows, features), jnp.float32)

    def one_step(carry, given):
        """Computes the gradients of the previous state and of the gate pre-activations from those of the next state."""
        product, passed, d_cell = carry
        d_state, token, next_start, kept = given
        *gates, cell, squashed = _values(kept)
        _, forget, _, output_gate = gates
        d_hidden = d_state + passed + jnp.where(next_start, 0.0, product)
        d_new_cell = jnp.where(next_start, 0.0, d_cell) + jnp.where(
            token, d_hidden * output_gate * (1 - squashed * squashed), 0.0
        )
        passed, d_cell = jnp.where(token, 0.0, d_hidden), d_new_cell * forget
        d_hidden, d_new_cell, passed, d_cell = jax.lax.optimization_barrier((d_hidden, d_new_cell, passed, d_cell))
        d_gates = _gate_gradient(d_new_cell, d_hidden, gates, cell, squashed).astype(dtype)
        d_gates = jax.lax.optimization_barrier(d_gates)
        return (matmul(d_gates, transposed, precision, jnp.float32), passed, d_cell), d_gates

    state_gradients = _in_order(state_gradients.reshape(rows, steps, directions, -1))
    next_starts = jnp.concatenate([starts[1:], jnp.zeros_like(starts[:1])])
    given = state_gradients, is_token, next_starts, kept
    _, d_gates = jax.lax.scan(one_step, (zeros, zeros, zeros), given, reverse=True)
    previous_states = jnp.concatenate([zeros[None], _hidden_states(kept[:-1])])
    previous_states = _in_place(jnp.where(starts, 0.0, previous_states)).reshape(rows * steps, -1)
    # Because of the barrier, the values saved in the forward pass are held only until here.
    d_gates, previous_states = jax.lax.optimization_barrier((d_gates, previous_states))
    d_added = _in_place(d_gates).reshape(rows * steps, -1)
    # The states of each direction are multiplied with the gradients of both directions. This moves fewer bytes than
    # laying out the arrays by direction.
    d_kernel = matmul(previous_states.T, d_added, precision).reshape(directions, features, directions, -1)
    d_kernel = jnp.stack([d_kernel[direction, :, direction] for direction in range(directions)])
    d_bias = d_added.astype(jnp.float32).sum(axis=0).reshape(directions, -1)
    return d_added.reshape(rows, steps, -1).astype(of_type.dtype), d_kernel, d_bias, None, None


recurrence.defvjp(_forward, _backward)


def _on_accelerator(sequence: Features, input_kernel, kernel, bias, is_token, is_start, precision) -> jax.Array:
    rows, steps, _ = is_token.shape
    directions, features, *_ = kernel.shape
    more = -features % _MULTIPLE  # additional features, whose states stay zero
    input_kernel, bias = (jnp.pad(one, [(0, 0)] * (one.ndim - 1) + [(0, more)]) for one in (input_kernel, bias))
    kernel = jnp.pad(kernel, [(0, 0), (0, more), (0, 0), (0, more)])
    added = matmul_features(sequence, input_kernel.reshape(len(input_kernel), -1), precision)
    is_token = _in_order(jnp.stack([is_token] * directions, axis=2))
    starts = _in_order(jnp.stack(is_start, axis=2)).at[0].set(True)
    kernel, bias = kernel.reshape(directions, features + more, -1), bias.reshape(directions, -1)
    states = recurrence(added, kernel, bias, is_token, starts, precision)
    return states.reshape(rows, steps, directions, -1)[..., :features].reshape(rows, steps, -1) if more else states


# --- for a CPU ---

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


def _cpu_scan(added: Directions, kernel, bias, is_token, is_start, precision, keep: bool):
    """Runs the scan of `cpu_recurrence`.

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
def cpu_recurrence(
    added: Directions, kernel: jax.Array, bias: jax.Array, is_token: jax.Array, is_start: Directions, precision: str
) -> jax.Array:
    """Computes the recurrent part of an LSTM, as `recurrence` does.

    Arguments:
      added: the input projections, <float32>[row, step, 4 * features] for each direction.
      kernel, bias: as in `recurrence`.
      is_token, is_start: <bool>[row, step, 1], the latter for each direction.

    Returns:
      the hidden states, <float32>[row, step, directions * features].
    """
    return _cpu_scan(added, kernel, bias, is_token, is_start, precision, keep=False)[0]


def _cpu_forward(added, kernel, bias, is_token, is_start, precision):
    hidden_states, gates, cells = _cpu_scan(added, kernel, bias, is_token, is_start, precision, keep=True)
    return hidden_states, (kernel, is_token, is_start, hidden_states, gates, cells)


def _cpu_backward(precision, residuals, state_gradients):
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
            own_gates = tuple(_at(gates[direction], position, gate * features, features) for gate in range(GATES))
            input_gate, forget, candidate, output_gate = own_gates
            squashed = jnp.tanh(forget * cell + input_gate * candidate)
            d_hidden, d_cell = gradients[direction]
            d_hidden = d_hidden + _at(state_gradients, position, direction * features, features)
            d_new_hidden = jnp.where(token, d_hidden, 0.0)
            d_new_cell = jnp.where(token, d_cell, 0.0) + d_new_hidden * output_gate * (1 - squashed * squashed)
            d_gates = _gate_gradient(d_new_cell, d_new_hidden, own_gates, cell, squashed)
            written.append(_put(d_added[direction], d_gates, position))
            new = matmul(d_gates, transposed[direction], precision), d_new_cell * forget
            new = (jnp.where(token, part, old) for part, old in zip(new, (d_hidden, d_cell), strict=True))
            before.append(tuple(jnp.where(starts, 0.0, part) for part in new))
        return (before, written), None

    zeros = jnp.zeros((rows, features), hidden_states.dtype)
    start = [(zeros, zeros)] * directions, [jnp.zeros_like(one) for one in gates]
    (_, d_added), _ = jax.lax.scan(one_step, start, (jax.lax.iota(jnp.int32, length), cells), reverse=True)
    d_kernel = []
    for direction, states in enumerate(split(hidden_states, [features] * directions)):
        # The states before each step: shifted by one position in the reading order, with zeros at the start.
        shift = (-1, 1, 0) if direction else (1, -1, 0)
        states = jax.lax.pad(states, jnp.zeros((), states.dtype), ((0, 0, 0), shift, (0, 0, 0)))
        states = jnp.where(is_start[direction], 0.0, states)
        states, d_gates = (each.reshape(rows * length, -1) for each in (states, d_added[direction]))
        d_kernel.append(matmul(states.T, d_gates, precision))
    d_bias = [d_gates.sum(axis=(0, 1)) for d_gates in d_added]
    return tuple(d_added), jnp.stack(d_kernel), jnp.stack(d_bias), None, None


cpu_recurrence.defvjp(_cpu_forward, _cpu_backward)


def _on_cpu(sequence: Features, input_kernel, kernel, bias, is_token, is_start, precision) -> jax.Array:
    inputs, directions, *_ = input_kernel.shape
    input_kernels = [one.reshape(inputs, -1) for one in split(input_kernel, [1] * directions, axis=1)]
    added = tuple(
        matmul_features(sequence, input_kernel, precision).astype(jnp.float32) for input_kernel in input_kernels
    )
    kernel, bias = kernel.reshape(directions, kernel.shape[1], -1), bias.reshape(directions, -1)
    return cpu_recurrence(added, kernel, bias, is_token, is_start, precision)


# --- the layer ---


def _second_sentence_starts(sentences: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Marks the first token of each direction's second sentence: <int8>[row, step] -> two of <bool>[row, step, 1].

    The first sentence needs no mark because the state is zero at the start.
    """
    of_first, of_second = sentences == 1, sentences == 2
    position = jax.lax.iota(jnp.int32, sentences.shape[1])[None]
    start_of_second = of_second & (position == jnp.argmax(of_second, axis=1)[:, None])
    end_of_first = of_first & (position[:, ::-1] == jnp.argmax(of_first[:, ::-1], axis=1)[:, None])
    return start_of_second[..., None], end_of_first[..., None]


class Lstm(nn.Module):
    """An LSTM that encodes each sentence of a row separately.

    The kernels are Glorot-initialized, gate by gate (CSRAN, section 3.2). Each gate has one bias.

    Attributes:
      features: the number of features of a direction.
      bidirectional: whether the sentences are also read from their ends.
      forget_bias: the initial bias of the forget gate; the papers do not state it, and cuDNN, which CSRAN uses, has 0.
      precision: the precision of the matrix products.
    """

    features: int
    bidirectional: bool = True
    forget_bias: float = 0.0
    precision: str = "float32"

    def _weights(self, inputs: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Declares the kernels of the inputs and of the states, and the bias, each <float32>[..., 4, features]."""
        directions, features = 1 + self.bidirectional, self.features
        glorot = functools.partial(nn.initializers.variance_scaling, 1.0, "fan_avg", "uniform", out_axis=-1)
        input_init = glorot(in_axis=0, batch_axis=(1, 2))
        recurrent_init = glorot(in_axis=1, batch_axis=(0, 2))

        def bias_init(key, shape, dtype):
            return jnp.zeros(shape, dtype).at[:, 1].set(self.forget_bias)

        input_kernel = self.param("input_kernel", input_init, (inputs, directions, GATES, features), jnp.float32)
        kernel = self.param("recurrent_kernel", recurrent_init, (directions, features, GATES, features), jnp.float32)
        bias = self.param("bias", bias_init, (directions, GATES, features), jnp.float32)
        return input_kernel, kernel, bias

    @nn.compact
    def __call__(self, sequence: Features, sentences: jax.Array) -> jax.Array:
        """Computes the hidden states of the sentences of a row.

        Arguments:
          sequence: <float32>[batch, length, inputs] each.
          sentences: <int8>[batch, length], the sentence of each token, 1 before 2; 0 is padding.

        Returns:
          <float32>[batch, length, directions * features], zeros at padding.
        """
        weights = self._weights(sum(sizes(sequence)))
        is_token = sentences[..., None] > 0
        is_start = _second_sentence_starts(sentences)[: 1 + self.bidirectional]
        # In both forms, the cell of the scan is float32 in every precision, because rounding errors would add up over
        # the steps.
        form = _on_cpu if target().platform == "cpu" else _on_accelerator
        states = form(sequence, *weights, is_token, is_start, self.precision)
        return jnp.where(is_token, states, 0.0).astype(sequence[0].dtype)
