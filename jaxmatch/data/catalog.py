"""The data sets there are, and how a name becomes a `DataSet`."""

from collections.abc import Mapping
from pathlib import Path

from jaxmatch import plain_file
from jaxmatch.data.dataset import TASKS, DataSet, Split
from jaxmatch.data.readers import own
from jaxmatch.data.readers.own_layout import PLAIN, Layout
from jaxmatch.data.readers.pairs import NO_LABEL, dropped_text
from jaxmatch.data.readers.parting import part
from jaxmatch.data.sources import CATALOG, SPLITS
from jaxmatch.errors import InputError, nearest
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


def find_files(
    name: str, directory: str | Path | None = None, *, task: str = "", layout: Layout = PLAIN
) -> dict[str, Path]:
    """The files that `load` would read, without reading them; "train" need not be among them.

    Returns:
      Split -> its file, for the splits there are; a companion file is under its split and suffix ("dev.ref").
      Empty for generated data.

    Raises:
      InputError: an unknown name or task, no such directory, no file at all, something else than a regular file in the
        place of one, or a companion file is missing; a layout for data that is not one's own.
    """
    _check_name_and_task(name, task)
    if name != OWN and layout != PLAIN:
        raise InputError(
            f"--columns, --labels, --quoted and --split apply only to the data set {OWN!r}, not to {name!r}"
        )
    if name in EMBEDDED_TASKS:
        return {}
    if name == OWN and (file := _single_file(directory, layout)):
        return dict.fromkeys(SPLITS[: len(layout.shares)], file)
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
                    f"there is no such file, which is needed with {found[split].name}",
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
    if name == OWN and directory and plain_file.kind(directory) == plain_file.FILE:
        return InputError(
            f"the file was split without a {split} part", path=directory, remedy="give its share in --split"
        )
    if not candidates[split]:
        return InputError(f"data set {name!r} has no {split} split: {about(name)[split]}")
    roots = _roots(name, directory, folder)
    places = f" in {' or '.join(map(str, roots))}" if folder else ""
    return InputError(
        f"data set {name!r} has no {split} file: looked for {_any_of(name, candidates[split])}{places}",
        path=directory,
        remedy="put it there, or give the directory that holds it",
    )


def about(name: str) -> Mapping[str, str]:
    """Split -> a description, if its name does not describe it, or the reason why the official release has none."""
    return CATALOG[name].about if name in CATALOG else {}


def filtered(name: str) -> bool:
    """Whether only questions with right and wrong candidates count in the scores of a ranking; True for own data."""
    return CATALOG[name].filtered if name in CATALOG else True


def load(name: str, directory: str | Path | None = None, *, task: str = "", layout: Layout = PLAIN) -> DataSet:
    """Reads a data set whole.

    Arguments:
      name: a name of `CATALOG`; "own" for the user's own train, dev and test files; "embedded_inference",
        "embedded_paraphrase" or "embedded_ranking" for generated data, which needs no files.
      directory: the folder that holds the official folders, or one that holds the files themselves; for "own" the
        folder with the files, or one file that is split.
      task: what "own" data is for. Left empty, a training file with a `group` is a ranking and any other a
        classification: scores to be regressed need "regression" said. Other data sets have one task, and take no other.
      layout: of "own" data: its columns, the names of its labels, and how one file is split.

    Returns:
      The data set with the splits there are; "train" is always among them. The labels of an own classification are
      the sorted labels of its training file, or of the one file that is split.

    Raises:
      InputError: as in `find_files`, or there is no training file, or a file or a line of it is damaged; a label of an
        own dev or test file that the training file lacks counts as damage.
    """
    files = find_files(name, directory, task=task, layout=layout)
    if name in EMBEDDED_TASKS:
        from jaxmatch.data.synthetic import generate

        return generate(name)
    if "train" not in files:
        raise missing_split(name, directory, "train")
    splits_there = [split for split in SPLITS if split in files]
    if name == OWN:
        return _load_own(files, splits_there, task, layout)
    source = CATALOG[name]
    splits = {split: source.read_split.get(split, source.read)(files[split]) for split in splits_there}
    return DataSet(name, source.task, source.labels, splits)


