"""ESAN's feature augmentation (section 2.2.1): word and contextual features are added to what a layer is given."""

import flax.linen as nn
import jax

from jaxmatch.layers.linear import Linear


class Augmentation(nn.Module):
    """Adds the features that it is given, each through a gate of its own.

    Arguments:
      kind: 'gated' (Eq. 1 to 3), 'simple' (Eq. 4, without gates) or 'none' (the ablation "w/o Feat. Augment.").
      precision: of the matrix products.
    """

    kind: str
    precision: str = "float32"

    @nn.compact
    def __call__(self, sequence: jax.Array, features: dict[str, jax.Array]) -> jax.Array:
        """sequence a: <float32>[batch, length, size]; features, {'word': e, 'contextual': h}: as `sequence` -> the
        same.
        """
        if self.kind == "none" or not features:
            return sequence
        if self.kind == "simple":
            return sequence + sum(features.values())  # Eq. 4
        size, options = sequence.shape[-1], dict(precision=self.precision)
        # W_g is one matrix for both gates, so that its product is made once.
        shared = Linear(size, use_bias=False, **options, name="intermediate")(sequence)
        augmented = sequence
        for name, feature in features.items():
            # Eq. 1: g_e = sigmoid(W_g a + W_e e + z_e); Eq. 2: g_h = sigmoid(W_g a + W_h h + z_h)
            gate = nn.sigmoid(shared + Linear(size, **options, name=name)(feature))
            augmented = augmented + gate * feature  # Eq. 3
        return augmented
