"""Occlusion sensitivity: what a trained RE2 loses without one alignment feature of one block (RE2's Figure 2).

What alignment and fusion see of a token are "three alignment features" (Yang et al., 2019, section 2): the embedding,
the residual (the features aligned in earlier blocks) and the contextual features (the encoder's output). One of them in
one block is masked to zeros at a time; the encoder of the block still sees its input whole, as the paper speaks of what
is "not directly accessible by alignment layers and fusion layers" (section 3.7, after Zeiler and Fergus, 2014).
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch import memory_mappings
from jaxmatch.analysis.scoring import label_numbers, pairs_of
from jaxmatch.data.dataset import Split
from jaxmatch.errors import InputError
from jaxmatch.inference.matcher import Matcher
from jaxmatch.inference.padding import pad_batch
from jaxmatch.inference.similar_lengths import batches
from jaxmatch.models.re2 import RE2, Block
from jaxmatch.printable import without_nan

FEATURES = ("embedding", "residual", "contextual")  # the paper's "embed", "residual" and "enc-out"


@dataclasses.dataclass(frozen=True)
class Occlusion:
    """How accuracy changes, class by class.

    Attributes:
      labels: the classes.
      pairs: <int64>[classes], how many pairs are of each.
      accuracy: <float64>[classes], the share of a class that the whole model gets right; NaN for a class without pairs.
      change: <float64>[blocks, features, classes], by how much that share changes without the feature (`FEATURES`); NaN
        where a block has no such feature.
    """

    labels: tuple[str, ...]
    pairs: np.ndarray
    accuracy: np.ndarray
    change: np.ndarray

    def as_json(self) -> dict[str, Any]:
        """Plain values, of which `drawings.occlusion` draws the figure; None for what there is not."""
        return {
            "kind": "occlusion",
            "labels": list(self.labels),
            "features": list(FEATURES),
            "pairs": self.pairs.tolist(),
            "accuracy": _plain(self.accuracy),
            "change": _plain(self.change),
        }


@dataclasses.dataclass(frozen=True)
class SeedOcclusion:
    """The same over the seeds of a setting.

    Attributes:
      single: of each seed's model.
      mean: the means over them.
      accuracy_deviation: <float64>[classes], the sample standard deviation of `accuracy`; NaN for one seed.
      change_deviation: <float64>[blocks, features, classes], that of `change`.
    """

    single: tuple[Occlusion, ...]
    mean: Occlusion
    accuracy_deviation: np.ndarray
    change_deviation: np.ndarray

    def as_json(self, seeds: Sequence[int]) -> dict[str, Any]:
        """Plain values as `Occlusion.as_json`, with the deviations and what was found for each of the seeds."""
        return {
            **self.mean.as_json(),
            "accuracy_deviation": _plain(self.accuracy_deviation),
            "change_deviation": _plain(self.change_deviation),
            "seeds": list(seeds),
            "single": [{"accuracy": _plain(one.accuracy), "change": _plain(one.change)} for one in self.single],
        }


def _plain(values: np.ndarray) -> Any:
    return without_nan(values.tolist())


def over_seeds(single: Sequence[Occlusion]) -> SeedOcclusion:
    """Mean and sample standard deviation over models that differ in the seed alone, measured on the same pairs.

    Raises:
      InputError: they answer with other labels, have other blocks or saw other pairs.
    """
    first = single[0]
    for one in single[1:]:
        alike = one.labels == first.labels and one.change.shape == first.change.shape
        if not alike or not np.array_equal(one.pairs, first.pairs):
            raise InputError(
                "the runs differ in labels, blocks or pairs", remedy="give runs that differ in the seed alone"
            )
    found = {}
    for name in ("accuracy", "change"):
        values = np.stack([getattr(one, name) for one in single])
        found[name] = values.mean(axis=0)
        found[f"{name}_deviation"] = (
            values.std(axis=0, ddof=1) if len(single) > 1 else np.full(values.shape[1:], np.nan)
        )
    mean = dataclasses.replace(first, accuracy=found["accuracy"], change=found["change"])
    return SeedOcclusion(tuple(single), mean, found["accuracy_deviation"], found["change_deviation"])


def features_seen(module: RE2, block: int) -> tuple[str, ...]:
    """The features that alignment and fusion see in a block, counted from 0, in the order they see them.

    The connections of the ablation hand on one mixture in the place of residual and embedding: it counts as the
    residual.
    """
    if not module.config.encoder_input:
        return ("contextual",)
    if block == 0 or module.config.parallel_blocks:
        return ("embedding", "contextual")
    if module.config.connection in ("augmented", "augmented_running_sum"):
        return ("residual", "embedding", "contextual")
    return ("residual", "contextual")


def occlusion(matcher: Matcher, split: Split, batch_size: int | None = None) -> Occlusion:
    """Measures a model on a split with each feature of each block masked in turn.

    Raises:
      InputError: the model is no RE2, the task has no classes, the split is empty or has a label unknown to the model.
    """
    module = matcher.model.module
    if not isinstance(module, RE2):
        raise InputError(
            f"occlusion works on RE2 only, and this is {type(module).__name__}", remedy="give a run of RE2"
        )
    if matcher.task == "regression":
        raise InputError(
            "occlusion reports the accuracy of classes, and a regression has none", remedy="give another run"
        )
    labels = label_numbers(matcher, split)
    places = [(block, feature) for block in range(module.config.blocks) for feature in features_seen(module, block)]
    kept = np.ones((1 + len(places), module.config.blocks, len(FEATURES)), bool)
    for number, (block, feature) in enumerate(places, start=1):
        kept[number, block, FEATURES.index(feature)] = False
    right = occluded_logits(matcher, split, kept, batch_size).argmax(axis=2) == labels
    classes = range(len(matcher.labels))
    pairs = np.array([np.count_nonzero(labels == each) for each in classes])
    hits = np.array([[np.count_nonzero(one[labels == each]) for each in classes] for one in right])
    accuracy = np.where(pairs, hits / np.maximum(pairs, 1), np.nan)
    change = np.full((module.config.blocks, len(FEATURES), len(classes)), np.nan)
    for number, (block, feature) in enumerate(places, start=1):
        change[block, FEATURES.index(feature)] = accuracy[number] - accuracy[0]
    return Occlusion(matcher.labels, pairs, accuracy[0], change)


def occluded_logits(matcher: Matcher, split: Split, kept: np.ndarray, batch_size: int | None = None) -> np.ndarray:
    """What an RE2 answers with features masked.

    Arguments:
      matcher: a trained RE2.
      split: the pairs.
      kept: <bool>[occlusions, blocks, features], False for what is masked.
      batch_size: pairs computed together, those of like length; None: as many as suit the device.

    Returns:
      <float32>[occlusions, pairs, outputs].
    """
    model = matcher.model
    memory_mappings.clear_programs_if_scarce()
    encoded = matcher.encoded(pairs_of(split))
    result = np.zeros((len(kept), len(split), matcher.outputs), np.float32)
    for chosen in batches(*encoded.sides, batch_size or model.batch_size):
        tokens, sentences = pad_batch(*model.inputs(*encoded.batch(chosen), encoded.words))
        for number, one in enumerate(kept):
            result[number, chosen] = logits_without(*model.folded, encoded.words, tokens, sentences, one)[: len(chosen)]
    return result


@functools.partial(jax.jit, static_argnums=0)
def logits_without(
    module: nn.Module, params: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array, kept: jax.Array
) -> jax.Array:
    # What is kept is an argument of the program, which so is the same for all occlusions.
    with nn.intercept_methods(_masking(module, kept)):
        return module.apply({"params": params}, tokens, sentences, words, method="match")


def _masking(module: RE2, kept: jax.Array) -> Callable:
    """An interceptor that hands alignment and fusion what is kept: the model itself knows nothing of it.

    Arguments:
      module: the model.
      kept: <bool>[blocks, features].
    """

    def interceptor(call, arguments, named, context):
        layer, block = context.module, context.module.parent
        if (
            context.method_name != "__call__"
            or not isinstance(block, Block)
            or layer.name not in ("alignment", "fusion")
        ):
            return call(*arguments, **named)
        number = int(block.name.removeprefix("blocks_"))
        sequence, *rest = arguments
        masked = tuple(
            jnp.where(kept[number, FEATURES.index(feature)], part, 0.0)
            for feature, part in zip(features_seen(module, number), sequence, strict=True)
        )
        return call(masked, *rest, **named)

    return interceptor
