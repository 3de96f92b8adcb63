"""A (bidirectional) LSTM over the sentences of a row: the encoder of ESAN (section 2.1) and CSRAN (Eq. 1)."""

import contextlib
import contextvars
import functools
from collections.abc import Iterator

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers import lstm_on_cpu, lstm_on_device
from jaxmatch.layers.lstm_cell import GATES
from jaxmatch.layers.parts import Parts, sizes

_ON_A_CPU = contextvars.ContextVar("on_a_cpu", default=False)


@contextlib.contextmanager
def traced_for_a_cpu() -> Iterator[None]:
    """Traces LSTMs in their CPU form only, without a platform switch, so that the jaxpr can be inspected."""
    before = _ON_A_CPU.set(True)
    try:
        yield
    finally:
        _ON_A_CPU.reset(before)


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

    Arguments:
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
    def __call__(self, sequence: Parts, sentences: jax.Array) -> jax.Array:
        """Computes the hidden states of the sentences of a row.

        Arguments:
          sequence: parts of <float32>[batch, length, inputs] (layers/parts.py).
          sentences: <int8>[batch, length], the sentence of each token, 1 before 2; 0 is padding.

        Returns:
          <float32>[batch, length, directions * features], zeros at padding.
        """
        weights = self._weights(sum(sizes(sequence)))
        is_token = sentences[..., None] > 0
        is_start = _second_sentence_starts(sentences)[: 1 + self.bidirectional]
        forms = {"cpu": lstm_on_cpu.hidden_states, "default": lstm_on_device.hidden_states}
        forms = {platform: functools.partial(form, precision=self.precision) for platform, form in forms.items()}
        # The sequence is a separate argument for each direction, the second direction first. The gradients of these
        # arguments are then added, in this order, to the gradients from elsewhere, as if there were a single form.
        sequences = (sequence,) * len(is_start)
        # The form is chosen when the program is lowered, and the other form leaves nothing in the program. In both, the
        # cell of the scan is float32 in every precision, because rounding errors would add up over the steps.
        arguments = sequences, *weights, is_token, is_start
        states = forms["cpu"](*arguments) if _ON_A_CPU.get() else jax.lax.platform_dependent(*arguments, **forms)
        return jnp.where(is_token, states, 0.0).astype(sequence[0].dtype)
