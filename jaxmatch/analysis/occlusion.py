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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch import devices
from jaxmatch.analysis.evaluate import label_numbers, pairs_of
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError, without_nan
from jaxmatch.inference.inference_model import batches, pad_batch
from jaxmatch.inference.matcher import Matcher
from jaxmatch.models.re2 import RE2, Block
from jaxmatch.reporting import formats
from jaxmatch.reporting.formats import Sheet, Text, csv_text
from jaxmatch.reporting.table import caption

FEATURES = ("embedding", "residual", "contextual")  # the paper's "embed", "residual" and "enc-out"


@dataclasses.dataclass(frozen=True)
class Occlusion:
    """The change of accuracy without a feature, class by class.

    Attributes:
      labels: the classes.
      pairs: <int64>[classes], the number of pairs of each class.
      accuracy: <float64>[classes], the share of the pairs of a class that the whole model predicts correctly; NaN for a
        class without pairs.
      change: <float64>[blocks, features, classes], the change of that share without the feature (`FEATURES`); NaN for a
        feature that a block does not have.
    """

    labels: tuple[str, ...]
    pairs: np.ndarray
    accuracy: np.ndarray
    change: np.ndarray

    def as_json(self) -> dict[str, Any]:
        """Returns the plain values from which `reporting.figures` draws the figure; None stands for NaN."""
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
    """The change of accuracy without a feature, over the seeds of a setting.

    Attributes:
      single: the result for the model of each seed.
      mean: the means over the seeds.
      accuracy_deviation: <float64>[classes], the sample standard deviation of `accuracy`; NaN for a single seed.
      change_deviation: <float64>[blocks, features, classes], the sample standard deviation of `change`.
    """

    single: tuple[Occlusion, ...]
    mean: Occlusion
    accuracy_deviation: np.ndarray
    change_deviation: np.ndarray

    def as_json(self, seeds: Sequence[int]) -> dict[str, Any]:
        """Returns the plain values of `Occlusion.as_json` for the means, with the deviations and each seed's values."""
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
    """Computes mean and sample standard deviation over models that differ only in the seed, for the same pairs.

    Raises:
      InputError: the models differ in their labels or blocks, or were measured on different pairs.
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


def occlusion(matcher: Matcher, split: Split, batch_size: int | None = None) -> Occlusion:
    """Measures a model on a split with each feature of each block masked in turn.

    Arguments:
      matcher: a trained RE2.
      split: the pairs.
      batch_size: as in `occluded_logits`.

    Raises:
      InputError: the model is not an RE2, the task has no classes, the split is empty, or it has a label that the model
        does not know.
    """
    module = matcher.model.module
    if not isinstance(module, RE2):
        raise InputError(
            f"occlusion works on RE2 only, and this is {type(module).__name__}", remedy="give a run of RE2"
        )
    if matcher.task == "regression":
        raise InputError(
            "occlusion reports the accuracy of classes, and a regression has none", remedy="give a run with classes"
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
    """Computes the logits of an RE2 with features masked.

    Arguments:
      matcher: a trained RE2.
      split: the pairs.
      kept: <bool>[occlusions, blocks, features], False for a masked feature.
      batch_size: the number of pairs of similar length computed together; None: a number that suits the device.

    Returns:
      <float32>[occlusions, pairs, outputs].
    """
    model = matcher.model
    devices.clear_programs_if_scarce()
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
    # `kept` is an argument of the compiled program, so one program serves all occlusions.
    with nn.intercept_methods(_masking(module, kept)):
        return module.apply({"params": params}, tokens, sentences, words, method="match")


def _masking(module: RE2, kept: jax.Array) -> Callable:
    """Returns an interceptor that masks the inputs of alignment and fusion, so that the model needs no code for it.

    Arguments:
      module: the model.
      kept: <bool>[blocks, features], False for a masked feature.
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


