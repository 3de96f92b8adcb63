"""The data sets there are, and how a name becomes a `DataSet`."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from jaxmatch import plain_file
from jaxmatch.data.dataset import TASKS, DataSet, Split
from jaxmatch.data.readers import own
from jaxmatch.data.sources import CATALOG, SPLITS
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

OWN = "own"
EMBEDDED_TASKS = {
    "embedded_inference": "classification",
    "embedded_paraphrase": "classification",
    "embedded_ranking": "ranking",
}
# The score that chooses a checkpoint of data that is not in `CATALOG`, by its task.
SELECTION = {"classification": "accuracy", "regression": "pearson", "ranking": "mrr"}


def names() -> tuple[str, ...]:
    """The data sets there are."""
    return (*CATALOG, OWN, *EMBEDDED_TASKS)


def find_files(name: str, directory: str | Path | None = None, *, task: str = "") -> dict[str, Path]:
    """The files that `load` would read, without reading them; "train" need not be among them.

    Returns:
      Split -> its file, for the splits there are; a companion file stands under its split and suffix ("dev.ref").
      Empty for generated data.

    Raises:
      InputError: an unknown name or task, no such directory, no file at all, something else than a regular file in the
        place of one, or a companion file is missing.
    """
    _check_name_and_task(name, task)
    if name in EMBEDDED_TASKS:
        return {}
    candidates, folder, companion_suffix = _layout(name)
    roots = _roots(name, directory, folder)
    # All splits come from one folder: pieces of two releases must not be mixed.
    found: dict[str, Path] = {}
    for root in roots:
        for split in SPLITS:
            there = [root / file for file in candidates[split] if plain_file.is_plain_file(root / file)]
            if name == OWN and len(there) > 1:
                raise InputError(
                    f"both {' and '.join(path.name for path in there)} are there", path=root, remedy="keep one of them"
                )
            if there:
                found[split] = there[0]
        if found:
            break
    if not found:
        raise missing_split(name, directory, "train")
    if companion_suffix:
        for split in tuple(found):
            companion = found[split].with_suffix(companion_suffix)
            if not plain_file.is_plain_file(companion):
                raise InputError(
                    f"there is no such file, which is needed beside {found[split].name}",
                    path=companion,
                    remedy="both are part of the official release",
                )
            found[f"{split}{companion_suffix}"] = companion
    return found


def missing_split(name: str, directory: str | Path | None, split: str) -> InputError:
    """The error to raise where a split is needed that is not there; it says which files were looked for, and where."""
    if name in EMBEDDED_TASKS:
        return InputError(f"data set {name!r} has no split {split!r}", remedy=f"its splits are {', '.join(SPLITS)}")
    candidates, folder, _ = _layout(name)
    if split not in candidates:
        return InputError(f"there is no split {shown(split)}", remedy=f"the splits are {', '.join(SPLITS)}")
    if not candidates[split]:
        return InputError(f"data set {name!r} has no {split} split: {about(name)[split]}")
    roots = _roots(name, directory, folder)
    places = f" in {' or '.join(map(str, roots))}" if folder else ""
    return InputError(
        f"data set {name!r} has no {split} file: looked for {' or '.join(candidates[split])}{places}",
        path=directory,
        remedy="put it there, or give the directory that holds it",
    )


def about(name: str) -> Mapping[str, str]:
    """Split -> what it is, where that is not what its name says, or why the official release has none."""
    return CATALOG[name].about if name in CATALOG else {}


def filtered(name: str) -> bool:
    """Whether only questions with right and wrong candidates count in the scores of a ranking; of one's own data, they
    do.
    """
    return CATALOG[name].filtered if name in CATALOG else True


def load(name: str, directory: str | Path | None = None, *, task: str = "") -> DataSet:
    """Reads a data set whole.

    Arguments:
      name: a name of `CATALOG`; "own" for the user's own train/dev/test `.tsv` or `.jsonl`; "embedded_inference",
        "embedded_paraphrase" or "embedded_ranking" for generated data, which needs no files.
      directory: the folder that holds the official folders, or one that holds the files themselves; for "own" the
        folder with the files.
      task: what "own" data is for. Left empty, a training file with a `group` is a ranking and any other a
        classification: scores to be regressed need "regression" said. Other data sets have one task, and take no other.

    Returns:
      The data set with the splits there are; "train" is always among them. The labels of an own classification are
      the sorted labels of its training file.

    Raises:
      InputError: as in `find_files`, or there is no training file, or a file or a line of it is damaged; a label of an
        own dev or test file that the training file lacks counts as damage.
    """
    files = find_files(name, directory, task=task)
    if name in EMBEDDED_TASKS:
        from jaxmatch.data.synthetic import generate

        return generate(name)
    if "train" not in files:
        raise missing_split(name, directory, "train")
    splits_there = [split for split in SPLITS if split in files]
    if name == OWN:
        return _load_own(files, splits_there, task)
    source = CATALOG[name]
    splits = {split: source.read_split.get(split, source.read)(files[split]) for split in splits_there}
    # A training file that also holds the dev pairs is one file.
    return DataSet(name, source.task, source.labels, splits, tuple(dict.fromkeys(files.values())))


def load_split(name: str, directory: str | Path | None, split: str) -> Split:
    """Reads one split of a data set that is not one's own, without the pairs beside it where they lie in other files.

    Raises:
      InputError: as in `load`, or there is no such split.
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


