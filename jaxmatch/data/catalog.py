"""The available data sets, and the functions that find and read their files."""

import dataclasses
import importlib.resources
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from jaxmatch.config.settings import OR_IMPORT
from jaxmatch.data import own, readers
from jaxmatch.data.own import PLAIN, SPLITS, Layout, classes_of, in_order
from jaxmatch.data.pairs import TASKS, DataSet, Split, dropped_text, hold_out, split_by_shares
from jaxmatch.data.vectors import HASHED, NO_VECTORS
from jaxmatch.errors import InputError, check_plain_file, nearest, shown

DATA_VARIABLE = "JAXMATCH_DATA"  # names the folder with the official folders of the data sets
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
      files: split -> file names in that folder, of which the first that exists is read; empty if the official release
        has no such split. If dev has the files of train, a tenth of their pairs are dev. Another file that `read` opens
        has a name of its own, such as "dev.ref".
      read: the function that reads the file of a split.
      selection: the score that chooses a checkpoint.
      read_split: split -> the function that reads it instead of `read`.
      about: split -> a description, if its name does not describe it, or the reason why it does not exist.
      filtered: whether only questions with right and wrong candidates count in the scores of a ranking, not all with
        a right one.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    folder: str
    files: Mapping[str, Sequence[str]]
    read: Callable[[Path], Split]
    selection: str
    read_split: Mapping[str, Callable[[Path], Split]] = dataclasses.field(default_factory=dict)
    about: Mapping[str, str] = dataclasses.field(default_factory=dict)
    filtered: bool = True


def _sources() -> Iterator[Source]:
    text = importlib.resources.files("jaxmatch.data").joinpath("data_sets.toml").read_text(encoding="utf-8")
    for name, fields in tomllib.loads(text).items():
        fields["read"] = getattr(readers, fields["read"])
        fields["read_split"] = {split: getattr(readers, read) for split, read in fields.get("read_split", {}).items()}
        yield Source(name, **{**fields, "labels": tuple(fields["labels"])})


CATALOG: dict[str, Source] = {source.name: source for source in _sources()}
_OF_THE_PACKAGE = frozenset(CATALOG)
_OWN_FILES = {split: tuple(f"{split}{suffix}" for suffix in own.SUFFIXES) for split in SPLITS}
_OWN = Source(OWN, "", (), "", _OWN_FILES, own.read, "")  # other fields depend on the data


def selection(name: str, task: str) -> str:
    """Returns the score that chooses a checkpoint on a data set unless `training.selection` names another one."""
    return CATALOG[name].selection if name in CATALOG else _SELECTION[task]


def names() -> tuple[str, ...]:
    """Returns the names of all data sets."""
    return (*CATALOG, OWN, *EMBEDDED_TASKS)


def is_added(name: str) -> bool:
    """Returns whether a data set was added to the catalog by code outside the package (`jaxmatch.extend`)."""
    return name in CATALOG and name not in _OF_THE_PACKAGE


def about(name: str) -> Mapping[str, str]:
    """Returns split -> a description, if its name does not describe it, or the reason why it does not exist."""
    return CATALOG.get(name, _OWN).about


def filtered(name: str) -> bool:
    """Returns whether only questions with right and wrong candidates count in the scores of a ranking."""
    return CATALOG.get(name, _OWN).filtered


def data_directory(name: str, *given: str | None) -> str:
    """Returns the folder to read data set `name` from: the first in `given`, else $JAXMATCH_DATA if official, or ""."""
    return next(filter(None, given), os.environ.get(DATA_VARIABLE, "") if name in CATALOG else "")


def vectors_file(name: str, directory: str) -> str:
    """Returns the path of a vector file that is named by its path or by its place below the data directory."""
    below = Path(directory or os.environ.get(DATA_VARIABLE, ""), name)
    # "hashed" and "none" are not files.
    return name if name in ("", HASHED, NO_VECTORS) or Path(name).exists() or not below.exists() else str(below)


