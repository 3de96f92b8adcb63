"""The encoding of text as arrays: its settings, and the cache of its results."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from jaxmatch.config.settings import OWN_LAYOUT, DataConfig
from jaxmatch.data import cache, catalog, own, synthetic, vectors
from jaxmatch.data.encoded import EncodedData, EncodedSplit
from jaxmatch.data.kept_pairs import check_drop_length, check_words, warnings_about, without_long_pairs
from jaxmatch.data.pairs import DataSet, Split
from jaxmatch.data.text import (
    Corpus,
    Preprocessing,
    Vocabulary,
    build_vocabulary,
    character_table,
    coverage,
    exact_matches,
    folded,
    nltk_file,
    number_keys,
    substitutions,
    tagger_files,
    tags_of,
)
from jaxmatch.data.vectors import (
    DIMENSIONS,
    HASHED,
    HASHED_VERSION,
    NO_VECTORS,
    VectorReport,
    WordVectors,
    hashed_vectors,
)
from jaxmatch.errors import InputError
from jaxmatch.files import remove_abandoned

# Increased when a change makes the same input give other arrays or another report.
_FORMAT = 2
# A smaller share of tokens with a vector is worth a warning.
LOW_COVERAGE = 0.5


@dataclasses.dataclass(frozen=True)
class DataSettings(DataConfig):
    """The data section of a config with resolved paths, and the features that the model takes besides word vectors.

    Attributes:
      directory: the folder with the data files; not needed for embedded data.
      vectors: a file of word vectors, 'hashed', or 'none' for a model that trains its word vectors (data/vectors.py);
        '' for those of an embedded data set.
      characters: the size of the character vocabulary (see `character_table`); 0 leaves the characters out.
      tags: whether each token gets its part of speech.
      exact_match: whether each token gets a mark if the other sentence has the same word.
    """

    characters: int = 0
    tags: bool = False
    exact_match: bool = False

    @property
    def layout(self) -> own.Layout:
        """The layout of the files of own data."""
        return own.layout_of(dataclasses.asdict(self))

    @property
    def preprocessing(self) -> Preprocessing:
        """The settings that a trained model must store to tokenize new text."""
        return Preprocessing(
            tokenizer=self.tokenizer,
            lowercase=self.lowercase,
            remove_punctuation=self.remove_punctuation,
            maximum_length=self.maximum_length,
            truncation_side=self.truncation_side,
        )


def prepare(settings: DataSettings, cache_directory: str | Path) -> EncodedData:
    """Encodes a data set and its word vectors as arrays, or loads the arrays from the cache.

    The key of the cache covers the content of every file and every setting that changes the result. It never relies on
    names and times alone. A damaged entry is created again. Processes that start together wait for the process that
    creates the entry.

    Arguments:
      settings: the data set, and how to read it.
      cache_directory: a folder for encoded arrays, which may be shared and may be deleted.

    Raises:
      InputError: a file is missing or damaged, the settings do not fit the data, too few tokens have a vector, or the
        cache cannot be written.
    """
    cache_directory = Path(cache_directory)
    try:
        fingerprint, files = fingerprint_of(settings, cache_directory)
        entry = cache_directory / "encoded" / fingerprint
        entry.parent.mkdir(parents=True, exist_ok=True)
        for folder in (entry.parent, cache_directory / "digests"):
            remove_abandoned(folder)
        with filelock.FileLock(entry.with_name(f"{fingerprint}.lock")):
            try:
                arrays, values = cache.load(entry)
            except cache.DamagedEntry:
                encoded = encode(settings)
                if fingerprint_of(settings, cache_directory)[0] != fingerprint:
                    raise InputError(
                        "its files changed while they were read", path=settings.directory or None, remedy="start again"
                    ) from None
                cache.store(entry, *encoded)
                arrays, values = cache.load(entry)
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise InputError(
            f"the cache cannot be written ({error.strerror})",
            path=cache_directory,
            remedy="name another folder: --config.execution.cache_directory=FOLDER",
        ) from error
    covered = values["report"]["coverage"]["tokens_with_vector"]
    if settings.vectors != NO_VECTORS and covered < settings.minimum_coverage:
        raise InputError(
            f"only {covered:.1%} of all tokens have a vector",
            path=settings.vectors or None,
            remedy="give vectors of the language of the texts, or train anyway: --config.data.minimum_coverage=0; "
            "`jaxmatch data check` lists words without a vector",
        )
    return _from_entry(settings, fingerprint, files, arrays, values)


def read_word_vectors(settings: DataSettings, words: Mapping[str, int]) -> tuple[WordVectors, VectorReport]:
    """Returns vectors of the wanted words: from a file, from the spelling, from an embedded data set, or no vectors.

    Raises:
      InputError: no vectors are given for data without vectors of its own, or the file cannot be used.
    """
    if settings.vectors == HASHED:
        report = VectorReport("hashed character n-grams", DIMENSIONS, len(words), len(words))
        return WordVectors({word: row for row, word in enumerate(words)}, hashed_vectors(words)), report
    if settings.vectors == NO_VECTORS:
        nothing = WordVectors({}, np.zeros((0, DIMENSIONS), np.float32))
        return nothing, VectorReport("none", DIMENSIONS, 0, 0)
    if settings.vectors:
        return vectors.read_vectors(settings.vectors, words, lowercase=settings.lowercase)
    _check_vectors_named(settings)
    embedded = synthetic.word_vectors()
    found = [word for word in embedded if word in words]
    matrix = np.stack([embedded[word] for word in found]).astype(np.float32)
    report = VectorReport(f"embedded {synthetic.VERSION}", matrix.shape[1], len(embedded), len(found))
    return WordVectors({word: row for row, word in enumerate(found)}, matrix), report


def _check_vectors_named(settings: DataSettings) -> None:
    if not settings.vectors and settings.name not in catalog.EMBEDDED_TASKS:
        raise InputError(
            f"data set {settings.name!r} has no word vectors of its own",
            remedy=f"{vectors.REMEDY}, or use --vectors hashed",
        )


def fingerprint_of(settings: DataSettings, cache_directory: Path) -> tuple[str, dict[str, str]]:
    """Returns the hash of everything that the arrays are made from, and the hashes of the data files."""
    _check_vectors_named(settings)
    check_drop_length(settings.drop_from_length, settings.maximum_length)
    files = catalog.find_files(settings.name, settings.directory or None, task=settings.task, layout=settings.layout)
    digests = {key: cache.file_digest(path, cache_directory) for key, path in files.items()}
    description: dict[str, Any] = {
        "format": _FORMAT,
        "name": settings.name,
        "task": settings.task,
        "files": {key: [path.name, digests[key]] for key, path in files.items()},
        "preprocessing": dataclasses.asdict(settings.preprocessing),
        "minimum_count": settings.minimum_count,
        "layout": {name: getattr(settings, name) for name in OWN_LAYOUT},
    }
    # Not the version of NLTK: most new versions give the same tokens.
    if (rules := substitutions(settings.tokenizer)) is None:
        rules = cache.file_digest(nltk_file("tokenize", "casual.py"), cache_directory)
    description["tokenizer"] = rules
    if settings.drop_from_length:
        description["drop_from_length"] = settings.drop_from_length
    if settings.name == catalog.OWN and "train" in files:  # `jaxmatch.data.save` keeps them in a file of their own
        description["classes"] = own.classes_of(files["train"], settings.layout)
    if settings.tags:
        code = nltk_file("tag", "perceptron.py")
        description["tags"] = [cache.file_digest(path, cache_directory) for path in (*tagger_files(), code)]
    if settings.exact_match:
        description["exact_match"] = True
    if settings.name in catalog.EMBEDDED_TASKS:
        description["embedded"] = synthetic.VERSION
    if catalog.is_added(settings.name):  # the code that reads it may have changed
        description["pairs"] = catalog.load(settings.name, settings.directory or None).digest()
    if settings.vectors == HASHED:
        description["vectors"] = [HASHED, HASHED_VERSION]
    elif settings.vectors == NO_VECTORS:
        description["vectors"] = [NO_VECTORS, DIMENSIONS]
    elif settings.vectors:
        digest = cache.file_digest(vectors.file_of(settings.vectors), cache_directory)
        description["vectors"] = [
            vectors.file_name(settings.vectors),
            vectors.split_path(settings.vectors)[1],
            digest,
        ]
    return cache.content_hash(description), digests


def encode(settings: DataSettings) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Encodes a data set. Returns the arrays and the values of its cache entry."""
    data = catalog.load(settings.name, settings.directory or None, task=settings.task, layout=settings.layout)
    corpus = Corpus(data, settings.preprocessing)
    check_words(data, corpus, settings.preprocessing)
    warnings = warnings_about(data, corpus, settings.task)
    if settings.drop_from_length:
        data = without_long_pairs(data, corpus, settings.drop_from_length)
    found, vector_report = read_word_vectors(settings, corpus.words)
    counts = dict(zip(corpus.words, corpus.counts.tolist(), strict=True))
    words = build_vocabulary(counts, found, settings.minimum_count)
    ids = np.array(words.ids(corpus.words), np.int32)
    arrays: dict[str, np.ndarray] = {"vectors": _table(words, found, vector_report.dimensions)}
    tags = tags_of(corpus.texts, settings.preprocessing) if settings.tags else None
    alike: dict[str, int] = {}
    folded_words = np.array([alike.setdefault(folded(word), len(alike)) for word in corpus.words], np.int64)
    for name, split in data.splits.items():
        columns = []
        for side in ("a", "b"):
            positions, offsets = corpus.positions(name, side)
            tokens = corpus.tokens[positions]
            arrays[f"{name}.tokens_{side}"], arrays[f"{name}.offsets_{side}"] = ids[tokens], offsets
            if tags is not None:
                arrays[f"{name}.tags_{side}"] = tags[positions]
            if settings.exact_match:
                columns += [folded_words[tokens], offsets]
        if settings.exact_match:
            arrays[f"{name}.exact_match_a"], arrays[f"{name}.exact_match_b"] = exact_matches(*columns)
        arrays.update(_labels_and_groups(name, split, data))
    values = {
        "task": data.task,
        "labels": list(data.labels),
        "splits": list(data.splits),
        "words": list(words.words),
        "report": _report(data, counts, words, found, vector_report) | {"warnings": warnings},
    }
    covered = values["report"]["coverage"]["tokens_with_vector"]
    if covered < LOW_COVERAGE and settings.vectors != NO_VECTORS:
        warnings.append(f"only {covered:.1%} of all tokens have a vector in {vector_report.name}")
    return arrays, values


