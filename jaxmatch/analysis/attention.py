"""The attention weights of a trained model: from each token of a pair to the tokens of the other sentence (Figure 3 of
RE2 and ESAN).
"""

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from flax import traverse_util

from jaxmatch.data.text import WordTable
from jaxmatch.errors import InputError, rounded
from jaxmatch.inference.matcher import Matcher, Prediction

# The pairs of the papers' case studies: Yang et al. (2019), section 3.7, from SNLI's dev set; Hu et al. (2020), section
# 4.3.
PAPERS_PAIRS = {
    "re2": ("A green bike is parked next to a door", "The bike is chained to the door"),
    "esan": ("police officer with riot shield stands in front of crowd", "a police officer stands in front of a crowd"),
}

# The name under which the layers that align two sentences store their weights (models/re2.py).
_KEPT = "weights"
# Pattern for the path of such a layer in a model -> the kind of layer.
_NAMES = {
    r"blocks_(\d+) alignment": "block",
    r"alignment_(\d+) alignment": "alignment layer",
    r"refinement_(\d+)": "refinement",
}
_OF_THE_MODEL = "stack"


@dataclasses.dataclass(frozen=True)
class BlockAttention:
    """The weights of one layer that aligns the two sentences, "normalized e_ij in Equation 3" (Yang et al., 2019).

    Attributes:
      name: the name of the layer: "block 1" of RE2, "alignment layer 1" of ESAN, "matching forward" of BiMPM, and so
        on. "stack" stands for the affinity by which CSRAN aligns all layers (Tay et al., 2018, Eq. 4).
      over_b: <float32>[length_a, length_b], the weights of the second sentence's tokens for each token of the first;
        rows sum to 1.
      over_a: <float32>[length_a, length_b], the weights of the first sentence's tokens for each token of the second;
        columns sum to 1.

    The weights are bfloat16 if the model computes them in bfloat16 (`model.precision`). In BiMPM, where similarities
    may cancel, the sum of a row or column may differ from 1.
    """

    name: str
    over_b: np.ndarray
    over_a: np.ndarray


@dataclasses.dataclass(frozen=True)
class PairAttention:
    """A pair, its tokens as the model reads them, its prediction, and the weights from the first block to the last."""

    text_a: str
    text_b: str
    tokens_a: tuple[str, ...]
    tokens_b: tuple[str, ...]
    prediction: Prediction
    blocks: tuple[BlockAttention, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns the plain values from which `reporting.figures` draws the figure."""
        parts = {**vars(self), **vars(self.prediction), "blocks": list(map(vars, self.blocks))}
        del parts["prediction"], parts["unknown_words"]
        return rounded({"kind": "attention", **parts})


def papers_pair(matcher: Matcher) -> tuple[str, str]:
    """Returns the pair whose attention the paper of a model shows, or RE2's pair if the paper shows no attention."""
    return PAPERS_PAIRS.get(type(matcher.model.module).__name__.lower(), PAPERS_PAIRS["re2"])


def attention(matcher: Matcher, pairs: Sequence[tuple[str, str]]) -> list[PairAttention]:
    """Computes the attention weights and the predictions of pairs (as in Figure 3 of Yang et al., 2019).

    Raises:
      TypeError: an element is not a pair of two strings.
      InputError: the model has no attention from one sentence to the other; also as in `Matcher.logits`.
    """
    found = []
    encoded = matcher.encoded(pairs)
    for number, (pair, prediction) in enumerate(zip(pairs, matcher.predict(pairs), strict=True)):
        tokens, sentences = matcher.model.inputs(*encoded.batch([number]), encoded.words)
        kept = _weights(*matcher.model.folded, encoded.words, tokens, sentences)
        if not kept:
            raise InputError(f"a model of the kind {type(matcher.model.module).__name__} keeps no attention weights")
        is_a, is_b, blocks = sentences[0] == 1, sentences[0] == 2, []
        for name in sorted(kept, key=layer_order):
            weights = np.asarray(kept[name][0])
            blocks.append(BlockAttention(name, weights[is_a][:, is_b], weights[is_b][:, is_a].T))
        found.append(PairAttention(*pair, *map(matcher.tokens, pair), prediction, tuple(blocks)))
    return found


@functools.partial(jax.jit, static_argnums=0)
def _weights(
    module: nn.Module, params: Any, words: jax.Array | WordTable, tokens: Mapping[str, jax.Array], sentences: jax.Array
) -> Mapping[str, jax.Array]:
    """Returns block name -> <float32>[batch, length, length], the weights from each token of a row to each token."""
    _, state = module.apply(
        {"params": params}, dict(tokens), sentences, words, method="match", mutable=["intermediates"]
    )
    flat = traverse_util.flatten_dict(dict(state.get("intermediates", {})))
    return {_name(path[:-1]): kept[0] for path, kept in flat.items() if path[-1] == _KEPT}


def _name(path: Sequence[str]) -> str:
    """Returns the name of the layer that stored the weights: ("blocks_0", "alignment") is block 1.

    The path is empty if the model itself stored the weights.
    """
    place = " ".join(path)
    for pattern, kind in _NAMES.items():
        if numbered := re.fullmatch(pattern, place):
            return f"{kind} {int(numbered[1]) + 1}"
    return place.replace("_", " ") or _OF_THE_MODEL


def layer_order(name: str) -> tuple[bool, list[tuple[str, int]]]:
    """Returns a sort key that puts block 10 after block 2, and the whole stack after its layers."""
    return name == _OF_THE_MODEL, [(text, int(number or 0)) for text, number in re.findall(r"(\D+)(\d*)", name)]
