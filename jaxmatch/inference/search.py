"""Ranking of texts by a query, and search in many stored texts: a prefilter finds candidates, and the model ranks them.

A prefilter is made by `of` or `load`. It has `scores(query)` -> <float32>[texts], and `save(folder)`.

A saved index is a folder of plain arrays and JSON:

    index.json     format number, prefilter, number of texts, fingerprint of the vocabulary, checksums of all files
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
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jaxmatch import files
from jaxmatch.data.text import UNKNOWN
from jaxmatch.data.vectors import hashed_rule, hashed_vectors
from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.inference.files import check_replaceable, read_checked, reading
from jaxmatch.inference.pairs import word_ids

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher

_BLOCK = 4096


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A text that was ranked.

    Attributes:
      index: the position of the text among the given texts.
      text: the text.
      score: the probability of the label that means a match; in a regression, the predicted number.
    """

    index: int
    text: str
    score: float


def ranked(
    matcher: Matcher, query: str, candidates: Sequence[str], top_k: int | None = None, label: str | None = None
) -> list[Candidate]:
    """Ranks candidates by how well they match a query. The best is first; equal candidates keep their order.

    Arguments:
      matcher: the model. The query is the first text of each pair.
      query: a text.
      candidates: the texts to rank.
      top_k: the maximum number of candidates to return; None: all.
      label: the label that means a match; None: the label that `matched_label` chooses.

    Raises:
      ValueError: `top_k` is below 1.
      TypeError: `candidates` is a single text, a text is not a string, or `top_k` is not a whole number.
      InputError: as in `matched_label` and `Matcher.logits`.
    """
    if top_k is not None and operator.index(top_k) < 1:
        raise ValueError(f"top_k is {top_k}; it must be at least 1")
    label = matched_label(matcher, label)
    candidates = _listed(candidates)
    logits = matcher.logits([(query, text) for text in candidates])
    if label is None:
        merits = logits[:, 0]
    else:  # the log odds, which do not saturate as the probability does at 0 and 1
        column, scaled = matcher.labels.index(label), matcher.scaled(logits)
        merits = scaled[:, column] - np.logaddexp.reduce(np.delete(scaled, column, axis=1), axis=1)
    best = np.argsort(-merits, kind="stable")[:top_k]
    scores = merits[best] if label is None else matcher.probabilities(logits[best])[:, column]
    return [Candidate(int(index), candidates[index], float(score)) for index, score in zip(best, scores, strict=True)]


def _listed(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):  # its letters are texts, too
        raise TypeError(f"the texts are the single text {texts!r}: give a list")
    return list(texts)


def matched_label(matcher: Matcher, label: str | None = None) -> str | None:
    """Returns the label whose probability ranks candidates; None for a regression.

    The default is the positive label of the calibration, or else the second of two labels.

    Raises:
      InputError: the model has no such label, or it has no default label and no label is given.
    """
    labels = matcher.labels
    if not labels:
        if label is not None:
            raise InputError(f"a regression has no label {label!r}", remedy="leave it out")
        return None
    if label is None and matcher.calibration is not None:
        label = matcher.calibration.positive
    if label is None and len(labels) == 2:
        label = labels[1]
    if label is None:
        raise InputError(
            f"the model has {len(labels)} labels ({', '.join(labels)})",
            remedy="name the one that means a match: --label, or label= in Python",
        )
    if label not in labels:
        raise InputError(f"{label!r} is not one of the model's labels ({', '.join(labels)})")
    return label


class MeanVectors:
    """A prefilter by the cosine of mean word vectors.

    Unknown words are left out. With hashed vectors, no word is unknown.

    Arguments:
      matcher: the model with the word vectors.
      means: <float32>[texts, dimensions], the mean vectors of the texts, scaled to length 1; 0 for a text without a
        known word.
    """

    def __init__(self, matcher: Matcher, means: np.ndarray):
        self._matcher, self._means = matcher, means

    @classmethod
    def of(cls, matcher: Matcher, texts: Sequence[str]) -> Self:
        """Builds the prefilter of texts."""
        blocks = [mean_vectors(matcher, texts[start : start + _BLOCK]) for start in range(0, len(texts), _BLOCK)]
        return cls(matcher, np.concatenate(blocks))

    @classmethod
    def load(cls, matcher: Matcher, folder: Path) -> Self:
        """Reads a prefilter that `save` wrote.

        Raises:
          OSError, ValueError: the file is missing or damaged.
        """
        means = np.load(folder / "means.npy", allow_pickle=False)
        dimensions = matcher.model.vectors.shape[1]
        if means.ndim != 2 or means.shape[1] != dimensions:
            raise ValueError(f"means.npy has shape {means.shape}; [texts, {dimensions}] is expected")
        return cls(matcher, means)

    def save(self, folder: Path) -> None:
        np.save(folder / "means.npy", self._means, allow_pickle=False)

    def scores(self, query: str) -> np.ndarray:
        return self._means @ mean_vectors(self._matcher, [query])[0]

    def __len__(self) -> int:
        return len(self._means)


