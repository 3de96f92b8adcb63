"""Search in many stored texts: a prefilter finds candidates, and the model ranks them.

A text's score is (1 - mix) times the model's score plus mix times the prefilter's, from 0 to 1 over the candidates of a
query. A model that has seen few texts without anything in common may otherwise rank such a text above an equal one.

A saved index is a folder of plain arrays and JSON:

    index.json     format number, prefilter, mix, number of texts, fingerprint of the vocabulary, checksums of all files
    texts.jsonl    one text per line, as a JSON string
    lines.json     the number of each text, such as its line in the file that it came from
    prefilter/     the files of the prefilter
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import operator
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from jaxmatch import files
from jaxmatch.data.pairs import Split
from jaxmatch.data.text import UNKNOWN, WordTable
from jaxmatch.errors import InputError, NotInstalled, report_damage
from jaxmatch.inference.matcher import Candidate, Matcher, listed_texts
from jaxmatch.inference.model_folder import check_replaceable, read_checked

FORMAT = 2
_INDEX, _TEXTS, _LINES, _PREFILTER = "index.json", "texts.jsonl", "lines.json", "prefilter"
_REMEDY = "make the index again"
# A prefilter is the cosine of mean word vectors, or BM25 over all words, also those outside the vocabulary.
PREFILTERS = ("vectors", "bm25")
MIXES, DEFAULT_MIX = np.linspace(0, 1, 11), 0.5
# The pairs of dev that choose a mix, and the texts that the model ranks for each: some seconds on a CPU.
_CHOOSING_PAIRS, _CHOOSING_CANDIDATES = 50, 30


def mean_vectors(matcher: Matcher, texts: Sequence[str]) -> np.ndarray:
    """Computes the mean vector of the known words of each text, scaled to length 1, <float32>[texts, dimensions].

    It is 0 for a text without a known word. With hashed vectors, all words are known.
    """
    encoded = matcher.encoded([(text, "") for text in texts], features=False)
    table = np.asarray(encoded.words.vectors if isinstance(encoded.words, WordTable) else encoded.words)
    means = np.zeros((len(texts), table.shape[1]), np.float32)
    for mean, ids in zip(means, encoded.sides[0], strict=True):
        if known := [number for number in ids if number > UNKNOWN]:
            mean += table[known].sum(axis=0)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.divide(means, lengths, out=means, where=lengths > 0)


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError:
        raise NotInstalled("BM25", "bm25s", "search", "or take the prefilter 'vectors'") from None
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # otherwise it logs each step
    return bm25s


class SearchIndex:
    """Stored texts that are searched for matches of a query; made by `Matcher.index` or `Matcher.load_index`.

    Attributes:
      matcher, texts: the model that ranks the candidates, and the stored texts.
      prefilter: the name of the prefilter: "vectors" or "bm25".
      lines: a number for each text, such as its line in a file; by default 1, 2, 3, ...
      mix: the share of the prefilter in a text's score, 0.5 unless it is given or chosen (`chosen_mix`).

    Raises:
      TypeError: `texts` is a single text, or a text is not a string.
      InputError: there are no texts, the prefilter is unknown, or it is "bm25" and the library bm25s is not installed.
    """

    def __init__(
        self,
        matcher: Matcher,
        texts: Iterable[str],
        prefilter: str = "vectors",
        *,
        lines: Sequence[int] | None = None,
        mix: float | None = None,
        stored: Any = None,
    ):
        self.matcher, self.texts, self.prefilter = matcher, tuple(listed_texts(texts)), prefilter
        if prefilter not in PREFILTERS:
            raise InputError(f"there is no prefilter {prefilter!r}", remedy=f"use one of {', '.join(PREFILTERS)}")
        if not self.texts:
            raise InputError("there are no texts to search")
        self.lines = tuple(range(1, len(self.texts) + 1) if lines is None else lines)
        self.mix = mix
        for number, text in enumerate(self.texts):
            if not isinstance(text, str):
                raise TypeError(f"text {number} is {text!r}, not a string")
        if stored is not None:
            self._stored = stored
        elif prefilter == "vectors":
            blocks = [self.texts[start : start + 4096] for start in range(0, len(self.texts), 4096)]
            self._stored = np.concatenate([mean_vectors(matcher, block) for block in blocks])
        else:
            self._stored = _bm25s().BM25()
            self._stored.index([list(matcher.tokens(text)) for text in self.texts], show_progress=False)

    def __len__(self) -> int:
        return len(self.texts)

    def scores(self, query: str) -> np.ndarray:
        """Computes the prefilter's score of each text, <float32>[texts]."""
        if self.prefilter == "vectors":
            return self._stored @ mean_vectors(self.matcher, [query])[0]
        known = [token for token in self.matcher.tokens(query) if token in self._stored.vocab_dict]
        return self._stored.get_scores(known) if known else np.zeros(len(self), np.float32)

    def search(self, query: str, top_k: int = 10, candidates: int = 100, label: str | None = None) -> list[Candidate]:
        """Finds the stored texts that match a query best.

        Arguments:
          query, top_k, label: as in `Matcher.rank`, whose errors and results this method has, too.
          candidates: the number of texts that the prefilter chooses for the model to rank; more texts take longer.

        Returns:
          The texts, the best first; equal ones, and all with a mix of 0, in the order of `Matcher.rank`. `index` is the
          position of a text among all stored texts.
        """
        if operator.index(candidates) < 1:
            raise ValueError(f"candidates is {candidates}; it must be at least 1")
        if operator.index(top_k) < 1:
            raise ValueError(f"top_k is {top_k}; it must be at least 1")
        found, near = self._ranked(query, candidates, label)
        scores = _mixed(found, near, DEFAULT_MIX if self.mix is None else self.mix)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [dataclasses.replace(found[place], score=float(scores[place])) for place in order]

    def _ranked(self, query: str, candidates: int, label: str | None) -> tuple[list[Candidate], np.ndarray]:
        """Returns the candidates in the order of the model, and the prefilter's score of each, <float>[candidates]."""
        self.matcher.matched_label(label)  # a wrong label is found before the work is done
        scores = self.scores(query)
        count = min(candidates, len(scores))
        best = np.sort(np.argpartition(-scores, count - 1)[:count])
        found = self.matcher.rank(query, [self.texts[index] for index in best], label=label)
        found = [dataclasses.replace(one, index=int(best[one.index])) for one in found]
        return found, scores[[one.index for one in found]]

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the index, atomically. An existing index is replaced; anything else in the folder is an InputError."""
        path = Path(folder)
        check_replaceable(path, _INDEX, "an index")
        with files.directory_atomically(path) as scratch:
            lines = "".join(f"{json.dumps(text)}\n" for text in self.texts)
            (scratch / _TEXTS).write_text(lines, encoding="ascii")
            (scratch / _LINES).write_text(json.dumps(self.lines), encoding="ascii")
            (scratch / _PREFILTER).mkdir()
            if self.prefilter == "vectors":
                np.save(scratch / _PREFILTER / "means.npy", self._stored, allow_pickle=False)
            else:
                self._stored.save(str(scratch / _PREFILTER), allow_pickle=False)
            kept = sorted(file for file in scratch.rglob("*") if file.is_file())
            described = {
                "format": FORMAT,
                "prefilter": self.prefilter,
                "mix": self.mix,
                "texts": len(self.texts),
                "vocabulary": fingerprint(self.matcher),
                "sha256": {file.relative_to(scratch).as_posix(): files.hash_file(file) for file in kept},
            }
            files.write_json(scratch / _INDEX, described)

    @classmethod
    def load(cls, matcher: Matcher, folder: str | os.PathLike) -> Self:
        """Reads an index that `save` wrote, for a model with the same words, vectors and preprocessing.

        Raises:
          InputError: there is no index; it is damaged, or was made with other words, vectors or preprocessing; or it
            needs the library bm25s, which is not installed.
        """
        folder = Path(folder)
        path = folder / _INDEX
        if not path.is_file():
            raise InputError(f"holds no index (no {_INDEX})", path=folder, remedy="make one with --save")
        with report_damage(path, _REMEDY, "the index"):
            described = files.read_json(path)
            if described["format"] != FORMAT:
                raise InputError(f"is not an index of format {FORMAT}", path=path, remedy=_REMEDY)
            if described["vocabulary"] != fingerprint(matcher):
                problem = "was made with other words, vectors or preprocessing than the model's"
                raise InputError(problem, path=folder, remedy=_REMEDY)
            contents = {name: read_checked(folder, name, described["sha256"], _REMEDY) for name in described["sha256"]}
            texts, lines = map(json.loads, contents[_TEXTS].splitlines()), json.loads(contents[_LINES])
            if described["prefilter"] == "vectors":
                stored = np.load(folder / _PREFILTER / "means.npy", allow_pickle=False)
            else:
                stored = _bm25s().BM25.load(str(folder / _PREFILTER), allow_pickle=False)
        return cls(matcher, texts, described["prefilter"], lines=lines, mix=described["mix"], stored=stored)


def _mixed(found: Sequence[Candidate], near: np.ndarray, mix: float) -> np.ndarray:
    """Computes the mixed scores of candidates, <float64>[candidates], from the model's and the prefilter's."""
    near = near.astype(np.float64) - near.min()
    return (1 - mix) * np.array([one.score for one in found]) + mix * near / (near.max() or 1.0)


def chosen_mix(
    matcher: Matcher, split: Split, prefilter: str = "vectors", label: str | None = None
) -> tuple[float, float]:
    """Chooses the mix with which a search finds the matches of a split, such as dev, best.

    The second texts of all pairs are stored. Those of up to 50 pairs that match are searched with the first text of
    their pair, and with themselves. In a regression, pairs with the highest tenth of the scores match.

    Returns:
      The mix with the highest mean reciprocal rank, the smallest if several are equal, and this rank.

    Raises:
      InputError: no pair matches; or as in `Matcher.rank`.
    """
    label = matcher.matched_label(label)
    least = np.quantile(split.labels, 0.9) if label is None else None
    rows = [row for row, value in enumerate(split.labels) if (value == label if label else value >= least)]
    if not rows:
        raise InputError(f"no pair is labeled {label!r}", path=split.source, remedy="give a mix")
    chosen = rows[:: -(-len(rows) // _CHOOSING_PAIRS)]
    texts = list(dict.fromkeys(split.text_b))
    place = {text: number for number, text in enumerate(texts)}
    index = SearchIndex(matcher, texts, prefilter)
    reciprocal = np.zeros(len(MIXES))
    for row in chosen:
        wanted = place[split.text_b[row]]
        for query in (split.text_a[row], split.text_b[row]):
            found, near = index._ranked(query, _CHOOSING_CANDIDATES, label)
            for number, mix in enumerate(MIXES):
                order = np.argsort(-_mixed(found, near, mix), kind="stable")
                ranks = [rank for rank, one in enumerate(order, start=1) if found[one].index == wanted]
                reciprocal[number] += 1 / ranks[0] if ranks else 0
    best = int(reciprocal.argmax())
    return float(MIXES[best].round(1)), float(reciprocal[best] / (2 * len(chosen)))


def fingerprint(matcher: Matcher) -> str:
    """Computes a checksum of an index's dependencies: the preprocessing, the vocabulary and its vectors."""
    digest = hashlib.sha256(json.dumps([vars(matcher.preprocessing), matcher.vocabulary.words]).encode())
    digest.update(np.ascontiguousarray(matcher.model.vectors).tobytes())
    return digest.hexdigest()
