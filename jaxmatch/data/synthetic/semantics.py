"""The meanings of sentences, and an exact decision of what follows from them, by counting.

A *box* is a set of things, given by the allowed values of some dimensions (`lexicon`). A *claim* states that the number
of things in a box is between two bounds. The meaning of a sentence is a set of claims. It asserts some of them and
presupposes others ("the dog": exactly one dog exists; "all dogs": dogs exist). The presuppositions of both sentences
of a pair are their common ground. The first sentence entails the second if no world fulfills the first sentence, the
common ground and the opposite of a claim of the second. The sentences contradict each other if no world fulfills both
and the common ground.

A world assigns a number of things to each cell of the Venn diagram of the boxes, so the search for a world is finite
and complete.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from jaxmatch.data.synthetic.lexicon import UNIVERSES

ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"
UNBOUNDED = 99

Box = tuple[tuple[str, int], ...]  # (dimension, allowed values); other dimensions may have any value


class Claim(NamedTuple):
    """The claim that the number of things in `box` is at least `low` and at most `high`."""

    box: Box
    low: int
    high: int = UNBOUNDED


class Meaning(NamedTuple):
    """The claims that a sentence presupposes (`presupposed`) and the claims that it asserts (`asserted`)."""

    presupposed: tuple[Claim, ...]
    asserted: tuple[Claim, ...]


@functools.cache
def universe(dimension: str) -> int:
    """Returns all values of a dimension; "position:17" is the position relative to the thing of kind 17."""
    return UNIVERSES[dimension.partition(":")[0]]


def _cells(boxes: Sequence[Box]) -> tuple[int, ...]:
    """Returns the nonempty cells of the Venn diagram, each as the set of boxes (bits) that contain the cell."""
    masks: dict[str, list[int]] = {}
    for number, box in enumerate(boxes):
        for dimension, mask in box:
            masks.setdefault(dimension, [universe(dimension)] * len(boxes))[number] = mask
    cells = {(1 << len(boxes)) - 1}
    for dimension, of_boxes in masks.items():
        patterns = _patterns(universe(dimension), tuple(of_boxes))
        cells = {cell & pattern for cell in cells for pattern in patterns}
    return tuple(sorted(cells))


@functools.cache
def _patterns(values: int, masks: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the distinct sets of masks, as bits, for which some value is in exactly these masks."""
    classes = {0: values}
    for number, mask in enumerate(masks):
        split = {}
        for pattern, members in classes.items():
            if members & mask:
                split[pattern | 1 << number] = members & mask
            if members & ~mask:
                split[pattern] = members & ~mask
        classes = split
    return tuple(sorted(classes))


@functools.cache
def _world_exists(cells: tuple[int, ...], bounds: tuple[tuple[int, int], ...]) -> bool:
    """Returns whether things can be put into the cells so that the count of every box is within its bounds.

    A thing can only increase counts. A box with fewer things than its lower bound therefore needs another thing, and
    the search is complete because it tries each cell for that thing.

    Arguments:
      cells: the nonempty cells, each as the set of boxes (bits) that contain the cell.
      bounds: (least, most) number of things of each box.
    """
    lacking = next((box for box, (low, _) in enumerate(bounds) if low > 0), None)
    if lacking is None:
        return True
    for cell in cells:
        if cell >> lacking & 1 and all(high > 0 for box, (_, high) in enumerate(bounds) if cell >> box & 1):
            rest = tuple(
                (max(low - 1, 0), high - (high < UNBOUNDED)) if cell >> box & 1 else (low, high)
                for box, (low, high) in enumerate(bounds)
            )
            if _world_exists(cells, rest):
                return True
    return False


def _satisfiable(cells: tuple[int, ...], boxes: int, claims: Sequence[tuple[int, int, int]]) -> bool:
    """Returns whether some world fulfills all claims (box, low, high)."""
    bounds = [(0, UNBOUNDED)] * boxes
    for box, low, high in claims:
        bounds[box] = max(low, bounds[box][0]), min(high, bounds[box][1])
    return all(low <= high for low, high in bounds) and _world_exists(cells, tuple(bounds))


def _entails(cells: tuple[int, ...], boxes: int, premises: tuple, conclusion: tuple[int, int, int]) -> bool:
    box, low, high = conclusion
    if low > 0 and _satisfiable(cells, boxes, (*premises, (box, 0, low - 1))):
        return False
    return high == UNBOUNDED or not _satisfiable(cells, boxes, (*premises, (box, high + 1, UNBOUNDED)))


@functools.cache
def _relation(cells: tuple[int, ...], boxes: int, ground: tuple, first: tuple, second: tuple) -> str | None:
    if not _satisfiable(cells, boxes, ground + first) or not _satisfiable(cells, boxes, ground + second):
        return None
    if not _satisfiable(cells, boxes, ground + first + second):
        return CONTRADICTION
    return ENTAILMENT if all(_entails(cells, boxes, ground + first, claim) for claim in second) else NEUTRAL


def relation(first: Meaning, second: Meaning) -> str | None:
    """Returns the relation of the second sentence to the first.

    Returns:
      "entailment", "neutral" or "contradiction"; None if one sentence contradicts itself or a presupposition of either
      sentence.
    """
    numbers: dict[Box, int] = {}

    def numbered(claims: Sequence[Claim]) -> tuple[tuple[int, int, int], ...]:
        return tuple([(numbers.setdefault(box, len(numbers)), low, high) for box, low, high in claims])

    ground, asserted_first, asserted_second = (
        numbered(first.presupposed + second.presupposed),
        numbered(first.asserted),
        numbered(second.asserted),
    )
    return _relation(_cells(tuple(numbers)), len(numbers), ground, asserted_first, asserted_second)