def mean_vectors(matcher: Matcher, texts: Sequence[str]) -> np.ndarray:
    """Computes the mean vector of the known words of each text, scaled to length 1: <float32>[texts, dimensions]."""
    table = np.asarray(matcher.model.vectors)
    new: dict[str, int] = {}
    pairs = [(text, "") for text in texts]
    sides, _ = word_ids(pairs, matcher.vocabulary, matcher.preprocessing, new if matcher.hashed else None)
    ids = [np.array([number for number in numbers if number > UNKNOWN], np.int64) for numbers in sides]
    result = np.zeros((len(ids), table.shape[1]), np.float32)
    filled = [row for row, numbers in enumerate(ids) if numbers.size]
    if filled:
        starts = np.cumsum([0, *(ids[row].size for row in filled[:-1])])
        words = np.concatenate([ids[row] for row in filled])
        vectors = table[np.where(words < len(table), words, UNKNOWN)]
        if new:
            vectors[words >= len(table)] = hashed_vectors(list(new))[words[words >= len(table)] - len(table)]
        result[filled] = np.add.reduceat(vectors, starts)
    lengths = np.linalg.norm(result, axis=1, keepdims=True)
    return np.divide(result, lengths, out=result, where=lengths > 0)


class Bm25:
    """A prefilter by BM25, computed by the library bm25s. Words outside the vocabulary count as well.

    Arguments:
      matcher: the model, which tokenizes texts.
      index: the index of the texts, a `bm25s.BM25`.
    """

    def __init__(self, matcher: Matcher, index: Any):
        self._matcher, self._index = matcher, index

    @classmethod
    def of(cls, matcher: Matcher, texts: Sequence[str]) -> Self:
        """Builds the prefilter of texts."""
        index = _bm25s().BM25()
        index.index([list(matcher.tokens(text)) for text in texts], show_progress=False)
        return cls(matcher, index)

    @classmethod
    def load(cls, matcher: Matcher, folder: Path) -> Self:
        """Reads a prefilter that `save` wrote.

        Raises:
          OSError, ValueError, KeyError, TypeError: a file is missing or damaged, or another release of bm25s wrote it.
          InputError: the library bm25s is not installed.
        """
        return cls(matcher, _bm25s().BM25.load(str(folder), allow_pickle=False))

    def save(self, folder: Path) -> None:
        self._index.save(str(folder), allow_pickle=False)

    def scores(self, query: str) -> np.ndarray:
        known = [token for token in self._matcher.tokens(query) if token in self._index.vocab_dict]
        return self._index.get_scores(known) if known else np.zeros(len(self), np.float32)

    def __len__(self) -> int:
        return int(self._index.scores["num_docs"])


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError:
        raise NotInstalled("BM25", "bm25s", "search", "or take the prefilter 'vectors'") from None
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # otherwise it logs each step
    return bm25s


PREFILTERS = {"vectors": MeanVectors, "bm25": Bm25}


FORMAT = 1
_INDEX, _TEXTS, _LINES, _PREFILTER = "index.json", "texts.jsonl", "lines.json", "prefilter"
_REMEDY = "make the index again"


