"""ESAN's feature augmentation (section 2.2.1): word and contextual features are added to the input of a layer."""

import flax.linen as nn
import jax

from jaxmatch.layers.linear import Linear


class Augmentation(nn.Module):
    """The sum of a layer's input and the given features, each through a gate of its own.

    Arguments:
      kind: 'gated' (Eq. 1 to 3), 'simple' (Eq. 4, without gates) or 'none' (the ablation "w/o Feat. Augment.").
      precision: the precision of the matrix products.
    """

    kind: str
    precision: str = "float32"

    @nn.compact
    def __call__(self, sequence: jax.Array, features: dict[str, jax.Array]) -> jax.Array:
        """Augments a sequence.

        Arguments:
          sequence: a, <float32>[batch, length, size].
          features: {'word': e, 'contextual': h}, or some of them, each with the shape of `sequence`.

        Returns:
          <float32>[batch, length, size].
        """
        if self.kind == "none" or not features:
            return sequence
        if self.kind == "simple":
            return sequence + sum(features.values())  # Eq. 4
        size, options = sequence.shape[-1], dict(precision=self.precision)
        # W_g is one matrix for both gates, so its product is computed once.
        shared = Linear(size, use_bias=False, **options, name="intermediate")(sequence)
        augmented = sequence
        for name, feature in features.items():
            # Eq. 1: g_e = sigmoid(W_g a + W_e e + z_e); Eq. 2: g_h = sigmoid(W_g a + W_h h + z_h)
            gate = nn.sigmoid(shared + Linear(size, **options, name=name)(feature))
            augmented = augmented + gate * feature  # Eq. 3
        return augmented