def load_split(name: str, directory: str | Path | None, split: str) -> Split:
    """Reads one split of a data set of the catalog, without the other splits if they are in other files.

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


def _load_own(files: Mapping[str, Path], splits_there: list[str], task: str, layout: Layout) -> DataSet:
    guessed = not task
    task = task or own.guess_task(files["train"], layout)
    train = own.read(files["train"], task, guessed=guessed, layout=layout, training=True)
    labels: tuple[str, ...] = ()
    if task == "ranking":
        labels = own.RANKING_LABELS
    elif task == "classification":
        labels = tuple(sorted(set(train.labels)))
        if len(labels) < 2:
            named = "; if -1 is a label, name it: --labels=-1=NAME" if NO_LABEL in train.dropped else ""
            raise InputError(
                f"every pair has the label {shown(labels[0])}{dropped_text(train.dropped)}",
                path=files["train"],
                remedy=f"a classification needs two labels or more{named}",
            )
    if layout.shares:
        parts = part(train, layout.shares, layout.seed)
        return DataSet(OWN, task, labels, dict(zip(splits_there, parts, strict=True)))
    splits = {"train": train}
    for split in splits_there[1:]:
        known = labels if task == "classification" else None
        splits[split] = own.read(files[split], task, known, guessed, layout)
    return DataSet(OWN, task, labels, splits)


def _single_file(directory: str | Path | None, layout: Layout) -> Path | None:
    """The one file of own data that is split; None where each split has a file of its own.

    Raises:
      InputError: one file is given without shares to split it by, or shares are given with several files.
    """
    if not directory:
        return None
    path = Path(directory)
    if plain_file.kind(path) == plain_file.FILE:
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


def _check_name_and_task(name: str, task: str) -> None:
    if name not in names():
        raise InputError(f"there is no data set {shown(name)}", remedy=nearest(name, names()))
    if task and task not in TASKS:
        raise InputError(f"there is no task {shown(task)}", remedy=nearest(task, TASKS))
    only = CATALOG[name].task if name in CATALOG else EMBEDDED_TASKS.get(name, task)
    if task and task != only:
        also = "; the regression is 'sick_relatedness'" if name == "sick" else ""
        raise InputError(f"data set {name!r} is a {only}, not a {task}", remedy=f"leave the task out{also}")


def _layout(name: str) -> tuple[Mapping[str, tuple[str, ...]], str, str]:
    """(split -> candidate file names, official folder, companion suffix) of a data set in files."""
    if name == OWN:
        return {split: tuple(f"{split}{suffix}" for suffix in own.SUFFIXES) for split in SPLITS}, "", ""
    source = CATALOG[name]
    return source.files, source.folder, source.companion_suffix


def _any_of(name: str, candidates: tuple[str, ...]) -> str:
    """File names of which one is looked for; of own data, those with gzip are not listed one by one."""
    *others, last = candidates[: len(own.FORMATS)] if name == OWN else candidates
    return (
        ((", " if name == OWN else " or ").join(others) + " or " if others else "")
        + last
        + (", also with .gz" if name == OWN else "")
    )


def _roots(name: str, directory: str | Path | None, folder: str) -> list[Path]:
    """Folders to look in: the official folder below `directory`, the ends of its path, `directory` itself."""
    if directory is None or directory == "":
        raise InputError(
            f"data set {name!r} is read from files",
            remedy=f"give the directory that holds {folder or 'them'} (--data-directory"
            f"{', or the variable JAXMATCH_DATA' if folder else ''})",
        )
    directory = Path(directory)
    kind = plain_file.kind(directory)
    if kind != plain_file.FOLDER:
        problem = f"this is {kind}, not a directory" if kind else "there is no such directory"
        raise InputError(
            problem, path=directory, remedy=f"give the directory that holds {folder or 'the files'} (--data-directory)"
        )
    parts = Path(folder).parts
    return [directory.joinpath(*parts[start:]) for start in range(len(parts) + 1)]
