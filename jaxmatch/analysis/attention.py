"""Where the tokens of a pair look in the other sentence: the attention weights of a trained model (RE2's Figure 3)."""

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from flax import traverse_util

from jaxmatch.errors import InputError
from jaxmatch.layers.words import WordTable
from jaxmatch.matcher import Matcher, Prediction

# The case study of Yang et al. (2019), section 3.7, a pair of SNLI's dev set.
PAPERS_PAIR = ("A green bike is parked next to a door", "The bike is chained to the door")

# What layers/alignment.py keeps its weights as.
_KEPT = "weights"


@dataclasses.dataclass(frozen=True)
class BlockAttention:
    """The weights of one block, "normalized e_ij in Equation 3" (Yang et al., 2019).

    Attributes:
      name: of the block, such as "block 1".
      over_b: <float32>[length_a, length_b], what each token of the first sentence finds in the second; rows sum to 1.
      over_a: <float32>[length_a, length_b], what each token of the second finds in the first; columns sum to 1.
    """

    name: str
    over_b: np.ndarray
    over_a: np.ndarray


@dataclasses.dataclass(frozen=True)
class PairAttention:
    """A pair, what the model answers, and the weights of all blocks.

    Attributes:
      text_a, text_b: the pair.
      tokens_a, tokens_b: as the model reads them.
      prediction: the answer.
      blocks: from the first to the last.
    """

    text_a: str
    text_b: str
    tokens_a: tuple[str, ...]
    tokens_b: tuple[str, ...]
    prediction: Prediction
    blocks: tuple[BlockAttention, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values, of which `figures.attention` draws the figure."""
        return {
            "kind": "attention",
            "text_a": self.text_a,
            "text_b": self.text_b,
            "tokens_a": list(self.tokens_a),
            "tokens_b": list(self.tokens_b),
            "label": self.prediction.label,
            "score": self.prediction.score,
            "probabilities": dict(self.prediction.probabilities),
            "blocks": [
                {"name": block.name, "over_b": _plain(block.over_b), "over_a": _plain(block.over_a)} for block in self.blocks
            ],
        }


def attention(matcher: Matcher, pairs: Sequence[tuple[str, str]]) -> list[PairAttention]:
    """The attention weights of pairs, in the order of the pairs.

    Raises:
      InputError: the model has no attention that it keeps.
      TypeError: an element is not a pair of two strings.
    """
    found = []
    features = matcher.features(pairs)
    for number, (pair, ids_a, ids_b, prediction) in enumerate(zip(pairs, *matcher.ids(pairs), matcher.predict(pairs), strict=True)):
        told = {name: tuple(np.array([side[number]], np.int32) for side in sides) for name, sides in features.items()}
        tokens, sentences = matcher.model.inputs(np.array([ids_a], np.int32), np.array([ids_b], np.int32), told)
        kept = _weights(*matcher.model.folded, matcher.model.words, tokens, sentences)
        if not kept:
            raise InputError(f"a model of the kind {type(matcher.model.module).__name__} keeps no attention weights")
        is_a, is_b = sentences[0] == 1, sentences[0] == 2
        found.append(
            PairAttention(
                *pair,
                tokens_a=matcher.tokens(pair[0]),
                tokens_b=matcher.tokens(pair[1]),
                prediction=prediction,
                blocks=tuple(
                    BlockAttention(name, weights[is_a][:, is_b], weights[is_b][:, is_a].T)
                    for name, weights in ((name, np.asarray(kept[name][0])) for name in sorted(kept, key=_place))
                ),
            )
        )
    return found


@functools.partial(jax.jit, static_argnums=0)
def _weights(
    module: nn.Module, params: Any, words: jax.Array | WordTable, tokens: Mapping[str, jax.Array], sentences: jax.Array
) -> Mapping[str, jax.Array]:
    """Name of a block -> <float32>[batch, length, length], from each token of a row to each."""
    _, state = module.apply(
        {"params": params}, dict(tokens), sentences, words, method="match", mutable=["intermediates"]
    )
    flat = traverse_util.flatten_dict(dict(state.get("intermediates", {})))
    return {_name(path[:-1]): kept[0] for path, kept in flat.items() if path[-1] == _KEPT}


def _name(path: Sequence[str]) -> str:
    """Of the layer that kept the weights: ("blocks_0", "alignment") is block 1."""
    numbered = re.fullmatch(r"blocks_(\d+)", path[0])
    return f"block {int(numbered[1]) + 1}" if numbered and len(path) == 2 else " ".join(path)


def _place(name: str) -> list[tuple[str, int]]:
    """Puts block 10 after block 2."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D+)(\d*)", name)]


def _plain(weights: np.ndarray) -> list[list[float]]:
    return [[round(float(weight), 6) for weight in row] for row in weights]