def _load_own(files: Mapping[str, Path], splits_there: list[str], task: str) -> DataSet:
    guessed = not task
    task = task or own.guess_task(files["train"])
    train = own.read(files["train"], task, guessed=guessed)
    labels: tuple[str, ...] = ()
    if task == "ranking":
        labels = own.RANKING_LABELS
    elif task == "classification":
        labels = tuple(sorted(set(train.labels)))
        if len(labels) < 2:
            raise InputError(
                f"every pair has the label {shown(labels[0])}",
                path=files["train"],
                remedy="a classification needs two labels or more",
            )
    splits = {"train": train}
    for split in splits_there[1:]:
        splits[split] = own.read(files[split], task, labels if task == "classification" else None, guessed)
    return DataSet(OWN, task, labels, splits, tuple(files.values()))


def _check_name_and_task(name: str, task: str) -> None:
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.5)
        remedy = f"did you mean {' or '.join(near)}?" if near else f"the data sets are {', '.join(names())}"
        raise InputError(f"there is no data set {shown(name)}", remedy=remedy)
    if task and task not in TASKS:
        near = difflib.get_close_matches(task, TASKS, n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]}?" if near else f"the tasks are {', '.join(TASKS)}"
        raise InputError(f"there is no task {shown(task)}", remedy=remedy)
    only = CATALOG[name].task if name in CATALOG else EMBEDDED_TASKS.get(name, task)
    if task and task != only:
        also = "; the regression is 'sick_relatedness'" if name == "sick" else ""
        raise InputError(f"data set {name!r} is a {only}, not a {task}", remedy=f"leave the task out{also}")


def _layout(name: str) -> tuple[Mapping[str, tuple[str, ...]], str, str]:
    """(split -> candidate file names, official folder, companion suffix) of data that lies in files."""
    if name == OWN:
        return {split: tuple(f"{split}{suffix}" for suffix in own.SUFFIXES) for split in SPLITS}, "", ""
    source = CATALOG[name]
    return source.files, source.folder, source.companion_suffix


def _roots(name: str, directory: str | Path | None, folder: str) -> list[Path]:
    """Where the files may lie: the official folder below `directory`, the ends of its path, `directory` itself."""
    if directory is None or directory == "":
        raise InputError(
            f"data set {name!r} is read from files",
            remedy=f"give the directory that holds {folder or 'them'} (--data-directory, or the variable JAXMATCH_DATA)",
        )
    directory = Path(directory)
    kind = plain_file.kind(directory)
    if kind != plain_file.FOLDER:
        problem = f"this is {kind}, not a directory" if kind else "there is no such directory"
        raise InputError(problem, path=directory, remedy=f"give the directory that holds {folder or 'the files'}")
    parts = Path(folder).parts
    return [directory.joinpath(*parts[start:]) for start in range(len(parts) + 1)]
