"""Searches many stored texts: a prefilter finds candidates for a query, and the model ranks these.

A saved index is a folder, anywhere, of plain arrays and JSON:

    index.json     format number, prefilter, number of texts, fingerprint of the vocabulary, checksums of all files
    texts.jsonl    a text a line, as a JSON string
    prefilter/     what the prefilter keeps (prefilters.py)
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jaxmatch import files
from jaxmatch.errors import InputError
from jaxmatch.inference.candidates import Candidate, matched_label, ranked
from jaxmatch.inference.checked_files import check_replaceable, checksum, read_bytes, reading
from jaxmatch.inference.prefilters import PREFILTERS

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher

FORMAT = 1
_INDEX, _TEXTS, _PREFILTER = "index.json", "texts.jsonl", "prefilter"
_ANEW = "make the index again"


class SearchIndex:
    """Stored texts to search for matches of a query; made by `Matcher.index` or `Matcher.load_index`.

    Attributes:
      matcher: the model that ranks.
      texts: the stored texts.
      prefilter: the name of the prefilter: "vectors" or "bm25".

    Raises:
      TypeError: a text is not a string.
      InputError: there are no texts, a text cannot be encoded in UTF-8, there is no such prefilter, or "bm25" is named
        and the library bm25s is not installed.
    """

    def __init__(self, matcher: Matcher, texts: Iterable[str], prefilter: str = "vectors", *, stored: Any = None):
        self.matcher, self.texts, self.prefilter = matcher, tuple(texts), prefilter
        if prefilter not in PREFILTERS:
            raise InputError(f"there is no prefilter {prefilter!r}", remedy=f"use one of {', '.join(PREFILTERS)}")
        if not self.texts:
            raise InputError("there are no texts to search")
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
        """The stored texts that match a query best, the best first.

        Arguments:
          query: a text, the first of each pair.
          top_k: how many to return, at most.
          candidates: how many the prefilter chooses for the model to rank; more take longer.
          label: the label that means a match; None: as in `Matcher.rank`.

        Returns:
          As of `Matcher.rank`, at most `candidates` of them. `index` is the position among the stored texts.

        Raises:
          TypeError: the query is not a string, or a number not a whole one.
          ValueError: a number is below 1.
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
          folder: to make; an index that is there is replaced.

        Raises:
          InputError: something else is there.
        """
        path = Path(folder)
        check_replaceable(path, _INDEX, "an index")
        with files.directory_atomically(path) as scratch:
            lines = "".join(f"{json.dumps(text)}\n" for text in self.texts)
            (scratch / _TEXTS).write_text(lines, encoding="ascii")
            (scratch / _PREFILTER).mkdir()
            self._prefilter.save(scratch / _PREFILTER)
            kept = sorted(file for file in scratch.rglob("*") if file.is_file())
            described = {
                "format": FORMAT,
                "prefilter": self.prefilter,
                "texts": len(self.texts),
                "vocabulary": fingerprint(self.matcher),
                "sha256": {file.relative_to(scratch).as_posix(): checksum(file) for file in kept},
            }
            files.write_json(scratch / _INDEX, described)

    @classmethod
    def load(cls, matcher: Matcher, folder: str | os.PathLike) -> Self:
        """Reads what `save` wrote.

        Arguments:
          matcher: the model to rank with; its vocabulary, word vectors and preprocessing are those of the index.
          folder: of the index.

        Raises:
          InputError: there is no index, it is damaged, or it was made with another vocabulary.
        """
        folder = Path(folder)
        described = _description(folder)
        if described["vocabulary"] != fingerprint(matcher):
            raise InputError(
                "was made with other words, vectors or preprocessing than the model's", path=folder, remedy=_ANEW
            )
        for name, expected in described["sha256"].items():
            if hashlib.sha256(read_bytes(folder / name)).hexdigest() != expected:
                raise InputError("is damaged: its checksum is not the one in index.json", path=folder / name)
        try:
            texts = [json.loads(line) for line in (folder / _TEXTS).read_bytes().splitlines()]
            stored = PREFILTERS[described["prefilter"]].load(matcher, folder / _PREFILTER)
            if not len(texts) == len(stored) == described["texts"]:
                raise ValueError(f"{len(texts)} texts, {len(stored)} in the prefilter, {described['texts']} expected")
        except InputError:
            raise
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise InputError(f"is damaged: {error!s:.300}", path=folder, remedy=_ANEW) from error
        return cls(matcher, texts, described["prefilter"], stored=stored)


def _description(folder: Path) -> dict[str, Any]:
    """The checked content of index.json."""
    path = folder / _INDEX
    with reading(path):
        if not path.is_file():
            raise InputError("holds no index (no index.json)", path=folder, remedy="make one with --save")
        try:
            found = files.read_json(path)
        except ValueError as error:
            raise InputError(f"cannot be read ({error})", path=path, remedy=_ANEW) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"is not an index of format {FORMAT}", path=path, remedy=_ANEW)
    names = found.get("sha256")
    if found.get("prefilter") not in PREFILTERS or not isinstance(names, dict) or _TEXTS not in names:
        raise InputError("is damaged", path=path, remedy=_ANEW)
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
        raise InputError("names a file outside the folder", path=path, remedy=_ANEW)
    return found


def fingerprint(matcher: Matcher) -> str:
    """A checksum of what an index depends on: vocabulary, word vectors, preprocessing."""
    digest = hashlib.sha256(json.dumps([vars(matcher.preprocessing), matcher.vocabulary.words]).encode())
    digest.update(np.ascontiguousarray(matcher.model.vectors).tobytes())
    return digest.hexdigest()
