"""One file split into train, dev and test, the same in every run and on every machine."""

import hashlib
import json
from collections.abc import Hashable, Sequence
from fractions import Fraction

from jaxmatch.data.dataset import Split, pair_keys
from jaxmatch.errors import InputError


def split_by_shares(whole: Split, shares: Sequence[Fraction], seed: int) -> list[Split]:
    """Splits the pairs of a file by shares.

    Pairs of the same two texts stay together, up to order, case and punctuation, and so do the pairs of a group. These
    units are taken in the order of the SHA-256 of the seed and their text, so that the parts do not depend on the order
    of the file. Pairs keep the order of the file. Dropped pairs are counted with the first part.

    Arguments:
      whole: the pairs of the file.
      shares: the share of each part; their sum is 1.
      seed: the seed that decides which pairs go into which part.

    Returns:
      One part for each share.

    Raises:
      InputError: a part has no pair.
    """
    keys = pair_keys(whole)
    units: Sequence[Hashable] = _joined_groups(whole.groups, keys) if whole.groups else keys
    sizes: dict[Hashable, int] = {}
    for unit in units:
        sizes[unit] = sizes.get(unit, 0) + 1
    order = sorted(sizes, key=lambda unit: hashlib.sha256(json.dumps([seed, unit]).encode()).digest())
    place: dict[Hashable, int] = {}
    number, before, ends = 0, 0, shares[0] * len(whole)
    for unit in order:
        while before >= ends and number + 1 < len(shares):
            number += 1
            ends += shares[number] * len(whole)
        place[unit] = number
        before += sizes[unit]
    rows: list[list[int]] = [[] for _ in shares]
    for row, unit in enumerate(units):
        rows[place[unit]].append(row)
    if not all(rows):
        raise InputError(
            f"the split leaves a part without pairs: {len(whole)} pairs in {len(order)} groups that stay together",
            path=whole.source,
            remedy="give other shares, or a file of its own for each split",
        )
    return [whole.part(found, {} if number else whole.dropped) for number, found in enumerate(rows)]


def _joined_groups(groups: Sequence[str], keys: Sequence[Hashable]) -> list[str]:
    """Returns the unit of each pair, named by its first group in the order of texts. Groups that share a pair, by its
    key, are in one unit.
    """
    parents = {group: group for group in groups}

    def unit_of(group: str) -> str:
        while parents[group] != group:
            parents[group] = group = parents[parents[group]]
        return group

    group_of_key: dict[Hashable, str] = {}
    for group, key in zip(groups, keys, strict=True):
        first, second = sorted((unit_of(group), unit_of(group_of_key.setdefault(key, group))))
        parents[second] = first
    return [unit_of(group) for group in groups]