def _table(words: Vocabulary, found: WordVectors, dimensions: int) -> np.ndarray:
    table = np.zeros((len(words), dimensions), np.float32)
    for number, word in enumerate(words.words[2:], start=2):
        if word in found:
            table[number] = found[word]
    return table


def _labels_and_groups(name: str, split: Split, data: DataSet) -> dict[str, np.ndarray]:
    if data.task == "regression":
        arrays = {f"{name}.labels": np.array(split.labels, np.float32)}
    else:
        numbers = {label: number for number, label in enumerate(data.labels)}
        arrays = {f"{name}.labels": np.array([numbers[label] for label in split.labels], np.int32)}
    if split.groups is not None:
        arrays[f"{name}.groups"] = number_keys(split.groups, {}).astype(np.int32)
    if split.documents is not None:
        arrays[f"{name}.documents"] = np.array(split.documents, np.str_)
    return arrays


def _report(
    data: DataSet, counts: Mapping[str, int], words: Vocabulary, found: WordVectors, vector_report: VectorReport
) -> dict[str, Any]:
    return {
        "counts": {name: len(split) for name, split in data.splits.items()},
        "dropped": {name: dict(split.dropped) for name, split in data.splits.items()},
        "in_train": data.in_train(),
        "words": len(words),
        "coverage": coverage(counts, words, found),
        "vectors": vector_report.name,
        "dimensions": vector_report.dimensions,
        "vector_lines": vector_report.lines,
        "broken_vector_lines": vector_report.broken,
        "broken_vector_examples": list(vector_report.broken_examples),
    }


def _from_entry(
    settings: DataSettings,
    fingerprint: str,
    files: Mapping[str, str],
    arrays: Mapping[str, np.ndarray],
    values: Mapping[str, Any],
) -> EncodedData:
    names = [field.name for field in dataclasses.fields(EncodedSplit)]
    # Computing this table takes less time than reading it from a file and checking its hash.
    characters = character_table(values["words"], settings.characters) if settings.characters else None
    return EncodedData(
        name=settings.name,
        task=values["task"],
        labels=tuple(values["labels"]),
        splits={
            split: EncodedSplit(**{name: arrays.get(f"{split}.{name}") for name in names}) for split in values["splits"]
        },
        vocabulary=Vocabulary(values["words"]),
        vectors=arrays["vectors"],
        preprocessing=settings.preprocessing,
        report=values["report"],
        fingerprint=fingerprint,
        characters=characters,
        files=files,
    )
