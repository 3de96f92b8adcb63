"""RE2: simple and effective text matching with richer alignment features (Yang et al., ACL 2019), its figure 1."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.layers.alignment import Alignment
from jaxmatch.layers.connection import CONNECTIONS
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.encoder import ConvolutionalEncoder
from jaxmatch.layers.fusion import FUSIONS
from jaxmatch.layers.masking import zero_padding
from jaxmatch.layers.pooling import max_over_time
from jaxmatch.layers.prediction import Prediction


class Block(nn.Module):
    """A dashed box of figure 1: encode each sentence, align the two, fuse each with what it was aligned with.

    Arguments: as in `RE2`.
    """

    encoder_layers: int
    kernel_size: tuple[int, ...]
    hidden_size: int
    alignment: str
    fusion: str
    encoder_input: bool
    weight_normalization: str
    precision: str

    def setup(self):
        options = dict(weight_normalization=self.weight_normalization, precision=self.precision)
        self.encoder = ConvolutionalEncoder(self.hidden_size, self.encoder_layers, self.kernel_size, **options)
        self.align = Alignment(self.alignment, self.hidden_size, **options, name="alignment")
        self.fuse = FUSIONS[self.fusion](self.hidden_size, **options, name="fusion")

    def _encode(self, sequence: jax.Array, mask: jax.Array, dropout_rate: jax.Array | None) -> jax.Array:
        encoded = self.encoder(sequence, mask, dropout_rate)
        # The ablation "w/o enc-in" hands on the contextual features alone.
        return jnp.concatenate([sequence, encoded], axis=-1) if self.encoder_input else encoded

    def __call__(self, a, b, mask_a, mask_b, dropout_rate):
        """x(n) of both sentences <float32>[batch, length, inputs] -> o(n) of both <float32>[batch, length, hidden]."""
        a, b = zero_padding(a, mask_a), zero_padding(b, mask_b)
        a, b = self._encode(a, mask_a, dropout_rate), self._encode(b, mask_b, dropout_rate)
        aligned_a, aligned_b = self.align(a, b, mask_a, mask_b, dropout_rate)
        return self.fuse(a, aligned_a, dropout_rate), self.fuse(b, aligned_b, dropout_rate)


class RE2(nn.Module):
    """The whole of figure 1, from word ids to logits. Both sentences share all parameters but the prediction layer's.

    Arguments:
      outputs: number of classes, or 1 in regression.
      blocks: N, the number of blocks.
      encoder_layers: convolutions in a block's encoder.
      kernel_size: widths of a layer's convolutions, side by side; odd.
      hidden_size: size of every layer's output.
      alignment: F of Eq. 2, 'linear' or 'identity'.
      fusion: 'full' (Eq. 4) or 'simple'.
      connection: 'augmented' (Eq. 1), 'augmented_running_sum', 'residual' or 'none' (layers/connection.py).
      prediction: 'full' (Eq. 5), 'symmetric' (Eq. 6) or 'simple' (Eq. 7).
      encoder_input: whether alignment and fusion see the encoder's input beside its output; False is the ablation "w/o enc-in".
      parallel_blocks: the ablation that feeds the embeddings to all blocks and sums what they give.
      weight_normalization: 'he', 'unit' or 'none' (layers/weights.py).
      precision: of the matrix products, 'float32' or 'bfloat16'; parameters and logits are float32.
    """

    outputs: int
    blocks: int = 2
    encoder_layers: int = 2
    kernel_size: tuple[int, ...] = (3,)
    hidden_size: int = 150
    alignment: str = "linear"
    fusion: str = "full"
    connection: str = "augmented"
    prediction: str = "full"
    encoder_input: bool = True
    parallel_blocks: bool = False
    weight_normalization: str = "he"
    precision: str = "float32"

    def setup(self):
        options = dict(weight_normalization=self.weight_normalization, precision=self.precision)
        self.block = [
            Block(
                self.encoder_layers,
                self.kernel_size,
                self.hidden_size,
                self.alignment,
                self.fusion,
                self.encoder_input,
                **options,
                name=f"blocks_{number}",
            )
            for number in range(self.blocks)
        ]
        self.connect = CONNECTIONS[self.connection](self.hidden_size, **options, name="connection")
        self.predict = Prediction(self.prediction, self.hidden_size, self.outputs, **options, name="prediction")
        self.dropout = Dropout()

    def __call__(
        self,
        a: dict[str, jax.Array],
        b: dict[str, jax.Array],
        vectors: jax.Array,
        dropout_rate: jax.Array | float | None = None,
    ) -> jax.Array:
        """Matches pairs of sentences.

        Arguments:
          a: {'ids': <int32>[batch, length_a]}, the words of the first sentences; 0 is padding.
          b: {'ids': <int32>[batch, length_b]}, of the second.
          vectors: <float32>[words, dimensions], the word vectors; they are not trained.
          dropout_rate: <float32>[], or None in evaluation; otherwise the random numbers come from the key 'dropout'.

        Returns:
          <float32>[batch, outputs], logits.
        """
        vector_a, vector_b = self.sentence_vectors(a, b, vectors, dropout_rate)
        return self.predict(vector_a, vector_b, dropout_rate)

    def sentence_vectors(self, a, b, vectors, dropout_rate=None) -> tuple[jax.Array, jax.Array]:
        """All below the prediction layer: arguments as above -> v_1 and v_2 of Eq. 5, <float32>[batch, hidden] each."""
        mask_a, mask_b = a["ids"] > 0, b["ids"] > 0
        vectors = jax.lax.stop_gradient(vectors)
        embedded_a = self.dropout(vectors[a["ids"]], dropout_rate)
        embedded_b = self.dropout(vectors[b["ids"]], dropout_rate)
        run = self._parallel if self.parallel_blocks else self._stacked
        output_a, output_b = run(embedded_a, embedded_b, mask_a, mask_b, dropout_rate)
        return max_over_time(output_a, mask_a), max_over_time(output_b, mask_b)

    def _stacked(self, embedded_a, embedded_b, mask_a, mask_b, dropout_rate):
        """The output of the last of the consecutive blocks."""
        input_a, input_b = embedded_a, embedded_b
        outputs_a, outputs_b = [], []
        for block in self.block:
            if outputs_a:
                input_a = self.connect(embedded_a, input_a, outputs_a)
                input_b = self.connect(embedded_b, input_b, outputs_b)
            output_a, output_b = block(input_a, input_b, mask_a, mask_b, dropout_rate)
            outputs_a.append(output_a)
            outputs_b.append(output_b)
        return output_a, output_b

    def _parallel(self, embedded_a, embedded_b, mask_a, mask_b, dropout_rate):
        """The sum of the outputs of blocks that all see the embeddings."""
        outputs = [block(embedded_a, embedded_b, mask_a, mask_b, dropout_rate) for block in self.block]
        return sum(output_a for output_a, _ in outputs), sum(output_b for _, output_b in outputs)
