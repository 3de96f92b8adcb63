"""The encoding of text as arrays: its settings, its result, and the cache of results on disk."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from jaxmatch.config.settings import OWN_LAYOUT, DataConfig
from jaxmatch.data import catalog, generated, own, text, vectors
from jaxmatch.data.pairs import DataSet, is_number
from jaxmatch.data.text import PADDING, UNKNOWN_WORD, Corpus, Preprocessing, Vocabulary
from jaxmatch.data.vectors import DIMENSIONS, HASHED, HASHED_VERSION, NO_VECTORS, VectorReport
from jaxmatch.errors import InputError, count_text, shown
from jaxmatch.files import hash_file, open_atomically, remove_abandoned, write_atomically

_FORMAT = 3  # increased when a change makes the same input give other arrays or another report
LOW_COVERAGE = 0.5  # a smaller share of tokens with a vector is worth a warning
TIMESTAMP_RESOLUTION_NS = 2_000_000_000  # no file system has coarser timestamps
# What pandas, R and SQL write for a missing value, in lower case.
_MISSING = ("nan", "<na>", "nat", "na", "n/a", "#n/a", "none", "null")
# A classification has no more labels than this if there are few pairs of each label, and no more than that otherwise.
_FEW, _MANY, _PAIRS_OF_A_LABEL = 10, 100, 10
# Words of Chinese, Japanese and Thai have two to four characters on average. A few names in English text do not matter.
_LONG_TOKEN, _SHARE_OF_TOKENS = 5, 0.01


@dataclasses.dataclass(frozen=True)
class DataSettings(DataConfig):
    """The data section of a config with resolved paths, and the features that the model takes besides word vectors.

    `vectors` is a file, 'hashed', 'none' for a model that trains its own, or '' for those of an embedded data set.
    """

    characters: int = 0  # the size of the character vocabulary (`character_table`); 0 leaves the characters out
    tags: bool = False  # whether each token gets its part of speech
    exact_match: bool = False  # whether each token gets a mark if the other sentence has the same word

    @property
    def layout(self) -> own.Layout:
        return own.layout_of(dataclasses.asdict(self))

    @property
    def preprocessing(self) -> Preprocessing:
        """The settings that a trained model must store to tokenize new text."""
        return Preprocessing(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Preprocessing)})


def data_settings(config: Mapping[str, Any]) -> DataSettings:
    """Returns the data settings of a run's config: its data section, and the word features that its model takes.

    Raises:
      InputError: the model's `known_characters` or `known_tags` is too small, or its words have no vectors and are not
        trained.
    """
    settings, model = dict(config["data"]), config["model"]
    settings["directory"] = catalog.data_directory(settings["name"], settings["directory"])
    settings["vectors"] = catalog.vectors_file(settings["vectors"], settings["directory"])
    trained = model.get("words", "fixed") == "trained"
    if trained and not settings["vectors"] and settings["name"] not in catalog.EMBEDDED_TASKS:
        settings["vectors"] = NO_VECTORS
    if settings["vectors"] == NO_VECTORS and not trained:
        raise InputError(
            "data.vectors is 'none', and model.words is 'fixed': the model would see no word",
            remedy="train them with --config.model.words=trained, or use --vectors hashed",
        )
    takes = {"known_characters": model.get("characters", "none") != "none", "known_tags": model.get("tags", False)}
    for name, least in (("known_characters", text.LEAST_CHARACTERS), ("known_tags", text.LEAST_TAGS)):
        if takes[name] and model[name] < least:
            problem = f"config.model.{name} = {model[name]} is too small"
            raise InputError(problem, remedy=f"it is at least {least}")
    return DataSettings(
        **settings,
        characters=model["known_characters"] if takes["known_characters"] else 0,
        tags=takes["known_tags"],
        exact_match=model.get("exact_match", False),
    )


@dataclasses.dataclass(frozen=True)
class EncodedSplit:
    """The pairs of one split as numbers. The tokens of all sentences of one side are concatenated.

    Attributes:
      tokens_a, tokens_b: <int32>[total], the word ids of all first and of all second sentences.
      offsets_a, offsets_b: <int64>[pairs + 1], the start of each sentence in them; the last entry is `total`.
      labels: <int32>[pairs], indices in the label names of the data set, or <float32>[pairs] for a regression.
      groups: <int32>[pairs], the group in which each candidate is ranked, numbered in order of appearance; or None.
      documents: <unicode>[pairs], the name of each candidate, or None.
      tags_a, tags_b: <uint8>, the part of speech of each token (`tags`), or None.
      exact_match_a, exact_match_b: <int8>, 1 for a token that is in both sentences (`exact_matches`); or None.
    """

    tokens_a: np.ndarray
    offsets_a: np.ndarray
    tokens_b: np.ndarray
    offsets_b: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None
    documents: np.ndarray | None = None
    tags_a: np.ndarray | None = None
    tags_b: np.ndarray | None = None
    exact_match_a: np.ndarray | None = None
    exact_match_b: np.ndarray | None = None

    @property
    def pairs(self) -> int:
        return len(self.offsets_a) - 1

    @property
    def lengths_a(self) -> np.ndarray:
        """The number of tokens in each first sentence, <int32>[pairs]; `lengths`: in both sentences together."""
        return np.diff(self.offsets_a).astype(np.int32)

    @property
    def lengths_b(self) -> np.ndarray:
        return np.diff(self.offsets_b).astype(np.int32)

    @property
    def lengths(self) -> np.ndarray:
        return self.lengths_a + self.lengths_b

    def pair_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the function `pair_rows` of the words, in rows of the length of the longest pair."""
        return self._lay_out(self.tokens_a, self.tokens_b)

    def features(self) -> dict[str, np.ndarray]:
        """Returns the features of tokens that the data has, in the same rows: 'tags' <uint8>, 'exact_match' <int8>."""
        known = {"tags": (self.tags_a, self.tags_b), "exact_match": (self.exact_match_a, self.exact_match_b)}
        return {name: self._lay_out(*sides)[0] for name, sides in known.items() if sides[0] is not None}

    def _lay_out(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return pair_rows(first, self.lengths_a, second, self.lengths_b, int(self.lengths.max(initial=0)))


def pair_rows(
    tokens_a: np.ndarray, lengths_a: np.ndarray, tokens_b: np.ndarray, lengths_b: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lays out each pair as a row: the tokens of the first sentence, then those of the second, then padding.

    Arguments:
      tokens_a, tokens_b: <int32>[total], the word ids of all first and of all second sentences, concatenated; or
        another feature of each token.
      lengths_a, lengths_b: <int32>[pairs], the number of tokens in each sentence.
      length: the length of a row; the tokens of every pair fit into it.

    Returns:
      ids <int32>[pairs, length], or the dtype of another feature, and sentences <int8>[pairs, length]: the sentence of
      each token, 1 or 2; 0 is padding.
    """
    columns = np.arange(length)
    first = columns < lengths_a[:, None]
    second = ~first & (columns < (lengths_a + lengths_b)[:, None])
    ids = np.full(first.shape, PADDING, np.asarray(tokens_a).dtype)
    ids[first], ids[second] = tokens_a, tokens_b
    return ids, first.astype(np.int8) + 2 * second.astype(np.int8)


@dataclasses.dataclass(frozen=True)
class EncodedData:
    """An encoded data set, ready for training.

    Attributes:
      labels: label names in the order of the model's outputs; empty for a regression.
      splits: 'train', 'dev', 'test' (those that exist) -> EncodedSplit.
      vectors: <float32>[words, dimensions]; the rows of padding, the unknown word and words without a vector are 0.
      report: plain values for records: `counts`, `dropped`, `in_train`, `coverage`, `vectors`, ...
      fingerprint: a hash of everything that the arrays were made from, except the characters.
      characters: <uint16 or uint32>[words, 16], the characters of each word (`character_table`), or None.
      files: 'train', 'dev', 'test' (and companions) -> the SHA-256 of its file; empty for embedded data.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    splits: Mapping[str, EncodedSplit]
    vocabulary: Vocabulary
    vectors: np.ndarray
    preprocessing: Preprocessing
    report: Mapping[str, Any]
    fingerprint: str
    characters: np.ndarray | None = None
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def content(self) -> str:
        """The fingerprint and, if there are characters, a hash of them. It is equal only for equal data."""
        if self.characters is None:
            return self.fingerprint
        return f"{self.fingerprint}-{hashlib.sha256(self.characters.tobytes()).hexdigest()[:16]}"

    @property
    def outputs(self) -> int:
        """The number of outputs of a model for a pair."""
        return 1 if self.task == "regression" else len(self.labels)

    @property
    def filtered(self) -> bool:
        """Whether only questions with right and wrong candidates count in the scores of a ranking."""
        return catalog.filtered(self.name)


def prepare(settings: DataSettings, cache_directory: str | Path) -> EncodedData:
    """Encodes a data set and its word vectors as arrays, or loads the arrays from the cache.

    The key of the cache covers the content of every file and every setting that changes the result. A damaged entry is
    created again. Processes that start together wait for the one that creates the entry.

    Raises:
      InputError: a file is missing or damaged, the settings do not fit the data, or too few tokens have a vector.
      OSError: the cache cannot be written.
    """
    cache_directory = Path(cache_directory)
    fingerprint, files = fingerprint_of(settings, cache_directory)
    entry = cache_directory / "encoded" / f"{fingerprint}.npz"
    entry.parent.mkdir(parents=True, exist_ok=True)
    for folder in ("encoded", "digests"):
        remove_abandoned(cache_directory / folder)
    with filelock.FileLock(entry.with_suffix(".lock")):
        try:  # a zip archive holds checksums, so any damage is an error
            with open(entry, "rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = dict(stored)
            values = json.loads(arrays.pop("values").item())
        except Exception:  # it is missing, or damaged: the readers of such files have no common error
            arrays, values = encode(settings)
            if fingerprint_of(settings, cache_directory)[0] != fingerprint:
                problem = "its files changed while they were read; start again"
                raise InputError(problem, path=settings.directory or None) from None
            with open_atomically(entry) as file:
                np.savez(file, values=np.array(json.dumps(values)), **arrays)
    covered = values["report"]["coverage"]["tokens_with_vector"]
    if settings.vectors != NO_VECTORS and covered < settings.minimum_coverage:
        problem = f"only {covered:.1%} of all tokens have a vector"
        remedy = "give vectors of the language of the texts, or train anyway: --config.data.minimum_coverage=0"
        raise InputError(problem, path=settings.vectors or None, remedy=remedy)
    return EncodedData(
        name=settings.name,
        task=values["task"],
        labels=tuple(values["labels"]),
        splits={
            name: EncodedSplit(**{key.partition(".")[2]: each for key, each in arrays.items() if key.startswith(name)})
            for name in values["splits"]
        },
        vocabulary=Vocabulary(values["words"]),
        vectors=arrays["vectors"],
        preprocessing=settings.preprocessing,
        report=values["report"],
        fingerprint=fingerprint,
        characters=text.character_table(values["words"], settings.characters) if settings.characters else None,
        files=files,
    )


def fingerprint_of(settings: DataSettings, cache_directory: Path) -> tuple[str, dict[str, str]]:
    """Returns the hash of everything that the arrays are made from, and the hashes of the data files."""
    if settings.maximum_length and settings.drop_from_length > settings.maximum_length:
        cut = f"data.maximum_length cuts texts to {settings.maximum_length} tokens"
        problem = f"data.drop_from_length = {settings.drop_from_length} drops nothing: {cut}"
        raise InputError(problem, remedy="give the maximum length or less")
    digest_of = functools.partial(file_digest, cache_directory=cache_directory)
    files = catalog.find_files(settings.name, settings.directory or None, task=settings.task, layout=settings.layout)
    digests = {key: digest_of(path) for key, path in files.items()}
    # Not the version of NLTK: most new versions give the same tokens.
    if (rules := text.substitutions(settings.tokenizer)) is None:
        rules = digest_of(text.nltk_file("tokenize", "casual.py"))
    tagged_by = (*text.tagger_files(), text.nltk_file("tag", "perceptron.py")) if settings.tags else ()
    description: dict[str, Any] = {
        "format": _FORMAT,
        "name": settings.name,
        "task": settings.task,
        "files": {key: [path.name, digests[key]] for key, path in files.items()},
        "preprocessing": dataclasses.asdict(settings.preprocessing),
        "tokenizer": rules,
        "minimum_count": settings.minimum_count,
        "drop_from_length": settings.drop_from_length,
        "layout": {name: getattr(settings, name) for name in OWN_LAYOUT},
        "tags": [digest_of(path) for path in tagged_by],
        "exact_match": settings.exact_match,
    }
    if settings.name in catalog.EMBEDDED_TASKS:
        description["embedded"] = generated.VERSION
    if catalog.is_added(settings.name):  # the code that reads it may have changed
        description["pairs"] = catalog.load(settings.name, settings.directory or None).digest()
    if settings.vectors == HASHED:
        description["vectors"] = [HASHED, HASHED_VERSION]
    elif settings.vectors == NO_VECTORS:
        description["vectors"] = [NO_VECTORS, DIMENSIONS]
    elif settings.vectors.startswith(vectors.MODEL2VEC):
        description["vectors"] = vectors.static_digest(settings.vectors.removeprefix(vectors.MODEL2VEC))
    elif settings.vectors:
        file, member = vectors.file_and_member(settings.vectors)
        description["vectors"] = [vectors.file_name(settings.vectors), member, digest_of(file)]
    elif settings.name not in catalog.EMBEDDED_TASKS:
        remedy = f"{vectors.REMEDY}, or use --vectors hashed"
        raise InputError(f"data set {settings.name!r} has no word vectors of its own", remedy=remedy)
    described = json.dumps(description, sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:32], digests


def file_digest(path: Path, cache_directory: Path) -> str:
    """Returns the SHA-256 of a file. The cache stores it, because hashing a large vector file takes seconds."""
    path = path.resolve()
    status, now = path.stat(), time.time_ns()
    # A program can reset the modification time of a file, but not its change time.
    state = repr((str(path), status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns))
    note = cache_directory / "digests" / hashlib.sha256(state.encode()).hexdigest()[:32]
    with contextlib.suppress(OSError, ValueError):  # there is no note, or it is damaged
        digest, same = note.read_text().split()
        if digest == same:
            return digest
    digest = hash_file(path)
    # The timestamps of some file systems are coarse: a change just after another one may leave them as they are.
    if status.st_ctime_ns + TIMESTAMP_RESOLUTION_NS <= now:
        write_atomically(note, f"{digest} {digest}")  # twice, so that damage is noticed
    return digest


def encode(settings: DataSettings) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Encodes a data set: returns the arrays and the values of its cache entry."""
    data = catalog.load(settings.name, settings.directory or None, task=settings.task, layout=settings.layout)
    corpus = Corpus(data, settings.preprocessing)
    check_words(data, corpus)
    warnings = warnings_about(data, corpus, settings.task)
    if settings.drop_from_length:
        data = _without_long_pairs(data, corpus, settings.drop_from_length)
    found, from_file = read_word_vectors(settings, corpus.words)
    counts = dict(zip(corpus.words, corpus.counts.tolist(), strict=True))
    words = text.build_vocabulary(counts, found, settings.minimum_count)
    nothing = np.zeros(from_file.dimensions, np.float32)
    table = np.stack([nothing, nothing, *(found.get(word, nothing) for word in words.words[2:])])
    arrays, ids = {"vectors": table}, np.array(words.ids(corpus.words), np.int32)
    if settings.tags:
        tagged = (text.tags(one, settings.preprocessing) for one in corpus.texts)
        tags = np.fromiter(itertools.chain.from_iterable(tagged), np.uint8)
    folded = text.number_keys((word.casefold() for word in corpus.words), {})
    numbers = {label: number for number, label in enumerate(data.labels)}
    for name, split in data.splits.items():
        sides = []
        for side in ("a", "b"):
            positions, offsets = corpus.positions(name, side)
            tokens = corpus.tokens[positions]
            arrays[f"{name}.tokens_{side}"], arrays[f"{name}.offsets_{side}"] = ids[tokens], offsets
            if settings.tags:
                arrays[f"{name}.tags_{side}"] = tags[positions]
            if settings.exact_match:
                sides.append([part.tolist() for part in np.split(folded[tokens], offsets[1:-1])])
        if settings.exact_match:
            for side, marks in zip("ab", zip(*map(text.exact_matches, *sides), strict=True), strict=True):
                arrays[f"{name}.exact_match_{side}"] = np.fromiter(itertools.chain.from_iterable(marks), np.int8)
        values = [numbers.get(label, label) for label in split.labels]
        arrays[f"{name}.labels"] = np.array(values, np.float32 if data.task == "regression" else np.int32)
        if split.groups is not None:
            arrays[f"{name}.groups"] = text.number_keys(split.groups, {}).astype(np.int32)
        if split.documents is not None:
            arrays[f"{name}.documents"] = np.array(split.documents, np.str_)
    coverage = text.coverage(counts, words, found)
    covered = coverage["tokens_with_vector"]
    if covered < LOW_COVERAGE and settings.vectors != NO_VECTORS:
        warnings.append(f"only {covered:.1%} of all tokens have a vector in {from_file.name}")
    report = {
        "counts": {name: len(split) for name, split in data.splits.items()},
        "dropped": {name: dict(split.dropped) for name, split in data.splits.items()},
        "in_train": data.in_train(),
        "words": len(words),
        "coverage": coverage,
        "vectors": from_file.name,
        "dimensions": from_file.dimensions,
        "vector_lines": from_file.lines,
        "broken_vector_lines": from_file.broken,
        "broken_vector_examples": list(from_file.broken_examples),
        "warnings": warnings,
    }
    values = {"task": data.task, "labels": data.labels, "splits": list(data.splits), "words": words.words}
    return arrays, values | {"report": report}


def read_word_vectors(
    settings: DataSettings, words: Mapping[str, int]
) -> tuple[Mapping[str, np.ndarray], VectorReport]:
    """Returns vectors of the wanted words: from a file, from the spelling, from an embedded data set, or no vectors."""
    if settings.vectors == HASHED:
        found = dict(zip(words, vectors.hashed_vectors(words), strict=True))
        return found, VectorReport("hashed character n-grams", DIMENSIONS, len(words))
    if settings.vectors == NO_VECTORS:
        return {}, VectorReport("none", DIMENSIONS, 0)
    if settings.vectors.startswith(vectors.MODEL2VEC):
        rows = vectors.static_vectors(settings.vectors.removeprefix(vectors.MODEL2VEC), list(words))
        name = settings.vectors.rstrip("/").rpartition("/")[2].removeprefix(vectors.MODEL2VEC)
        return dict(zip(words, rows, strict=True)), VectorReport(name, rows.shape[1], len(words))
    if settings.vectors:
        return vectors.read_vectors(settings.vectors, words, lowercase=settings.lowercase)
    embedded = generated.word_vectors()
    found = {word: vector for word, vector in embedded.items() if word in words}
    return found, VectorReport(f"embedded {generated.VERSION}", generated.DIMENSIONS, len(embedded))


def check_words(data: DataSet, corpus: Corpus) -> None:
    """Raises an `InputError` if tokenization leaves no word in a split, so that nothing distinguishes its pairs."""
    unknown = corpus.words.get(UNKNOWN_WORD, -1)
    for name, split in data.splits.items():
        if all((corpus.column(name, side)[0] == unknown).all() for side in ("a", "b")):
            problem = f"no text of the {name} split of data set {data.name!r} has a word left"
            raise InputError(problem, path=split.source, remedy="keep punctuation, or use another tokenizer")


def warnings_about(data: DataSet, corpus: Corpus, task: str) -> list[str]:
    """Returns lines about labels that are probably no classes, unless the user named this `task`, and about texts that
    are not split into words.
    """
    warnings = _label_warnings(data, task) if data.task == "classification" else []
    characters = np.array([len(text.CHARACTER.findall(word)) for word in corpus.words])
    tokens = int(corpus.counts[characters > 0].sum())
    mean = int(corpus.counts @ characters) / max(tokens, 1)
    if mean >= _LONG_TOKEN and tokens >= _SHARE_OF_TOKENS * corpus.counts.sum():
        unspaced = f"texts are written without spaces: a token has {mean:.1f} characters on average"
        warnings.append(f"{unspaced}; split them with data.tokenizer=characters")
    return warnings


def _label_warnings(data: DataSet, task: str) -> list[str]:
    counts = Counter(data.splits["train"].labels)
    missing = [label for label in data.labels if label.lower() in _MISSING]
    warnings = [
        f"label {shown(label)} of {count_text(counts[label], 'training pair')} looks like a missing label; "
        "if it is, leave it empty: such pairs are left out"
        for label in missing
    ]
    others = [label for label in data.labels if label not in missing]
    whole = all(label.removeprefix("-").isdecimal() for label in others)
    if not task and all(map(is_number, others)) and (len(others) > _FEW or not whole):
        remedy = "set data.task=regression, or data.task=classification if they are classes"
        warnings.append(f"looks like a regression: {len(others):,} numeric labels; {remedy}")
    elif len(others) > max(_FEW, min(_MANY, counts.total() / _PAIRS_OF_A_LABEL)):
        warnings.append(f"{len(others):,} labels in {counts.total():,} training pairs; are they classes?")
    return warnings


def _without_long_pairs(data: DataSet, corpus: Corpus, length: int) -> DataSet:
    """Leaves out the training pairs that have a text of `length` tokens or more, also of the corpus.

    As in the code of RE2's authors, dev and test, and the words of the corpus and their counts do not change.
    """
    train = data.splits["train"]
    lengths = (np.diff(corpus.column("train", side)[1]) for side in ("a", "b"))
    rows = np.flatnonzero(np.maximum(*lengths) < length)
    if len(rows) == len(train):
        return data
    if not len(rows):
        problem = f"every training pair of data set {data.name!r} has a text of {length} tokens or more"
        raise InputError(problem, path=train.source, remedy="raise data.drop_from_length, or set it to 0")
    corpus.sentences["train"] = {side: column[rows] for side, column in corpus.sentences["train"].items()}
    dropped = {**train.dropped, f"a text of {length} tokens or more": len(train) - len(rows)}
    return dataclasses.replace(data, splits={**data.splits, "train": train.part(rows.tolist(), dropped)})
