"""Generates many sentence pairs from few, by exchanging words for others of the same text. No two sentences are equal.

A word is exchanged only for one of its kind (the same ending, and the same case of the first letter), drawn in
proportion to its frequency. The most common words, mostly function words, are kept where possible. The vocabulary
therefore stays the same, and each word is about as frequent as before.
"""

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from jaxmatch.data.pairs import Split

# First sentence, second sentence, label.
Pair = tuple[str, str, str]

_WORD = re.compile(r"([^\W\d_]+(?:['’-][^\W\d_]+)*)")
_ENDINGS = ("ing", "ed", "er", "ly", "s")
# The number of words of a text that count as its most common ones. They are exchanged, for each other, only if a
# sentence would otherwise be a repetition.
_COMMONEST = 60
# The share of words that are exchanged: at first, and after a repetition.
_EXCHANGED = (0.4, 0.8)
# How often a sentence is drawn before another one is appended to it. Two words give only so many sentences.
_TRIES = 20

# (ending, whether the first letter is a capital) of a word.
Kind = tuple[str, bool]


def pairs_of(splits: Iterable[Split]) -> list[Pair]:
    """Returns the pairs of some splits of a classification data set, in order."""
    return [pair for split in splits for pair in zip(split.text_a, split.text_b, split.labels, strict=True)]


def words_of(given: Iterable[Pair]) -> list[str]:
    """Returns the distinct words of some pairs, in lower case, in order of appearance."""
    found = (word.lower() for a, b, _ in given for sentence in (a, b) for word in _WORD.findall(sentence))
    return list(dict.fromkeys(found))


class Exchange:
    """A generator of sentences from given ones. Each sentence is different from all earlier ones.

    Arguments:
      sentences: the given text.
      seed: the seed. The same seed gives the same sentences.
    """

    def __init__(self, sentences: Iterable[str], seed: int):
        self._random, self._made = random.Random(seed), set()
        self._given = list(dict.fromkeys(sentence.strip() for sentence in sentences))
        counts = Counter(word for sentence in self._given for word in _WORD.findall(sentence))
        folded: Counter[str] = Counter()
        for word, count in counts.items():
            folded[word.lower()] += count
        commonest = {word for word, _ in folded.most_common(_COMMONEST)}
        self._kinds = {word: _kind(word, commonest) for word in counts}
        words: dict[Kind, list[str]] = {}
        for word, kind in self._kinds.items():
            words.setdefault(kind, []).append(word)
        self._drawn = {kind: self._draw(each, [counts[word] for word in each]) for kind, each in words.items()}

    def sentence(self, given: str) -> str:
        """Returns a new sentence, made from `given`, a sentence of the given text, by exchanging some of its words."""
        parts, share = _WORD.split(given.strip()), _EXCHANGED[0]
        for attempt in itertools.count(1):
            made = "".join(
                self._other(part, attempt > 1) if number % 2 and self._random.random() < share else part
                for number, part in enumerate(parts)
            )
            if made not in self._made:
                self._made.add(made)
                return made
            share = _EXCHANGED[1]
            if attempt % _TRIES == 0:
                before, *words = _WORD.split(self._random.choice(self._given))
                parts = [*parts[:-1], f"{parts[-1]} {before}", *words]
        raise AssertionError("unreachable")

    def _other(self, word: str, commonest_too: bool) -> str:
        kind = self._kinds[word]
        return word if kind[0] == "commonest" and not commonest_too else next(self._drawn[kind])

    def _draw(self, words: list[str], counts: list[int]) -> Iterator[str]:
        bounds = list(itertools.accumulate(counts))
        while True:  # many at once, because one by one they take ten times as long
            yield from self._random.choices(words, cum_weights=bounds, k=1000)


def _kind(word: str, commonest: set[str]) -> Kind:
    ending = "commonest" if word.lower() in commonest else next((end for end in _ENDINGS if word.endswith(end)), "")
    return ending, word[0].isupper()


def write_snli(folder: Path, given: Sequence[Pair], sizes: Mapping[str, int], seed: int = 0) -> dict[str, int]:
    """Writes SNLI's official files with new text. The files have all their fields, and no two sentences are equal.

    Arguments:
      folder: the folder that will hold snli_1.0/snli_1.0_{train,dev,test}.jsonl.
      given: the pairs to make new ones from, taken round and round.
      sizes: split -> the number of pairs.
      seed: the seed. The same seed writes the same bytes.

    Returns:
      Split -> the bytes written.
    """
    exchange = Exchange((sentence for a, b, _ in given for sentence in (a, b)), seed)
    source, numbers, written = itertools.cycle(given), itertools.count(), {}
    (folder / "snli_1.0").mkdir(parents=True, exist_ok=True)
    for split, size in sizes.items():
        path = folder / "snli_1.0" / f"snli_1.0_{split}.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            for number, (a, b, label) in zip(itertools.islice(numbers, size), source):
                file.write(json.dumps(_record(number, exchange.sentence(a), exchange.sentence(b), label)) + "\n")
        written[split] = path.stat().st_size
    return written


def _record(number: int, a: str, b: str, label: str) -> dict[str, object]:
    """Returns a pair in the format of the official files. The parses are not real, but a reader meets them."""
    return {
        "annotator_labels": [label],
        "captionID": f"{number:010d}.jpg#0",
        "gold_label": label,
        "pairID": f"{number:010d}.jpg#0r1{label[0]}",
        "sentence1": a,
        "sentence1_binary_parse": _binary_parse(a),
        "sentence1_parse": _parse(a),
        "sentence2": b,
        "sentence2_binary_parse": _binary_parse(b),
        "sentence2_parse": _parse(b),
    }


def _binary_parse(sentence: str) -> str:
    words = sentence.split()
    return "".join(f"( {word} " for word in words) + ")" + " )" * (len(words) - 1)


def _parse(sentence: str) -> str:
    return "(ROOT (S " + " ".join(f"(NP (NN {word}))" for word in sentence.split()) + "))"
