"""Random draws that are the same on every platform and in every version of Python."""

import random
from collections.abc import Sequence
from typing import Any


class Draws:
    """A source of random draws that uses only `random.Random(seed).random()`.

    Python promises never to change the sequence of `random`, but does not promise this for `choice`, `shuffle` and
    `sample`.

    Arguments:
      seed: the integer that determines all draws.
    """

    def __init__(self, seed: int):
        self._next = random.Random(seed).random

    def below(self, count: int) -> int:
        """Returns a random integer from 0 to count - 1."""
        return int(self._next() * count)

    def chance(self, probability: float) -> bool:
        """Returns True with the given probability."""
        return self._next() < probability

    def one_of(self, things: Sequence[Any]) -> Any:
        """Returns one of the things, each with equal probability."""
        return things[int(self._next() * len(things))]

    def shuffled(self, things: Sequence[Any]) -> list[Any]:
        """Returns the things in a random order (Fisher and Yates)."""
        order = list(things)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order
