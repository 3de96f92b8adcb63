"""A choice of examples that keeps shallow features from predicting a label."""

from collections.abc import Iterable, Sequence


class Balance:
    """Counts of features by label, and a choice of examples that keeps the counts balanced.

    Arguments:
      labels: the number of labels.
    """

    def __init__(self, labels: int):
        self._labels = labels
        self._counts: dict[str, list[int]] = {}

    def excess(self, features: Iterable[str], label: int) -> float:
        """Returns how much more often the features occurred with this label than with the average label, summed."""
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
        """Chooses and counts the candidate that disturbs the balance least; the first of equal candidates.

        Arguments:
          candidates: the features of each candidate.
          label: the label that the candidates share.

        Returns:
          The position of the chosen candidate.
        """
        excesses = [self.excess(features, label) for features in candidates]
        best = excesses.index(min(excesses))
        self.add(candidates[best], label)
        return best


def shallow_features(text: str, other: str) -> list[str]:
    """Returns the features of `text` that can be seen without aligning the two sentences.

    These are the words of `text`, its length, and how many distinct words both sentences share, only `text` has, and
    only `other` has.
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