@dataclasses.dataclass(frozen=True)
class Occluded:
    """The result of an occlusion analysis, and what it was measured on.

    Attributes:
      mean: the result of a run, or the mean over the seeds of a setting.
      data: the name of the data set and of the split.
      records: the checked records of the runs; empty for a model without a record.
      setting: the setting of the runs in words; "" for a single run.
      accuracy_deviation: <float64>[classes], the standard deviation over the seeds; None for a single run.
      change_deviation: <float64>[blocks, features, classes], the standard deviation over the seeds; None for a single
        run.
    """

    mean: Occlusion
    data: str
    records: tuple[Mapping[str, Any], ...]
    setting: str = ""
    accuracy_deviation: np.ndarray | None = None
    change_deviation: np.ndarray | None = None

    def lines(self) -> Iterator[tuple[int, str, np.ndarray, np.ndarray | None]]:
        """Yields (block counted from 1, masked feature, change of each class, its deviation)."""
        for block, changes in enumerate(self.mean.change):
            for number, feature in enumerate(FEATURES):
                spread = None if self.change_deviation is None else self.change_deviation[block, number]
                yield block + 1, feature, changes[number], spread


def occlusions(found: Sequence[Occluded], format: str) -> str:
    """Formats the results as "markdown" or "latex", one table each, or as "csv", one table for all."""
    if format == "csv":
        return _as_csv(found)
    return "\n".join({"markdown": formats.markdown, "latex": formats.latex}[format](_sheet(one)) for one in found)


def _texts(values: np.ndarray, spreads: np.ndarray | None, style: str) -> Iterator[Text]:
    for number, value in enumerate(values):
        text = format(100 * value, style) if math.isfinite(value) else "–"
        spread = math.nan if spreads is None else spreads[number]
        yield Text(f"{text} ± {100 * spread:.1f}" if math.isfinite(spread) else text)


def _sheet(one: Occluded) -> Sheet:
    whole = (Text("–"), Text("nothing"), *_texts(one.mean.accuracy, one.accuracy_deviation, ".1f"))
    blocks: dict[int, list[tuple[Text, ...]]] = {}
    for block, feature, change, spread in one.lines():
        blocks.setdefault(block, []).append((Text(str(block)), Text(feature), *_texts(change, spread, "+z.1f")))
    counts = ", ".join(
        f"{pairs:,} {label}" for label, pairs in zip(one.mean.labels, one.mean.pairs.tolist(), strict=True)
    )
    what = (
        "Accuracy of each class (%) and its change in points when a feature of a block is masked; "
        f"{one.data} ({counts} pairs)."
    )
    return Sheet(
        title=f"Occlusion sensitivity, {one.setting}" if one.setting else "Occlusion sensitivity",
        caption=(what, *(caption(one.records, (), [one.records], each="") if one.records else ())),
        notes=(),
        headings=("block", "masked", *one.mean.labels),
        numeric=(True, False, *(True for _ in one.mean.labels)),
        spans=(),
        sections=((whole,), *(tuple(rows) for rows in blocks.values())),
    )


def _as_csv(found: Sequence[Occluded]) -> str:
    """Formats the results as CSV: one line a setting, block, feature and class.

    Accuracies and their changes are shares of 1; undefined values are empty.
    """

    def plain(values: np.ndarray | None, label: int) -> float | None:
        return None if values is None else without_nan(float(values[label]))

    rows: list[tuple[Any, ...]] = [
        (
            "setting",
            "runs",
            "data",
            "block",
            "masked",
            "class",
            "pairs",
            "accuracy",
            "accuracy.std",
            "change",
            "change.std",
        )
    ]
    for one in found:
        for block, feature, change, spread in one.lines():
            for number, (label, pairs) in enumerate(zip(one.mean.labels, one.mean.pairs.tolist(), strict=True)):
                of_class = plain(one.mean.accuracy, number), plain(one.accuracy_deviation, number)
                of_change = plain(change, number), plain(spread, number)
                start = one.setting, len(one.records), one.data, block, feature, label, pairs
                rows.append((*start, *of_class, *of_change))
    return csv_text(rows)
