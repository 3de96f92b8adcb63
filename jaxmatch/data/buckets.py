"""Length buckets: the few static shapes that the pairs of a split are padded to.

A compiled program has fixed shapes, so every pair is padded to one of a few (length a, length b) shapes. The tokens
that a shape adds are work for nothing; the shapes are chosen to add as few as possible.
"""

import dataclasses

import numpy as np

from jaxmatch.errors import InputError

# More distinct lengths than this on one side are rounded up to this many before shapes are searched for; the search
# grows with the product of both sides and the last few tokens of a very long text do not change which shapes are good.
_MAXIMUM_CANDIDATES = 32
# Rounds of moving one shape while the others stand; the gain after the second is already small.
_IMPROVEMENT_ROUNDS = 10


@dataclasses.dataclass(frozen=True, order=True)
class Bucket:
    """A static shape: pairs with at most `length_a` and `length_b` tokens fit."""

    length_a: int
    length_b: int

    @property
    def tokens(self) -> int:
        """Tokens a pair costs in this shape, padding included."""
        return self.length_a + self.length_b

    def contains(self, other: "Bucket") -> bool:
        """Whether every pair that fits `other` fits here."""
        return other.length_a <= self.length_a and other.length_b <= self.length_b


def plan_buckets(lengths_a: np.ndarray, lengths_b: np.ndarray, *, maximum_buckets: int) -> tuple[Bucket, ...]:
    """Chooses the shapes that pad a split's pairs with few tokens.

    Shapes are added one at a time, each time the one that saves most tokens; after each, every shape is moved to where
    it saves most while the others stand, until nothing moves. The result depends on nothing but the lengths.

    Arguments:
      lengths_a: <int32>[pairs], tokens of the first sentences, 1 or more.
      lengths_b: <int32>[pairs], tokens of the second sentences.
      maximum_buckets: at most this many shapes.

    Returns:
      Distinct shapes, sorted; the last one is (longest a, longest b), which every pair fits.
    """
    lengths_a, lengths_b = _checked(lengths_a, lengths_b)
    if maximum_buckets < 1:
        raise InputError(f"{maximum_buckets} length buckets cannot hold a split", remedy="ask for 1 or more")
    if len(lengths_a) == 0:
        raise InputError("a split without pairs has no length buckets")
    sizes_a, sizes_b = _candidate_lengths(lengths_a), _candidate_lengths(lengths_b)
    counts = np.zeros((len(sizes_a), len(sizes_b)), np.int64)
    np.add.at(counts, (np.searchsorted(sizes_a, lengths_a), np.searchsorted(sizes_b, lengths_b)), 1)
    search = _Search(sizes_a, sizes_b, counts)
    chosen = [(len(sizes_a) - 1, len(sizes_b) - 1)]
    while len(chosen) < maximum_buckets:
        place, saved = search.best_addition(chosen)
        if saved <= 0:
            break
        chosen = search.improve([*chosen, place])
    return tuple(sorted({Bucket(int(sizes_a[row]), int(sizes_b[column])) for row, column in chosen}))


def assign(lengths_a: np.ndarray, lengths_b: np.ndarray, buckets: tuple[Bucket, ...]) -> np.ndarray:
    """Gives every pair the cheapest bucket that holds it; the first of equally cheap ones.

    Arguments:
      lengths_a, lengths_b: <int32>[pairs].
      buckets: the shapes; one must hold every pair.

    Returns:
      <int32>[pairs], positions in `buckets`.

    Raises:
      InputError: a pair fits no bucket.
    """
    lengths_a, lengths_b = _checked(lengths_a, lengths_b)
    assignment = np.full(len(lengths_a), -1, np.int32)
    by_cost = sorted(range(len(buckets)), key=lambda index: (buckets[index].tokens, index))
    for index in reversed(by_cost):  # cheaper ones come last and overwrite
        fits = (lengths_a <= buckets[index].length_a) & (lengths_b <= buckets[index].length_b)
        assignment[fits] = index
    if np.any(assignment < 0):
        row = int(np.argmax(assignment < 0))
        raise InputError(f"pair {row} with {lengths_a[row]} and {lengths_b[row]} tokens fits no length bucket")
    return assignment


