"""Occlusion sensitivity: the accuracy that a trained RE2 loses without one alignment feature of one block (RE2's
Figure 2).

Alignment and fusion see "three alignment features" of a token (Yang et al., 2019, section 3.7): the embedding, the
residual (the features aligned in earlier blocks) and the contextual features (the encoder's output). One feature of one
block at a time is set to zeros. The encoder of the block still sees its whole input, because the paper describes a
masked feature as "not directly accessible by alignment layers and fusion layers" (after Zeiler and Fergus, 2014).
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch import devices
from jaxmatch.analysis.evaluate import label_numbers, pairs_of
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError, without_nan
from jaxmatch.inference.matcher import Matcher, batches
from jaxmatch.models.re2 import RE2, Block
from jaxmatch.reporting.formats import Sheet, Text
from jaxmatch.reporting.table import caption

FEATURES = ("embedding", "residual", "contextual")  # the paper's "embed", "residual" and "enc-out"


@dataclasses.dataclass(frozen=True)
class Occlusion:
    """The change of accuracy without a feature, class by class: of a model, or the mean over seeds.

    Attributes:
      labels: the classes.
      pairs: <int64>[classes], the number of pairs of each class.
      accuracy: <float64>[classes], the share of the pairs of a class that the whole model predicts correctly; NaN for a
        class without pairs.
      change: <float64>[blocks, features, classes], the change of that share without the feature (`FEATURES`); NaN for a
        feature that a block does not have.
      accuracy_deviation, change_deviation: the sample standard deviations over the seeds, NaN for a single seed.
    """

    labels: tuple[str, ...]
    pairs: np.ndarray
    accuracy: np.ndarray
    change: np.ndarray
    accuracy_deviation: np.ndarray | float = math.nan
    change_deviation: np.ndarray | float = math.nan

    def as_json(self) -> dict[str, Any]:
        """Returns the plain values from which `reporting.figures` draws the figure; None stands for NaN."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        plain = {name: without_nan(value.tolist()) for name, value in arrays.items()}
        return {"kind": "occlusion", "labels": list(self.labels), "features": list(FEATURES), **plain}


def over_seeds(single: Sequence[Occlusion]) -> Occlusion:
    """Computes mean and sample standard deviation over models of one setting, for the same pairs."""
    found = {}
    for name in ("accuracy", "change"):
        values = np.stack([getattr(one, name) for one in single])
        found[name] = values.mean(axis=0)
        found[f"{name}_deviation"] = values.std(axis=0, ddof=1) if len(single) > 1 else np.full_like(values[0], np.nan)
    return dataclasses.replace(single[0], **found)


def features_seen(module: RE2, block: int) -> tuple[str, ...]:
    """Returns the features that alignment and fusion see in a block, counted from 0, in the order of their input.

    Some connections of the ablation pass on a single mixture in place of residual and embedding. It counts as the
    residual.
    """
    if not module.config.encoder_input:
        return ("contextual",)
    if block == 0 or module.config.parallel_blocks:
        return ("embedding", "contextual")
    if module.config.connection in ("augmented", "augmented_running_sum"):
        return ("residual", "embedding", "contextual")
    return ("residual", "contextual")


def occlusion(matcher: Matcher, split: Split) -> Occlusion:
    """Measures a trained RE2 on a split with each feature of each block masked in turn.

    Raises:
      InputError: the model is not an RE2, the task has no classes, the split is empty, or it has a label that the model
        does not know.
    """
    module = matcher.model.module
    if not isinstance(module, RE2):
        problem = f"occlusion works on RE2 only, and this is {type(module).__name__}"
        raise InputError(problem, remedy="give a run of RE2")
    if matcher.task == "regression":
        problem = "occlusion reports the accuracy of classes, and a regression has none"
        raise InputError(problem, remedy="give a run with classes")
    labels, blocks, classes = label_numbers(matcher, split), module.config.blocks, range(len(matcher.labels))
    places = [(block, FEATURES.index(name)) for block in range(blocks) for name in features_seen(module, block)]
    kept = np.ones((1 + len(places), blocks, len(FEATURES)), bool)
    for number, place in enumerate(places, start=1):
        kept[(number, *place)] = False
    right = occluded_logits(matcher, split, kept).argmax(axis=2) == labels
    pairs = np.array([np.count_nonzero(labels == each) for each in classes])
    hits = np.array([[np.count_nonzero(one[labels == each]) for each in classes] for one in right])
    accuracy = np.where(pairs, hits / np.maximum(pairs, 1), np.nan)
    change = np.full((blocks, len(FEATURES), len(classes)), np.nan)
    for number, place in enumerate(places, start=1):
        change[place] = accuracy[number] - accuracy[0]
    return Occlusion(matcher.labels, pairs, accuracy[0], change)


