"""Searches many stored texts: a prefilter finds candidates for a query, and the model ranks them.

A saved index is a folder of plain arrays and JSON:

    index.json     format number, prefilter, number of texts, fingerprint of the vocabulary, checksums of all files
    texts.jsonl    one text per line, as a JSON string
    lines.json     the number of each text, such as its line in the file that it came from
    prefilter/     the files of the prefilter (prefilters.py)
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jaxmatch import files
from jaxmatch.data.vectors import hashed_rule
from jaxmatch.errors import InputError
from jaxmatch.inference.candidates import Candidate, matched_label, ranked
from jaxmatch.inference.checked_files import check_replaceable, read_bytes, reading
from jaxmatch.inference.prefilters import PREFILTERS

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher

FORMAT = 1
_INDEX, _TEXTS, _LINES, _PREFILTER = "index.json", "texts.jsonl", "lines.json", "prefilter"
_REMEDY = "make the index again"
# The exceptions that are raised when a file does not hold what `save` writes.
_DAMAGED = (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


class SearchIndex:
    """Stored texts that are searched for matches of a query; made by `Matcher.index` or `Matcher.load_index`.

    Attributes:
      matcher: the model that ranks the candidates.
      texts: the stored texts.
      prefilter: the name of the prefilter: "vectors" or "bm25".
      lines: a number for each text, such as its line in a file; by default 1, 2, 3, ...

    Raises:
      TypeError: a text is not a string.
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
        self.matcher, self.texts, self.prefilter = matcher, tuple(texts), prefilter
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
        if described["vocabulary"] != fingerprint(matcher):
            raise InputError(
                "was made with other words, vectors or preprocessing than the model's", path=folder, remedy=_REMEDY
            )
        names = described["sha256"]
        try:
            for name, expected in names.items():
                if hashlib.sha256(read_bytes(folder / name)).hexdigest() != expected:
                    raise InputError("is damaged: its checksum is not the one in index.json", path=folder / name)
            texts = [json.loads(line) for line in (folder / _TEXTS).read_bytes().splitlines()]
            # An index of an earlier version has no lines.json.
            lines = files.read_json(folder / _LINES) if _LINES in names else range(1, len(texts) + 1)
            if not all(isinstance(line, int) for line in lines):
                raise ValueError(f"{_LINES} holds something else than whole numbers")
            stored = PREFILTERS[described["prefilter"]].load(matcher, folder / _PREFILTER)
            found = f"{len(texts)} texts, {len(lines)} lines, {len(stored)} in the prefilter"
            if not len(texts) == len(lines) == len(stored) == described["texts"]:
                raise ValueError(f"{found}, {described['texts']} expected")
            return cls(matcher, texts, described["prefilter"], lines=lines, stored=stored)
        except InputError:
            raise
        except _DAMAGED as error:
            raise InputError(f"is damaged: {error!s:.300}", path=folder, remedy=_REMEDY) from error


def _description(folder: Path) -> dict[str, Any]:
    """Reads index.json and checks its content."""
    path = folder / _INDEX
    with reading(path):
        if not path.is_file():
            raise InputError("holds no index (no index.json)", path=folder, remedy="make one with --save")
        try:
            found = files.read_json(path)
        except ValueError as error:
            raise InputError(f"cannot be read ({error})", path=path, remedy=_REMEDY) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"is not an index of format {FORMAT}", path=path, remedy=_REMEDY)
    kinds = {"prefilter": str, "vocabulary": str, "texts": int, "sha256": dict}
    wrong = [key for key, kind in kinds.items() if not isinstance(found.get(key), kind)]
    if wrong or found["prefilter"] not in PREFILTERS or _TEXTS not in found["sha256"]:
        raise InputError("is damaged", path=path, remedy=_REMEDY)
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in found["sha256"]):
        raise InputError("names a file outside the folder", path=path, remedy=_REMEDY)
    return found


def fingerprint(matcher: Matcher) -> str:
    """Computes a checksum of an index's dependencies: vocabulary, preprocessing, and vectors of known and new words."""
    of_new_words = [hashed_rule()] if matcher.hashed else []
    described = [vars(matcher.preprocessing), matcher.vocabulary.words, *of_new_words]
    digest = hashlib.sha256(json.dumps(described).encode())
    digest.update(np.ascontiguousarray(matcher.model.vectors).tobytes())
    return digest.hexdigest()