def padding_share(lengths_a: np.ndarray, lengths_b: np.ndarray, buckets: tuple[Bucket, ...]) -> float:
    """The share of padding among all tokens when every pair is padded to its bucket; between 0 and 1."""
    lengths_a, lengths_b = _checked(lengths_a, lengths_b)
    costs = np.array([bucket.tokens for bucket in buckets], np.int64)
    total = int(costs[assign(lengths_a, lengths_b, buckets)].sum())
    return 1.0 - int(lengths_a.sum() + lengths_b.sum()) / total if total else 0.0


def _checked(lengths_a: np.ndarray, lengths_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lengths_a, lengths_b = np.asarray(lengths_a, np.int64), np.asarray(lengths_b, np.int64)
    if lengths_a.ndim != 1 or lengths_a.shape != lengths_b.shape:
        raise ValueError(f"lengths of shapes {lengths_a.shape} and {lengths_b.shape} do not describe the same pairs")
    return lengths_a, lengths_b


def _candidate_lengths(lengths: np.ndarray) -> np.ndarray:
    """Sorted distinct lengths, thinned to evenly populated ones when there are many; the longest is always there."""
    distinct = np.unique(lengths)
    if len(distinct) <= _MAXIMUM_CANDIDATES:
        return distinct
    places = np.linspace(0, len(lengths) - 1, _MAXIMUM_CANDIDATES // 2).round().astype(np.int64)
    by_population = np.sort(lengths)[places]
    # Half of the candidates follow the range instead of the population: the few long pairs cost most each.
    by_range = distinct[np.linspace(0, len(distinct) - 1, _MAXIMUM_CANDIDATES // 2).round().astype(np.int64)]
    return np.union1d(by_population, by_range)


class _Search:
    """Savings of shapes on a grid of candidate lengths.

    Arguments:
      sizes_a: <int64>[rows], candidate lengths of a, ascending.
      sizes_b: <int64>[columns], candidate lengths of b.
      counts: <int64>[rows, columns], how many pairs have these lengths.
    """

    def __init__(self, sizes_a: np.ndarray, sizes_b: np.ndarray, counts: np.ndarray):
        self._counts = counts
        self._costs = sizes_a[:, None] + sizes_b[None, :]

    def _prices(self, chosen: list[tuple[int, int]]) -> np.ndarray:
        """<int64>[rows, columns], what a pair of each cell costs in the cheapest chosen shape."""
        prices = np.full(self._costs.shape, self._costs[-1, -1])
        for row, column in chosen:
            region = prices[: row + 1, : column + 1]
            np.minimum(region, self._costs[row, column], out=region)
        return prices

    def saving(self, chosen: list[tuple[int, int]], place: tuple[int, int]) -> int:
        """Tokens that the shape at `place` saves beside the chosen ones."""
        row, column = place
        gains = np.maximum(self._prices(chosen) - self._costs[row, column], 0) * self._counts
        return int(gains[: row + 1, : column + 1].sum())

    def best_addition(self, chosen: list[tuple[int, int]]) -> tuple[tuple[int, int], int]:
        """The place whose shape saves most beside the chosen ones, and how many tokens it saves."""
        prices = self._prices(chosen)
        best, best_saving = (0, 0), -1
        # All places of one cost share the saving of a cell, so one two-way cumulative sum serves them all.
        for cost in np.unique(self._costs):
            rows, columns = np.nonzero(self._costs == cost)
            savings = (np.maximum(prices - cost, 0) * self._counts).cumsum(0).cumsum(1)[rows, columns]
            index = int(np.argmax(savings))
            if savings[index] > best_saving:
                best, best_saving = (int(rows[index]), int(columns[index])), int(savings[index])
        return best, best_saving

    def improve(self, chosen: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Moves shapes, one at a time, until no move saves more; the first is the universal one and stays."""
        chosen = list(chosen)
        for _ in range(_IMPROVEMENT_ROUNDS):
            moved = False
            for index in range(1, len(chosen)):
                others = chosen[:index] + chosen[index + 1 :]
                place, saved = self.best_addition(others)
                if saved > self.saving(others, chosen[index]):
                    chosen[index], moved = place, True
            if not moved:
                break
        return chosen
