"""The available data sets, and the functions that find and read their files."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from jaxmatch import errors
from jaxmatch.config.settings import OR_IMPORT
from jaxmatch.data import own, readers
from jaxmatch.data.own import PLAIN, Layout, classes_of, in_order
from jaxmatch.data.pairs import NO_LABEL, TASKS, DataSet, Split, dropped_text, hold_out, split_by_shares
from jaxmatch.data.vectors import HASHED, NO_VECTORS
from jaxmatch.errors import InputError, nearest, shown

# The environment variable that names the folder with the official folders of the data sets.
DATA_VARIABLE = "JAXMATCH_DATA"
SPLITS = ("train", "dev", "test")
OWN = "own"
EMBEDDED_TASKS = {
    "embedded_inference": "classification",
    "embedded_paraphrase": "classification",
    "embedded_ranking": "ranking",
}
# Task -> the score that chooses a checkpoint, for data sets that are not in `CATALOG`.
_SELECTION = {"classification": "accuracy", "regression": "pearson", "ranking": "mrr"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A data set that can be read from its official files.

    Attributes:
      name: the name of the data set.
      task: "classification", "regression" or "ranking".
      labels: label names in the order of the model's outputs; empty for a regression.
      folder: the official folder, relative to the data directory.
      files: split -> candidate file names in that folder. The first file that exists is read. Empty if the official
        release has no such split.
      read: the function that reads the file of a split.
      selection: the score that chooses a checkpoint.
      read_split: split -> the function that reads it instead of `read`.
      about: split -> a description, if its name does not describe it, or the reason why it does not exist.
      filtered: whether only questions with right and wrong candidates count in the scores of a ranking; otherwise all
        questions with a right candidate count.
      companion_suffix: the suffix of a second file that each split's file needs in the same folder; empty if no second
        file is needed.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    folder: str
    files: Mapping[str, tuple[str, ...]]
    read: Callable[[Path], Split]
    selection: str
    read_split: Mapping[str, Callable[[Path], Split]] = dataclasses.field(default_factory=dict)
    about: Mapping[str, str] = dataclasses.field(default_factory=dict)
    filtered: bool = True
    companion_suffix: str = ""


_HELD_OUT = "a tenth of the official training file, whose other pairs are train; there is no official dev file"
_TREC_FOLDER = "jacana-qa-naacl2013-data-results"


def _trecqa(name: str, train: str, *, clean: bool) -> Source:
    kept = "questions with right and wrong answers only"
    counted = "MAP and MRR over the questions with a right answer, those without a wrong one among them"
    return Source(
        name=name,
        task="ranking",
        labels=readers.BINARY,
        folder=_TREC_FOLDER,
        files={"train": (train,), "dev": ("dev.xml",), "test": ("test.xml",)},
        read=readers.read_trecqa_clean if clean else readers.read_trecqa,
        selection="map",
        # The clean sets differ in dev and test (Rao et al., 2016, Table 1). Training uses all questions.
        read_split={"train": readers.read_trecqa},
        about=dict.fromkeys(("dev", "test"), kept if clean else counted),
        filtered=clean,
    )


def _held_out(read: Callable[[Path], Split]) -> dict[str, Callable[[Path], Split]]:
    return {"train": lambda path: hold_out(read(path))[0], "dev": lambda path: hold_out(read(path))[1]}


_SICK_FILES = {"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)}

# The repository of the corpus holds samples of the files that its authors send on request.
_TWITTER_TRAIN = ("Twitter_URL_Corpus_train.txt", "Twitter_URL_Corpus_train_sample.txt")

CATALOG: dict[str, Source] = {
    "snli": Source(
        name="snli",
        task="classification",
        labels=readers.INFERENCE,
        folder="snli_1.0",
        files={split: (f"snli_1.0_{split}.jsonl", f"snli_1.0_{split}.txt") for split in SPLITS},
        read=readers.read_snli,
        selection="accuracy",
    ),
    "scitail": Source(
        name="scitail",
        task="classification",
        labels=readers.SCITAIL,
        folder="SciTailV1.1/tsv_format",
        files={split: (f"scitail_1.0_{split}.tsv",) for split in SPLITS},
        read=readers.read_scitail,
        selection="accuracy",
    ),
    "quora": Source(
        name="quora",
        task="classification",
        labels=readers.BINARY,
        folder="Quora_question_pair_partition",
        files={split: (f"{split}.tsv",) for split in SPLITS},
        read=readers.read_quora,
        selection="accuracy",
    ),
    "wikiqa": Source(
        name="wikiqa",
        task="ranking",
        labels=readers.BINARY,
        folder="WikiQACorpus",
        files={split: (f"WikiQA-{split}.txt",) for split in SPLITS},
        read=readers.read_wikiqa,
        selection="mrr",
        companion_suffix=readers.WIKIQA_COMPANION,
    ),
    "sick": Source(
        name="sick",
        task="classification",
        labels=readers.INFERENCE,
        folder="SICK",
        files=_SICK_FILES,
        read=readers.read_sick,
        selection="accuracy",
    ),
    "sick_relatedness": Source(
        name="sick_relatedness",
        task="regression",
        labels=(),
        folder="SICK",
        files=_SICK_FILES,
        read=readers.read_sick_relatedness,
        selection="pearson",
    ),
    "multinli": Source(
        name="multinli",
        task="classification",
        labels=readers.INFERENCE,
        folder="multinli_1.0",
        files={
            "train": ("multinli_1.0_train.jsonl", "multinli_1.0_train.txt"),
            "dev": ("multinli_1.0_dev_matched.jsonl", "multinli_1.0_dev_matched.txt"),
            "test": ("multinli_1.0_dev_mismatched.jsonl", "multinli_1.0_dev_mismatched.txt"),
        },
        read=readers.read_snli,
        selection="accuracy",
        about={
            "dev": "the matched development pairs",
            "test": "the mismatched development pairs; the labels of the official test pairs are not public",
        },
    ),
    "trecqa": _trecqa("trecqa", "train.xml", clean=False),
    "trecqa_clean": _trecqa("trecqa_clean", "train.xml", clean=True),
    "trecqa_all": _trecqa("trecqa_all", "train-all.xml", clean=False),
    "trecqa_all_clean": _trecqa("trecqa_all_clean", "train-all.xml", clean=True),
    "twitter_url": Source(
        name="twitter_url",
        task="classification",
        labels=readers.BINARY,
        folder="Twitter_URL_Corpus",
        files={
            "train": _TWITTER_TRAIN,
            "dev": _TWITTER_TRAIN,
            "test": ("Twitter_URL_Corpus_test.txt", "Twitter_URL_Corpus_test_sample.txt"),
        },
        read=readers.read_twitter_url,
        selection="max_f1",
        read_split=_held_out(readers.read_twitter_url),
        about={"dev": _HELD_OUT},
    ),
    "ubuntu": Source(
        name="ubuntu",
        task="ranking",
        labels=readers.BINARY,
        folder="ubuntu_data",
        files={"train": ("train.txt",), "dev": ("valid.txt",), "test": ("test.txt",)},
        read=readers.read_ubuntu,
        selection="recall_at_1",
        read_split={"train": readers.read_ubuntu_train},
    ),
    "mrpc": Source(
        name="mrpc",
        task="classification",
        labels=readers.BINARY,
        folder="MRPC",
        files={
            "train": ("msr_paraphrase_train.txt",),
            "dev": ("msr_paraphrase_train.txt",),
            "test": ("msr_paraphrase_test.txt",),
        },
        read=readers.read_mrpc,
        selection="accuracy",
        read_split=_held_out(readers.read_mrpc),
        about={"dev": _HELD_OUT},
    ),
    "rte": Source(
        name="rte",
        task="classification",
        labels=readers.RTE,
        folder="RTE",
        files={"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ()},
        read=readers.read_rte,
        selection="accuracy",
        about={"test": "the official test file has no labels"},
    ),
    "stsb": Source(
        name="stsb",
        task="regression",
        labels=(),
        folder="stsbenchmark",
        files={split: (f"sts-{split}.csv",) for split in SPLITS},
        read=readers.read_stsb,
        selection="pearson",
    ),
}
_OF_THE_PACKAGE = frozenset(CATALOG)


def selection(name: str, task: str) -> str:
    """Returns the score that chooses a checkpoint on a data set unless `training.selection` names another one."""
    return CATALOG[name].selection if name in CATALOG else _SELECTION[task]


def names() -> tuple[str, ...]:
    """Returns the names of all data sets."""
    return (*CATALOG, OWN, *EMBEDDED_TASKS)


def is_added(name: str) -> bool:
    """Returns whether a data set was added to the catalog by code outside the package (`jaxmatch.extend`)."""
    return name in CATALOG and name not in _OF_THE_PACKAGE


def data_directory(name: str, *given: str | None) -> str:
    """Returns the folder to read data set `name` from: the first in `given`, else $JAXMATCH_DATA, else "".

    $JAXMATCH_DATA is the folder of the official data sets, so the user's own data is never looked for there.
    """
    places = [place for place in given if place]
    if not places and name in CATALOG:
        places = [os.environ.get(DATA_VARIABLE, "")]
    return places[0] if places else ""


def vectors_file(name: str, directory: str) -> str:
    """Returns the path of a vector file that is named by its path or by its place below the data directory.

    "hashed" and "none" are not files and are returned as they are.
    """
    if name in (HASHED, NO_VECTORS):
        return name
    directory = directory or os.environ.get(DATA_VARIABLE, "")
    if name and directory and not Path(name).exists() and (Path(directory) / name).exists():
        return str(Path(directory) / name)
    return name


def find_files(
    name: str, directory: str | Path | None = None, *, task: str = "", layout: Layout = PLAIN
) -> dict[str, Path]:
    """Returns the files that `load` would read, without reading them. The "train" file may be missing.

    Returns:
      Split -> its file, for the splits that have one. A companion file is under its split and suffix ("dev.ref").
      Empty for generated data.

    Raises:
      InputError: the name or the task is unknown, the directory does not exist, no file is found, something other than
        a regular file is in the place of a file, a companion file is missing, or a layout is given for data other than
        "own".
    """
    if name not in names():
        raise InputError(f"there is no data set {shown(name)}", remedy=nearest(name, names()) + OR_IMPORT)
    if task and task not in TASKS:
        raise InputError(f"there is no task {shown(task)}", remedy=nearest(task, TASKS))
    only = CATALOG[name].task if name in CATALOG else EMBEDDED_TASKS.get(name, task)
    if task and task != only:
        also = "; the regression is 'sick_relatedness'" if name == "sick" else ""
        raise InputError(f"data set {name!r} is a {only}, not a {task}", remedy=f"leave the task out{also}")
    if name != OWN and layout != PLAIN:
        raise InputError(
            f"--columns, --labels, --quoted and --split apply only to the data set {OWN!r}, not to {name!r}"
        )
    if name in EMBEDDED_TASKS:
        return {}
    if name == OWN and (file := _single_file(directory, layout)):
        return dict.fromkeys(SPLITS[: len(layout.shares)], file)
    candidates, folder, companion_suffix = _file_candidates(name)
    roots = _roots(name, directory, folder)
    # All splits come from one folder: pieces of two releases must not be mixed.
    found: dict[str, Path] = {}
    for root in roots:
        for split in SPLITS:
            existing = [root / file for file in candidates[split] if errors.is_plain_file(root / file)]
            if name == OWN and len(existing) > 1:
                raise InputError(
                    f"both {' and '.join(path.name for path in existing)} are there",
                    path=root,
                    remedy="keep one of them",
                )
            if existing:
                found[split] = existing[0]
        if found:
            break
    if not found:
        raise missing_split(name, directory, "train")
    if name == OWN and "dev" not in found:
        for stem, suffix in itertools.product(("validation", "valid", "val"), own.SUFFIXES):
            if (root / f"{stem}{suffix}").is_file():
                problem = f"there is {stem}{suffix}, but no dev file"
                raise InputError(problem, path=root, remedy=f"rename it to dev{suffix}")
    if companion_suffix:
        for split in tuple(found):
            companion = found[split].with_suffix(companion_suffix)
            if not errors.is_plain_file(companion):
                raise InputError(
                    f"there is no such file, which is needed with {found[split].name}",
                    path=companion,
                    remedy="both are part of the official release",
                )
            found[f"{split}{companion_suffix}"] = companion
    return found


def missing_split(name: str, directory: str | Path | None, split: str) -> InputError:
    """Returns the error to raise if a required split is missing. Its message names the files and folders searched."""
    if name in EMBEDDED_TASKS:
        return InputError(f"data set {name!r} has no split {split!r}", remedy=f"its splits are {', '.join(SPLITS)}")
    candidates, folder, _ = _file_candidates(name)
    if split not in candidates:
        return InputError(f"there is no split {shown(split)}", remedy=f"the splits are {', '.join(SPLITS)}")
    if name == OWN and directory and errors.kind(directory) == errors.FILE:
        return InputError(
            f"the file was split without a {split} part", path=directory, remedy="give its share in --split"
        )
    if not candidates[split]:
        return InputError(f"data set {name!r} has no {split} split: {about(name)[split]}")
    roots = _roots(name, directory, folder)
    places = f" in {' or '.join(map(str, roots))}" if folder else ""
    return InputError(
        f"data set {name!r} has no {split} file: looked for {_candidates_text(name, candidates[split])}{places}",
        path=directory,
        remedy="put it there, or give the directory that holds it",
    )


def about(name: str) -> Mapping[str, str]:
    """Returns split -> a description, if the name of the split does not describe it, or the reason why the official
    release has no such split.
    """
    return CATALOG[name].about if name in CATALOG else {}


def filtered(name: str) -> bool:
    """Returns whether only questions with right and wrong candidates count in the scores of a ranking.

    True for data sets that are not in `CATALOG`.
    """
    return CATALOG[name].filtered if name in CATALOG else True


def load(name: str, directory: str | Path | None = None, *, task: str = "", layout: Layout = PLAIN) -> DataSet:
    """Reads a data set with all its splits.

    Arguments:
      name: a name in `CATALOG`; "own" for the user's own train, dev and test files; "embedded_inference",
        "embedded_paraphrase" or "embedded_ranking" for generated data, which needs no files.
      directory: the folder that holds the official folders, or the folder that holds the files themselves; for "own",
        the folder with the files, or one file that is split.
      task: the task of "own" data. If it is empty, the task is a ranking if the training file has a `group`, and a
        classification otherwise; a regression must be requested. Other data sets have one task and accept no other.
      layout: the layout of "own" data: its columns, the names of its labels, and how one file is split.

    Returns:
      The data set with the splits that exist; "train" is always among them. The labels of an own classification are
      those of its training file, or of the one file that is split, in the order of `own.in_order`.

    Raises:
      InputError: as in `find_files`; or the training file does not exist, or a file or a line of it is damaged. A label
        of an own dev or test file that the training file lacks counts as damage.
    """
    files = find_files(name, directory, task=task, layout=layout)
    if name in EMBEDDED_TASKS:
        from jaxmatch.data.generated import generate

        return generate(name)
    if "train" not in files:
        raise missing_split(name, directory, "train")
    existing_splits = [split for split in SPLITS if split in files]
    if name == OWN:
        return _load_own(files, existing_splits, task, layout)
    source = CATALOG[name]
    splits = {split: source.read_split.get(split, source.read)(files[split]) for split in existing_splits}
    return DataSet(name, source.task, source.labels, splits)


def load_split(name: str, directory: str | Path | None, split: str) -> Split:
    """Reads one split of a data set other than "own". Splits in other files are not read.

    Raises:
      InputError: as in `load`, or the split does not exist.
    """
    files = find_files(name, directory)
    if name in EMBEDDED_TASKS:
        found = load(name).splits
        if split in found:
            return found[split]
    elif split in files:
        source = CATALOG[name]
        return source.read_split.get(split, source.read)(files[split])
    raise missing_split(name, directory, split)


def _load_own(files: Mapping[str, Path], existing_splits: list[str], task: str, layout: Layout) -> DataSet:
    guessed = not task
    task = task or own.guess_task(files["train"], layout)
    train = own.read(files["train"], task, guessed=guessed, layout=layout, training=True)
    labels: tuple[str, ...] = ()
    if task == "ranking":
        labels = own.RANKING_LABELS
    elif task == "classification":
        labels = in_order(set(train.labels), classes_of(files["train"], layout), layout)
        if len(labels) < 2:
            named = "; if -1 is a label, name it: --labels=-1=NAME" if NO_LABEL in train.dropped else ""
            raise InputError(
                f"every pair has the label {shown(labels[0])}{dropped_text(train.dropped)}",
                path=files["train"],
                remedy=f"a classification needs two labels or more{named}",
            )
    if layout.shares:
        parts = split_by_shares(train, layout.shares, layout.seed)
        return DataSet(OWN, task, labels, dict(zip(existing_splits, parts, strict=True)))
    splits = {"train": train}
    for split in existing_splits[1:]:
        known = labels if task == "classification" else None
        splits[split] = own.read(files[split], task, known, layout=layout, guessed=guessed)
    return DataSet(OWN, task, labels, splits)


def _single_file(directory: str | Path | None, layout: Layout) -> Path | None:
    """Returns the one file of own data that is split, or None if each split has its own file.

    Raises:
      InputError: one file is given without shares to split it by, or shares are given for several files.
    """
    if not directory:
        return None
    path = Path(directory)
    if errors.kind(path) == errors.FILE:
        if not layout.shares:
            raise InputError(
                "this is one file",
                path=path,
                remedy="split it, as with --split 0.8/0.1/0.1, or give a folder with train, dev and test",
            )
        if not own.format_of(path):
            raise InputError(
                f"its name ends in none of {', '.join(own.FORMATS)}",
                path=path,
                remedy="give it the ending of its format",
            )
        return path
    if not layout.shares:
        return None
    files = find_files(OWN, path)
    if list(files) != ["train"]:
        raise InputError(
            f"there are {' and '.join(file.name for file in files.values())}, and --split takes one file",
            path=path,
            remedy="leave out --split, or name the file in --data-directory",
        )
    return files["train"]


def _file_candidates(name: str) -> tuple[Mapping[str, tuple[str, ...]], str, str]:
    """Returns split -> candidate file names, the official folder and the companion suffix of a data set in files."""
    if name == OWN:
        return {split: tuple(f"{split}{suffix}" for suffix in own.SUFFIXES) for split in SPLITS}, "", ""
    source = CATALOG[name]
    return source.files, source.folder, source.companion_suffix


def _candidates_text(name: str, candidates: tuple[str, ...]) -> str:
    """Returns text that lists the candidate file names. For own data, the names with .gz are summarized."""
    *others, last = candidates[: len(own.FORMATS)] if name == OWN else candidates
    return (
        ((", " if name == OWN else " or ").join(others) + " or " if others else "")
        + last
        + (", also with .gz" if name == OWN else "")
    )


def _roots(name: str, directory: str | Path | None, folder: str) -> list[Path]:
    """Returns the folders to search, in order: below `directory`, the path of the official folder and each shorter end
    of that path; then `directory` itself.
    """
    if directory is None or directory == "":
        raise InputError(
            f"data set {name!r} is read from files",
            remedy=f"give the directory that holds {folder or 'them'} (--data-directory"
            f"{', or the variable JAXMATCH_DATA' if folder else ''})",
        )
    directory = Path(directory)
    kind = errors.kind(directory)
    if kind != errors.FOLDER:
        problem = f"this is {kind}, not a directory" if kind else "there is no such directory"
        raise InputError(
            problem, path=directory, remedy=f"give the directory that holds {folder or 'the files'} (--data-directory)"
        )
    parts = Path(folder).parts
    return [directory.joinpath(*parts[start:]) for start in range(len(parts) + 1)]
