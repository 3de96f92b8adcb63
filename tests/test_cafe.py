"""CAFE as a whole: the composition of its layers (Tay et al., 2018, its figure 1)."""

import numpy as np
from random_parameters import compiled
from test_models import CAFE, FEATURES, VECTORS, A, B, side, start

from jaxmatch.config.models import CSRANConfig
from jaxmatch.layers.core import HighwayLayer
from jaxmatch.layers.lstm import Lstm
from jaxmatch.models.cafe import AttentionRefinement
from jaxmatch.models.pair_model import pair_rows


def test_layers_are_composed_as_in_figure_1():
    module, params = start(CAFE | {"bidirectional": True})
    tokens, sentences = pair_rows(side(A), side(B))
    words = HighwayLayer(3).apply({"params": params["highway"]["layer_0"]}, VECTORS[tokens["ids"]])
    augmented = AttentionRefinement(CSRANConfig(factors=2)).apply({"params": params["refinement"]}, words, sentences)
    states = np.asarray(Lstm(3).apply({"params": params["encoder"]}, augmented, sentences))
    found = compiled(lambda: module.apply({"params": params}, tokens, sentences, VECTORS, method="sentence_vectors"))()
    for which, vector in zip((1, 2), found, strict=True):
        own = [states[row, np.asarray(sentences[row]) == which] for row in range(len(A))]
        expected = [np.concatenate([of_row.mean(axis=0), of_row.max(axis=0)]) for of_row in own]
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-4)


def test_encoder_input_has_the_word_features_and_six_alignment_factors():
    _, params = start(CAFE | FEATURES | {"characters": "bilstm", "highway_layers": 0})
    assert set(params) >= {"words", "refinement", "encoder"} and "highway" not in params
    # Input size: 6 for the word vector, 4 for the characters, 3 for the tag, 1 for the exact match, 6 for the
    # alignments. By default the encoder is unidirectional.
    assert params["encoder"]["input_kernel"].shape[:2] == (6 + 4 + 3 + 1 + 6, 1)
