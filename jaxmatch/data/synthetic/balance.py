"""Choosing examples so that nothing shallow goes with a label."""

from collections.abc import Iterable, Sequence


class Balance:
    """Counts of features by label, and the choice that keeps them level.

    Arguments:
      labels: how many labels there are.
    """

    def __init__(self, labels: int):
        self._labels = labels
        self._counts: dict[str, list[int]] = {}

    def excess(self, features: Iterable[str], label: int) -> float:
        """How much more often the features went with this label than with the average one, summed."""
        total = 0.0
        for feature in features:
            counts = self._counts.get(feature)
            if counts is not None:
                total += counts[label] - sum(counts) / self._labels
        return total

    def add(self, features: Iterable[str], label: int) -> None:
        """Counts one chosen example."""
        for feature in features:
            self._counts.setdefault(feature, [0] * self._labels)[label] += 1

    def choose(self, candidates: Sequence[Sequence[str]], label: int) -> int:
        """Takes the candidate (a sequence of features each) that disturbs the balance least, the first of equals.

        Returns:
          Its position.
        """
        excesses = [self.excess(features, label) for features in candidates]
        best = excesses.index(min(excesses))
        self.add(candidates[best], label)
        return best


def shallow_features(text: str, other: str) -> list[str]:
    """What a reader who aligns nothing could see: the words of `text`, its length, and how many words both sentences
    share.
    """
    words, others = text.split(), set(other.split())
    distinct = list(dict.fromkeys(words))
    shared = sum(word in others for word in distinct)
    return [
        *distinct,
        f"length {len(words)}",
        f"shared {shared}",
        f"own {len(distinct) - shared}",
        f"missing {len(others) - shared}",
    ]
