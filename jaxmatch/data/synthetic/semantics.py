"""What sentences mean, and what follows from them: exact, by counting.

A *box* is a set of things: for some dimensions the values allowed (`lexicon`). A *claim* says that the number of things
in a box lies between two bounds. A sentence means a set of claims: some it asserts, some it takes for granted ("the
dog": there is exactly one dog; "all dogs": there are dogs). What is taken for granted by either sentence of a pair is
common ground for both. One sentence entails another when no world fulfils the first, the common ground and the opposite
of a claim of the second; they contradict each other when no world fulfils both.

A world is a number of things for each cell of the Venn diagram of the boxes, so the search for one is finite and
complete.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from jaxmatch.data.synthetic.lexicon import UNIVERSES

ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"
UNBOUNDED = 99

Box = tuple[tuple[str, int], ...]  # (dimension, allowed values); dimensions not named are free


class Claim(NamedTuple):
    """The number of things in `box` is at least `low` and at most `high`."""

    box: Box
    low: int
    high: int = UNBOUNDED


class Meaning(NamedTuple):
    """What a sentence takes for granted, and what it says."""

    granted: tuple[Claim, ...]
    said: tuple[Claim, ...]


@functools.cache
def universe(dimension: str) -> int:
    """All values of a dimension; "position:17" is the position from the thing of kind 17."""
    return UNIVERSES[dimension.partition(":")[0]]


def _cells(boxes: Sequence[Box]) -> tuple[int, ...]:
    """The cells of the Venn diagram that exist, each as the set of boxes (bits) it lies in."""
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
    """Which of the masks hold a value, as bits: every combination that some value has."""
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
    """Whether things can be put in the cells so that every count is in its bounds.

    Arguments:
      cells: the cells that exist, each as the set of boxes (bits) it lies in.
      bounds: (least, most) things of each box; things only ever add to counts, so a box that lacks one must be
        given one, and trying each cell for it is complete.
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
    """Whether some world fulfils all the claims (box, low, high)."""
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
    """The relation of the second sentence to the first.

    Returns:
      "entailment", "neutral" or "contradiction"; None where one sentence denies itself or what the other takes for
      granted.
    """
    numbers: dict[Box, int] = {}

    def numbered(claims: Sequence[Claim]) -> tuple[tuple[int, int, int], ...]:
        return tuple([(numbers.setdefault(box, len(numbers)), low, high) for box, low, high in claims])

    ground, said_first, said_second = (
        numbered(first.granted + second.granted),
        numbered(first.said),
        numbered(second.said),
    )
    return _relation(_cells(tuple(numbers)), len(numbers), ground, said_first, said_second)