def find_files(
    name: str, directory: str | Path | None = None, *, task: str = "", layout: Layout = PLAIN
) -> dict[str, Path]:
    """Returns the names in `Source.files` -> the files that `load` would read. The "train" file may be missing.

    Raises:
      InputError: the name, task or layout does not fit, or a file is missing.
    """
    if name not in names():
        raise InputError(f"there is no data set {shown(name)}", remedy=nearest(name, names()) + OR_IMPORT)
    if task not in ("", *TASKS):
        raise InputError(f"there is no task {shown(task)}", remedy=nearest(task, TASKS))
    source = CATALOG.get(name, _OWN)
    only = EMBEDDED_TASKS.get(name, source.task or task)
    if task not in ("", only):
        raise InputError(f"data set {name!r} is a {only}, not a {task}", remedy="leave the task out")
    if name != OWN and layout != PLAIN:
        raise InputError(f"--columns, --labels, --quoted and --split apply only to {OWN!r}, not to {name!r}")
    if name in EMBEDDED_TASKS:
        return {}
    if not directory:
        remedy = f"give the directory that holds {source.folder or 'its files'} (--data-directory, or JAXMATCH_DATA)"
        raise InputError(f"data set {name!r} is read from files", remedy=remedy)
    path = Path(directory)
    if name == OWN and os.path.isfile(path):
        if not layout.shares:
            remedy = "split it, as with --split 0.8/0.1/0.1, or give a folder with train, dev and test"
            raise InputError("this is one file", path=path, remedy=remedy)
        return dict.fromkeys(SPLITS[: len(layout.shares)], path)
    # The official folder, or an end of its path, is below the directory or is the directory. All splits come from one
    # folder: pieces of two releases must not be mixed.
    ends, splits = Path(source.folder).parts, source.files.items()
    for root in [path.joinpath(*ends[start:]) for start in range(len(ends) + 1)]:
        found = {split: [root / each for each in files if check_plain_file(root / each)] for split, files in splits}
        if any(found.values()):
            break
    else:
        raise missing_split(name, directory, "train")
    for paths in found.values() if name == OWN else ():
        if len(paths) > 1:
            both = " and ".join(each.name for each in paths)
            raise InputError(f"both {both} are there", path=path, remedy="keep one of them")
    files = {split: paths[0] for split, paths in found.items() if paths}
    for other in ("validation", "valid", "val") if name == OWN and "dev" not in files else ():
        if like := next(path.glob(f"{other}.*"), None):
            remedy = f"rename it to {like.name.replace(other, 'dev', 1)}"
            raise InputError(f"there is {like.name}, but no dev file", path=path, remedy=remedy)
    if not layout.shares:
        return files
    if list(files) != ["train"]:
        problem = f"there are {' and '.join(file.name for file in files.values())}, and --split takes one file"
        raise InputError(problem, path=path, remedy="leave out --split, or name the file in --data-directory")
    return dict.fromkeys(SPLITS[: len(layout.shares)], files["train"])


def missing_split(name: str, directory: str | Path | None, split: str) -> InputError:
    """Returns the error to raise if a required split is missing. Its message names the files searched."""
    source = CATALOG.get(name, _OWN)
    if name in EMBEDDED_TASKS or not source.files.get(split):
        reason = about(name).get(split, f"its splits are {', '.join(SPLITS)}")
        return InputError(f"data set {name!r} has no split {split!r}", remedy=reason)
    where = f" in {source.folder}" if source.folder else ""
    problem = f"data set {name!r} has no {split} file: looked for {', '.join(source.files[split])}{where}"
    return InputError(problem, path=directory, remedy="put it there, or give the directory that holds it")


def load(name: str, directory: str | Path | None = None, *, task: str = "", layout: Layout = PLAIN) -> DataSet:
    """Reads a data set with all its splits.

    Arguments:
      name: one of `names()`. "own" are the user's own train, dev and test files; generated data needs no files.
      directory: the folder that holds the official folders, or the files themselves; for "own", also one file that is
        split.
      task: the task of "own" data; if it is empty, a ranking if the training file has a `group`, and a classification
        otherwise.
      layout: the layout of "own" data: its columns, the names of its labels, and how one file is split.

    Returns:
      The data set with the splits that exist, of which train must. The labels of an own classification are those of its
      training file, or of the one file that is split, in the order of `own.in_order`.

    Raises:
      InputError: as in `find_files`; or a file is damaged, or has a label that the training file lacks.
    """
    files = find_files(name, directory, task=task, layout=layout)
    if name in EMBEDDED_TASKS:
        from jaxmatch.data.generated import generate

        return generate(name)
    if "train" not in files:
        raise missing_split(name, directory, "train")
    files = {split: files[split] for split in SPLITS if split in files}  # without the others of `Source.files`
    if name == OWN:
        return _load_own(files, task or own.guess_task(files["train"], layout), layout)
    source = CATALOG[name]
    splits = {split: _read(source, split, file) for split, file in files.items()}
    return DataSet(name, source.task, source.labels, splits)


def load_split(name: str, directory: str | Path | None, split: str) -> Split:
    """Reads one split of a data set other than "own". Splits in other files are not read. The errors are of `load`."""
    if name in EMBEDDED_TASKS:
        return load(name).splits[split]
    files = find_files(name, directory)
    if split not in files:
        raise missing_split(name, directory, split)
    return _read(CATALOG[name], split, files[split])


def _read(source: Source, split: str, file: Path) -> Split:
    found = source.read_split.get(split, source.read)(file)
    if split != "test" and source.files["train"] == source.files.get("dev"):
        return hold_out(found)[split == "dev"]
    return found


def _load_own(files: Mapping[str, Path], task: str, layout: Layout) -> DataSet:
    train = own.read(files["train"], task, layout=layout, training=True)
    labels = own.RANKING_LABELS if task == "ranking" else ()
    if task == "classification":
        labels = in_order(set(train.labels), classes_of(files["train"], layout), layout)
        if len(labels) < 2:
            problem = f"every pair has the label {shown(labels[0])}{dropped_text(train.dropped)}"
            remedy = "a classification needs two labels or more; if -1 is a label, name it: --labels=-1=NAME"
            raise InputError(problem, path=files["train"], remedy=remedy)
    if layout.shares:
        splits = split_by_shares(train, layout.shares, layout.seed)
    else:
        splits = [train, *(own.read(file, task, labels or None, layout=layout) for file in list(files.values())[1:])]
    return DataSet(OWN, task, labels, dict(zip(files, splits, strict=True)))