class SearchIndex:
    """Stored texts that are searched for matches of a query; made by `Matcher.index` or `Matcher.load_index`.

    Attributes:
      matcher: the model that ranks the candidates.
      texts: the stored texts.
      prefilter: the name of the prefilter: "vectors" or "bm25".
      lines: a number for each text, such as its line in a file; by default 1, 2, 3, ...

    Raises:
      TypeError: `texts` is a single text, or a text is not a string.
      InputError: there are no texts, a text cannot be encoded in UTF-8, the prefilter is unknown, or the prefilter is
        "bm25" and the library bm25s is not installed.
    """

    def __init__(
        self,
        matcher: Matcher,
        texts: Iterable[str],
        prefilter: str = "vectors",
        *,
        lines: Sequence[int] | None = None,
        stored: Any = None,
    ):
        self.matcher, self.texts, self.prefilter = matcher, tuple(_listed(texts)), prefilter
        if prefilter not in PREFILTERS:
            raise InputError(f"there is no prefilter {prefilter!r}", remedy=f"use one of {', '.join(PREFILTERS)}")
        if not self.texts:
            raise InputError("there are no texts to search")
        self.lines = tuple(range(1, len(self.texts) + 1) if lines is None else lines)
        for number, text in enumerate(self.texts):
            if not isinstance(text, str):
                raise TypeError(f"text {number} is {text!r}, not a string")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InputError(f"text {number} holds half of a surrogate pair", remedy="leave it out") from None
        self._prefilter = PREFILTERS[prefilter].of(matcher, self.texts) if stored is None else stored

    def __len__(self) -> int:
        return len(self.texts)

    def search(self, query: str, top_k: int = 10, candidates: int = 100, label: str | None = None) -> list[Candidate]:
        """Finds the stored texts that match a query best.

        Arguments:
          query: a text, the first of each pair.
          top_k: the maximum number of texts to return.
          candidates: the number of texts that the prefilter chooses for the model to rank; more texts take longer.
          label: the label that means a match; None: the default of `Matcher.rank`.

        Returns:
          The texts as `Matcher.rank` returns them, at most `candidates`. `index` is the position of a text among all
          stored texts.

        Raises:
          TypeError: the query is not a string, or `top_k` or `candidates` is not a whole number.
          ValueError: `top_k` or `candidates` is below 1.
          InputError: as in `Matcher.rank`.
        """
        if operator.index(candidates) < 1:
            raise ValueError(f"candidates is {candidates}; it must be at least 1")
        if not isinstance(query, str):
            raise TypeError(f"the query is {query!r}, not a string")
        matched_label(self.matcher, label)
        scores = self._prefilter.scores(query)
        count = min(candidates, len(scores))
        best = np.sort(np.argpartition(-scores, count - 1)[:count])
        found = ranked(self.matcher, query, [self.texts[index] for index in best], top_k, label)
        return [Candidate(int(best[one.index]), one.text, one.score) for one in found]

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the index, atomically.

        Arguments:
          folder: the folder to create; an existing index is replaced.

        Raises:
          InputError: the folder holds something other than an index.
        """
        path = Path(folder)
        check_replaceable(path, _INDEX, "an index")
        with files.directory_atomically(path) as scratch:
            lines = "".join(f"{json.dumps(text)}\n" for text in self.texts)
            (scratch / _TEXTS).write_text(lines, encoding="ascii")
            (scratch / _LINES).write_text(json.dumps(self.lines), encoding="ascii")
            (scratch / _PREFILTER).mkdir()
            self._prefilter.save(scratch / _PREFILTER)
            kept = sorted(file for file in scratch.rglob("*") if file.is_file())
            described = {
                "format": FORMAT,
                "prefilter": self.prefilter,
                "texts": len(self.texts),
                "vocabulary": fingerprint(self.matcher),
                "sha256": {file.relative_to(scratch).as_posix(): files.hash_file(file) for file in kept},
            }
            files.write_json(scratch / _INDEX, described)

    @classmethod
    def load(cls, matcher: Matcher, folder: str | os.PathLike) -> Self:
        """Reads an index that `save` wrote.

        Arguments:
          matcher: the model that ranks; its vocabulary, word vectors and preprocessing must be those of the index.
          folder: the folder of the index.

        Raises:
          InputError: there is no index; it is damaged, or was made with other words, vectors or preprocessing; or it
            needs the library bm25s, which is not installed.
        """
        folder = Path(folder)
        described = _description(folder)
        if described.get("vocabulary") != fingerprint(matcher):
            raise InputError(
                "was made with other words, vectors or preprocessing than the model's", path=folder, remedy=_REMEDY
            )
        contents = {name: read_checked(folder, name, described["sha256"], _REMEDY) for name in described["sha256"]}
        texts = [json.loads(line) for line in contents[_TEXTS].splitlines()]
        stored = PREFILTERS[described["prefilter"]].load(matcher, folder / _PREFILTER)
        return cls(matcher, texts, described["prefilter"], lines=json.loads(contents[_LINES]), stored=stored)


def _description(folder: Path) -> dict[str, Any]:
    """Reads index.json and checks its content."""
    path = folder / _INDEX
    with reading(path):
        if not path.is_file():
            raise InputError("holds no index (no index.json)", path=folder, remedy="make one with --save")
        try:
            found = files.read_json(path)
            is_index = found["format"] == FORMAT and _TEXTS in found["sha256"] and found["prefilter"] in PREFILTERS
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"is damaged ({error!s:.300})", path=path, remedy=_REMEDY) from error
    if not is_index:
        raise InputError(f"is not an index of format {FORMAT}", path=path, remedy=_REMEDY)
    return found


def fingerprint(matcher: Matcher) -> str:
    """Computes a checksum of an index's dependencies: vocabulary, preprocessing, and vectors of known and new words."""
    of_new_words = [hashed_rule()] if matcher.hashed else []
    described = [vars(matcher.preprocessing), matcher.vocabulary.words, *of_new_words]
    digest = hashlib.sha256(json.dumps(described).encode())
    digest.update(np.ascontiguousarray(matcher.model.vectors).tobytes())
    return digest.hexdigest()
