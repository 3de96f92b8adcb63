"""Much text made from little: given pairs with words exchanged for others of the same text, until no two sentences are
equal.

A word is only exchanged for one of its kind (the same ending, capital letter or none), drawn as often as it occurs; the
commonest words, which hold a sentence together, stay where they can. So the vocabulary is the given one, and each word
about as frequent as it was.
"""

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from jaxmatch.data.dataset import Split

# First sentence, second sentence, label.
Pair = tuple[str, str, str]

_WORD = re.compile(r"([^\W\d_]+(?:['’-][^\W\d_]+)*)")
_ENDINGS = ("ing", "ed", "er", "ly", "s")
# How many words of a text count as its commonest; they are exchanged, for each other, only where a sentence is there
# already.
_COMMONEST = 60
# The share of words that are exchanged, at first and where a sentence is there already.
_EXCHANGED = (0.4, 0.8)
# So often a sentence is drawn again before another is added to it: two words give only so many sentences.
_TRIES = 20

# (ending, whether there is a capital letter) of a word.
Kind = tuple[str, bool]


def pairs_of(splits: Iterable[Split]) -> list[Pair]:
    """The pairs of some splits of a classification, in order."""
    return [pair for split in splits for pair in zip(split.text_a, split.text_b, split.labels, strict=True)]


def words_of(given: Iterable[Pair]) -> list[str]:
    """The distinct words of some pairs, lower-cased, in order of appearance."""
    found = (word.lower() for a, b, _ in given for sentence in (a, b) for word in _WORD.findall(sentence))
    return list(dict.fromkeys(found))


class Exchange:
    """Makes sentences out of given ones, each different from all it has made before.

    Arguments:
      sentences: the given text.
      seed: the same seed makes the same sentences.
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
        """A sentence that has not been made yet, of the words of `given`, one of the given text, and others."""
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
        while True:  # many at once: drawn one by one they cost ten times as much
            yield from self._random.choices(words, cum_weights=bounds, k=1000)


def _kind(word: str, commonest: set[str]) -> Kind:
    ending = "commonest" if word.lower() in commonest else next((end for end in _ENDINGS if word.endswith(end)), "")
    return ending, word[0].isupper()


def write_snli(folder: Path, given: Sequence[Pair], sizes: Mapping[str, int], seed: int = 0) -> dict[str, int]:
    """Writes SNLI's official files with new text: all their fields, no two sentences equal.

    Arguments:
      folder: will hold snli_1.0/snli_1.0_{train,dev,test}.jsonl.
      given: pairs to make new ones from, taken round and round.
      sizes: split -> how many pairs.
      seed: the same seed writes the same bytes.

    Returns:
      Split -> bytes written.
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
    """A pair as the official file has it. The parses are no real ones: what matters is that a reader meets them."""
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
