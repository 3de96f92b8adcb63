"""Chance that is the same on every platform and in every Python."""

import random
from collections.abc import Sequence
from typing import Any


class Draws:
    """Draws made from `random.Random(seed).random()` alone.

    Python promises that sequence for ever; of `choice`, `shuffle` and `sample` it does not.

    Arguments:
      seed: the integer that fixes all draws.
    """

    def __init__(self, seed: int):
        self._next = random.Random(seed).random

    def below(self, count: int) -> int:
        """A whole number in 0 .. count - 1."""
        return int(self._next() * count)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._next() < probability

    def one_of(self, things: Sequence[Any]) -> Any:
        """One of the things, all equally likely."""
        return things[int(self._next() * len(things))]

    def shuffled(self, things: Sequence[Any]) -> list[Any]:
        """The things in a new order (Fisher and Yates)."""
        order = list(things)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order