def occluded_logits(matcher: Matcher, split: Split, kept: np.ndarray, batch_size: int | None = None) -> np.ndarray:
    """Computes the logits of an RE2 with features masked.

    Arguments:
      matcher, split: the RE2 and the pairs.
      kept: <bool>[occlusions, blocks, features], False for a masked feature.
      batch_size: the number of pairs of similar length computed together; None: a number that suits the device.

    Returns:
      <float32>[occlusions, pairs, outputs].
    """
    model, encoded = matcher.model, matcher.encoded(pairs_of(split))
    if devices.mappings_are_scarce():
        jax.clear_caches()
    result = np.zeros((len(kept), len(split), matcher.outputs), np.float32)
    for chosen in batches(*encoded.sides, batch_size or model.batch_size):
        tokens, sentences = model.inputs(*encoded.batch(chosen), encoded.words)
        for number, one in enumerate(kept):
            result[number, chosen] = logits_without(*model.folded, encoded.words, tokens, sentences, one)[: len(chosen)]
    return result


@functools.partial(jax.jit, static_argnums=0)
def logits_without(
    module: nn.Module, params: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array, kept: jax.Array
) -> jax.Array:
    """Computes the logits of rows without the features for which `kept` <bool>[blocks, features] is False.

    `kept` is an argument of the compiled program, so one program serves all occlusions. The inputs of alignment and
    fusion are masked from outside, so that the model needs no code for it.
    """

    def masked(call, arguments, named, context):
        layer, block = context.module, context.module.parent
        is_masked = isinstance(block, Block) and layer.name in ("alignment", "fusion")
        if context.method_name != "__call__" or not is_masked:
            return call(*arguments, **named)
        number = int(block.name.removeprefix("blocks_"))
        sequence, *rest = arguments
        parts = tuple(
            jnp.where(kept[number, FEATURES.index(feature)], part, 0.0)
            for feature, part in zip(features_seen(module, number), sequence, strict=True)
        )
        return call(parts, *rest, **named)

    with nn.intercept_methods(masked):
        return module.apply({"params": params}, tokens, sentences, words, method="match")


def sheet(found: Occlusion, data: str, records: Sequence[Mapping[str, Any]] = (), setting: str = "") -> Sheet:
    """Returns the table of a result.

    Arguments:
      found: the result for a run, or for the seeds of a setting.
      data: the name of the data set and of the split.
      records: the records of the runs, if there are any.
      setting: the setting in words, for several seeds.
    """

    def texts(values: np.ndarray, spreads: np.ndarray, style: str) -> Iterator[Text]:
        for value, spread in zip(values, spreads, strict=True):
            text = format(100 * value, style) if math.isfinite(value) else "–"
            yield Text(f"{text} ± {100 * spread:.1f}" if math.isfinite(spread) else text)

    spreads = np.broadcast_to(found.accuracy_deviation, found.accuracy.shape)
    sections = [((Text("–"), Text("nothing"), *texts(found.accuracy, spreads, ".1f")),)]
    spreads = np.broadcast_to(found.change_deviation, found.change.shape)
    for block, changes in enumerate(zip(found.change, spreads, strict=True), start=1):
        rows = zip(FEATURES, *changes, strict=True)
        sections.append(tuple((Text(str(block)), Text(name), *texts(*values, "+z.1f")) for name, *values in rows))
    counts = ", ".join(f"{pairs:,} {label}" for label, pairs in zip(found.labels, found.pairs.tolist(), strict=True))
    what = "Accuracy of each class (%) and its change in points when a feature of a block is masked; "
    about, details = caption(records, (), [records]) if records else ((), ())
    return Sheet(
        title=f"Occlusion sensitivity, {setting}" if setting else "Occlusion sensitivity",
        caption=(f"{what}{data} ({counts} pairs).", *about),
        details=details,
        notes=(),
        headings=("block", "masked", *found.labels),
        numeric=(True, False, *(True for _ in found.labels)),
        sections=tuple(sections),
    )
