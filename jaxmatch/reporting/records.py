"""Records of runs: read from a sweep's folder, with their settings and scores, in groups.

A record is a JSON object (docs/reference/files.md). It is checked once, where it is read.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from jaxmatch.config.settings import OR_IMPORT, OWN_LAYOUT, SCORES
from jaxmatch.errors import InputError, nearest, report_damage, shown, without_nan
from jaxmatch.files import read_json
from jaxmatch.reporting.layout import FloorRow, Published, TableLayout
from jaxmatch.workdir import FLOORS_FILE, MISTAKES_FILE, Workdir

FORMAT, FLOORS_FORMAT = 1, 1
STATUSES = ("finished", "diverged", "dropped")
# The labels of a row besides the settings of its config.
RUN_LABELS = ("seed", "variant")
REMEDY = "remove the run's folder and run the sweep again"
_MISSING = object()

Record = Mapping[str, Any]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


# The forms of files, as `check_form` takes them


@dataclasses.dataclass(frozen=True)
class OrNull:
    """A form, or null."""

    form: Any


_NUMBER = (int, float)
_SCORES_FORM = {str: OrNull(_NUMBER)}
_RECORD = {
    "run": str,
    "seed": int,
    "variant": str,
    "overrides": Mapping,
    "config": Mapping,
    "status": STATUSES,
    "selected_on": str,
    "dev": OrNull(_SCORES_FORM),
    "test": OrNull(_SCORES_FORM),
    "best_on_test": OrNull({"scores": _SCORES_FORM}),
    "test_sampling?": {"questions": int, "deviations": _SCORES_FORM},
    "device": str,
    "products?": OrNull(str),
    "dropped?": OrNull({"after_epochs": int}),
    "data": {
        "name": str,
        "fingerprint": str,
        "train": int,
        "dev": OrNull(int),
        "test": OrNull(int),
        "vectors": OrNull(str),
        "coverage?": OrNull({"tokens_with_vector": OrNull(_NUMBER)}),
        "about?": OrNull({str: str}),
        "in_train?": OrNull({str: int}),
    },
    "parameters": int,
    "curve": [{"samples": int, "train_loss": OrNull(_NUMBER), "dev": _SCORES_FORM}],
    "times": _SCORES_FORM,
    "versions": Mapping,
    "selected_at_samples": OrNull(int),
    "diverged_at_samples": OrNull(int),
    "cohort": str,
}
_FLOORS = {
    "format": (FLOORS_FORMAT,),
    "fingerprint": str,
    "rows": [
        {
            "name": str,
            "title": str,
            "parameters": int,
            "dev": OrNull(_SCORES_FORM),
            "test": OrNull(_SCORES_FORM),
            "times": _SCORES_FORM,
            "pretrained?": (True, False),
        }
    ],
}
_TEXTS = {"text_a": str, "text_b": str}
# Task -> the mistakes of a run (training/evaluation.py).
_MISTAKES = {
    task: {"split": str, "pairs": int, "worst": [_TEXTS | row], **more}
    for task, row, more in (
        (
            "classification",
            {"label": str, "answer": str, "probability": _NUMBER},
            {"labels": [str], "confusion": [[int]]},
        ),
        ("regression", {"label": _NUMBER, "answer": _NUMBER}, {}),
        ("ranking", {"rank": int, "candidates": int, "preferred": str}, {}),
    )
}


def check_form(value: Any, form: Any, place: str = "") -> None:
    """Checks the form of a value read from JSON.

    Arguments:
      value: the value.
      form: a type or a tuple of types; a tuple of allowed values; `OrNull`; [form], for a list of this form; or
        {field: form}, for an object with these fields at least. A field may be absent if its name ends in "?". The
        field `str` stands for every field.
      place: the dotted path of the value, for the error.

    Raises:
      ValueError: the value has another form. The text of the error names its place.
    """
    if isinstance(form, OrNull):
        if value is not None:
            check_form(value, form.form, place)
        return
    if isinstance(form, (dict, list)):
        right = isinstance(value, type(form))
    elif isinstance(form, tuple) and not isinstance(form[0], type):
        right = value in form
    else:
        right = isinstance(value, form) and not isinstance(value, bool)
    if not right:
        raise ValueError(f"{place.removeprefix('.')} cannot be {json.dumps(value)[:60]}")
    if isinstance(form, list):
        for number, each in enumerate(value, start=1):
            check_form(each, form[0], f"{place}.{number}")
    elif isinstance(form, dict):
        for field, inner in form.items():
            if field is str:
                for name, each in value.items():
                    check_form(each, inner, f"{place}.{name}")
            elif (name := field.removesuffix("?")) in value:
                check_form(value[name], inner, f"{place}.{name}")
            elif name == field:
                raise ValueError(f"there is no {place.removeprefix('.')}.{name}".replace(" .", " "))


# Files


def read_record(path: Path) -> dict[str, Any]:
    """Reads a record from its file.

    Raises:
      InputError: the file does not exist or is not a record, or a field is missing or damaged.
    """
    with report_damage(path, REMEDY, "the record"):
        try:
            record = read_json(path)
        except FileNotFoundError:
            raise InputError("there is no record", path=path, remedy="give a run folder of a sweep") from None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            problem, remedy = f"this is not a record of format {FORMAT}", "remove it, or use the version that wrote it"
            raise InputError(problem, path=path, remedy=remedy)
        check_form(record, _RECORD)
        if (score := record["selected_on"].removeprefix("dev.")) not in SCORES:
            raise InputError(f"there is no score {shown(score)}", path=path, remedy=nearest(score, SCORES) + OR_IMPORT)
        if record["status"] == "finished" and record["dev"] is None:
            raise ValueError("a finished run has dev scores")
    return record


def read_floors(directory: Path) -> Mapping[str, Any] | None:
    """Reads the file of a sweep's baselines: {"fingerprint", "rows", ...}. Returns None if the file does not exist.

    Raises:
      InputError: the file is damaged, or has the format of another version.
    """
    file = Path(directory) / FLOORS_FILE
    if not file.exists():
        return None
    with report_damage(file, "remove it, and run the sweep again"):
        found = read_json(file)
        check_form(found, _FLOORS)
    return found


def floor_rows(directory: Path, names: Iterable[str]) -> tuple[FloorRow, ...]:
    """Returns the rows of the named baselines, in the order of the names. Baselines that the file does not contain are
    left out.

    Raises:
      InputError: as in `read_floors`.
    """
    names = tuple(names)
    found = read_floors(directory) if names else None
    rows = {row["name"]: row for row in found["rows"]} if found else {}
    return tuple(_floor_row(rows[name]) for name in names if name in rows)


def _floor_row(row: Mapping[str, Any]) -> FloorRow:
    scores = {f"{part}.{name}": value for part in ("dev", "test", "times") for name, value in (row[part] or {}).items()}
    known = {name: float(value) for name, value in scores.items() if value is not None}
    return FloorRow(row["title"], row["parameters"], known, row.get("pretrained", False))


def read_mistakes(directory: Path, run: str) -> Mapping[str, Any] | None:
    """Reads the worst predictions of a run on dev (training/evaluation.py). Returns None if it has no such file.

    Raises:
      InputError: the file is damaged.
    """
    file = Workdir(directory).run_folder(run) / MISTAKES_FILE
    if not file.exists():
        return None
    with report_damage(file, REMEDY):
        found = read_json(file)
        check_form(found, _MISTAKES[found["task"]])
    return found


@dataclasses.dataclass(frozen=True)
class SweepFolder:
    """The sweep that was started last in a folder.

    Attributes:
      path: the folder.
      name: the name of the sweep.
      layout: the layout of its table.
      runs: the name of each planned run -> {"variant", "overrides", "seed"}, which is empty if the folder does not
        store it.
      records: name -> record, for the runs that ended. They are in the order of `runs`, and each has the place that it
        has there.
      analyses: command -> its options, for the analyses that the sweep requests.
      plan: the plan of all runs, in words; "" if the folder does not store it.
      floors: lines of the table that have no runs.
      command: the command that started the sweep, or "".
    """

    path: Path
    name: str
    layout: TableLayout
    runs: Mapping[str, Mapping[str, Any]]
    records: Mapping[str, Record]
    analyses: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    plan: str = ""
    floors: tuple[FloorRow, ...] = ()
    command: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the runs that have not ended."""
        return tuple(run for run in self.runs if run not in self.records)


def notes_file(directory: Path) -> Path:
    """Returns the path of the file with the layout of a sweep's table and the names of its runs."""
    return Path(directory) / "sweep.json"


def name_of_sweep(directory: Path) -> str | None:
    """Returns the name of the sweep that was started in a folder, or None if there was no sweep or sweep.json is
    damaged.
    """
    try:
        return read_json(notes_file(directory))["name"]
    except (OSError, ValueError, KeyError, TypeError):  # an InputError is a ValueError
        return None


def read_sweep_folder(directory: Path) -> SweepFolder:
    """Reads a sweep's folder.

    Raises:
      InputError: no sweep was run in the folder, or a file is damaged.
    """
    directory = Path(directory)
    file = notes_file(directory)
    if not file.exists():
        raise InputError("no sweep was run in this folder", path=directory, remedy="give the --workdir of a sweep")
    with report_damage(file, "run the sweep again to renew it"):
        notes = read_json(file)
        layout = dict(notes["layout"])
        for rows in ("published", "ensembles"):
            layout[rows] = tuple(Published(**row) for row in layout.get(rows, ()))
        layout = TableLayout(**{name: tuple(v) if isinstance(v, list) else v for name, v in layout.items()})
        places = notes.get("places", {})
        runs = {str(run): _place(places.get(run, {})) for run in notes["runs"]}
        name = str(notes.get("name", directory.name))
        floors = tuple(map(str, notes.get("floors", ())))
        analyses = {str(each): dict(options) for each, options in notes.get("analyses", {}).items()}
    folder = Workdir(directory)
    files = {run: folder.run_folder(run) / "record.json" for run in runs}
    records = {run: read_record(file) for run, file in files.items() if file.exists()}
    for run, record in records.items():
        if record["run"] != run:
            raise InputError(f"this is the record of the run {record['run']}", path=files[run], remedy=REMEDY)
        if place := runs[run]:
            records[run] = placed(record, place["variant"], place["overrides"])
    words = {each: str(notes.get(each, "")) for each in ("plan", "command")}
    return SweepFolder(directory, name, layout, runs, records, analyses, floors=floor_rows(directory, floors), **words)


def _place(place: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a run's place in the grid, which is empty if sweep.json does not have it."""
    return (
        {"variant": str(place["variant"]), "overrides": dict(place["overrides"]), "seed": int(place["seed"])}
        if place
        else {}
    )


def placed(record: Record, variant: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record with the place that its run has in the grid now.

    A run keeps its name when the grid gains an axis or a variant is renamed. Its record file keeps the place that the
    run had when it was trained.
    """
    return {**record, "variant": variant, "overrides": dict(overrides)}


# Scores and settings


def scores_of(record: Record, part: str) -> Mapping[str, Any]:
    """Returns the scores of "dev", "test", "best_on_test" or "times", which are empty if the record has none."""
    scores = record.get(part) or {}
    return scores["scores"] if scores and part == "best_on_test" else scores


def score_of(record: Record, score: str) -> float | None:
    """Returns the value of a score such as "test.mrr", or None if it is missing or undefined (NaN) in the record."""
    part, _, name = score.partition(".")
    value = scores_of(record, part).get(name)
    return None if value is None else without_nan(float(value))


def deviation_of(record: Record, score: str) -> tuple[float, int] | None:
    """Returns the standard deviation of a score such as "test.mrr" over the questions, and the number of questions.
    Returns None if the record does not contain them.
    """
    part, _, name = score.partition(".")
    sampling = record.get("test_sampling") if part == "test" else None
    if not sampling or sampling["questions"] < 1:  # a test set may hold no question that counts
        return None
    value = sampling["deviations"].get(name)
    return (float(value), sampling["questions"]) if value is not None and math.isfinite(value) else None


def best_record(records: Iterable[Record]) -> Record | None:
    """Returns the record of the finished run with the best dev score, the first if several are equal. Returns None if
    no finished run has a dev score.

    Raises:
      InputError: finished runs were scored on different data, or their checkpoints were chosen by different scores.
    """
    records = [record for record in records if record["status"] == "finished"]
    for name, kinds in (
        ("data", set(by_pairs(records, lambda record: record))),
        ("scores", {record["selected_on"] for record in records}),
    ):
        if len(kinds) > 1:
            problem = f"no run is the best on dev: the runs differ in {name}: {', '.join(sorted(kinds))}"
            raise InputError(problem, remedy="name a run: WORKDIR/runs/NAME")

    def merit(record: Record) -> float:
        score = record["selected_on"].removeprefix("dev.")
        return record["dev"][score] * (1 if SCORES[score].higher_is_better else -1)

    def has_score(record: Record) -> bool:
        return (record["dev"] or {}).get(record["selected_on"].removeprefix("dev.")) is not None

    return max(filter(has_score, records), key=merit, default=None)


def short_commit(commit: str | None, digits: int = 8) -> str:
    """Returns the first digits of a record's commit, and the "+" of changed code."""
    return commit[:digits] + "+" * commit.endswith("+") if commit else ""


def has_setting(record: Record, key: str) -> bool:
    """Returns whether `setting_of` finds the key."""
    return _find(record, key) is not _MISSING


def setting_of(record: Record, key: str) -> Any:
    """Returns the value that a run has for a grid key: "seed", "variant", or a dotted path of its config. Returns None
    if the run does not have the key.

    A key that the run's grid did not name is looked up in its resolved config, so that runs of an earlier, narrower
    grid find their place in the table of a wider one.
    """
    value = _find(record, key)
    return None if value is _MISSING else value


def _find(record: Record, key: str) -> Any:
    if key in RUN_LABELS:
        return record[key]
    if key in record["overrides"]:
        return record["overrides"][key]
    value: Any = record["config"]
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def identity(value: Any) -> str:
    """Returns a text that two settings share if they mean the same. 1 and 1.0 share it, [3, 5] and (3, 5) share it, 1
    and True do not.
    """
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(identity(each) for each in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return json.dumps(value, sort_keys=True, default=str)


def differing_settings(first: Record, second: Record) -> list[str]:
    """Returns the config keys (dotted) and data keys (such as "record.data.fingerprint") in which two records differ,
    except for the seed.
    """

    def flat(value: Any, prefix: str) -> dict[str, str]:
        if not isinstance(value, Mapping):
            return {prefix: identity(value)}
        found: dict[str, str] = {}
        for key, each in value.items():
            found |= flat(each, f"{prefix}.{key}" if prefix else str(key))
        return found

    one = flat(first["config"], "") | flat(first["data"], "record.data")
    two = flat(second["config"], "") | flat(second["data"], "record.data")
    return sorted(key for key in one.keys() | two.keys() if key != "seed" and one.get(key) != two.get(key))


# Groups


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Groups items by a key. Keys are in the order of their first items, and the items of a group keep their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def setting_of_run(run: str) -> str:
    """Returns the name of a run without its seed: a hash of its settings and data."""
    return run.rpartition("-seed")[0]


def by_setting(records: Iterable[Record]) -> list[tuple[Record, ...]]:
    """Groups the finished runs by setting.

    Arguments:
      records: the records of the runs, in any order. Runs that did not finish are left out.

    Returns:
      One tuple per setting, in the order of the seeds. The settings are in the order of their variants and grid values.
    """
    finished = (record for record in records if record["status"] == "finished")
    settings = grouped(finished, lambda record: setting_of_run(record["run"]))
    groups = (tuple(sorted(members, key=lambda record: record["seed"])) for members in settings.values())
    return sorted(groups, key=lambda members: _rank(members[0]))


def by_pairs(items: Iterable[Item], record_of: Callable[[Item], Record]) -> dict[str, list[Item]]:
    """Groups items whose runs were scored on the same dev and test pairs. Items of different groups cannot be compared.

    Arguments:
      items: the items, such as records.
      record_of: a function that returns a record of an item.

    Returns:
      The name of the data set -> its items. If data sets of the same name have different files, the directory or a
      number is added to the name.
    """
    groups = list(grouped(items, lambda item: _pairs(record_of(item))).values())
    firsts = [record_of(members[0]) for members in groups]
    names = [first["data"]["name"] for first in firsts]
    found: dict[str, list[Item]] = {}
    for name, first, members in zip(names, firsts, groups, strict=True):
        if names.count(name) > 1:
            directory = first["config"].get("data", {}).get("directory")
            name = f"{name} in {directory}" if directory else name
        number = 2
        label = name
        while label in found:
            label, number = f"{name} ({number})", number + 1
        found[label] = members
    return found


def _pairs(record: Record) -> Hashable:
    """Returns a key of the scored pairs: the data set, its files except those of training, and how the files are read.
    Old records have no files.
    """
    files = record["data"].get("files") or {}
    scored = tuple(sorted((file, digest) for file, digest in files.items() if file.partition(".")[0] != "train"))
    settings = record["config"].get("data", {})
    return record["data"]["name"], scored, tuple(settings.get(key) or None for key in OWN_LAYOUT)


def setting_name(record: Record) -> str:
    """Describes a setting in words, by its differences from the sweep's config."""
    parts = [record["variant"]] if record["variant"] else []
    parts += [f"{key}={value}" for key, value in record["overrides"].items()]
    return ", ".join(parts) or "as configured"


def _rank(record: Record) -> tuple:
    """Returns the sorting key of a setting. Grid values that are numbers come first, sorted by size."""
    values = record["overrides"].values()
    ranks = [(0, value) if isinstance(value, (int, float)) else (1, str(value)) for value in values]
    return record["variant"], ranks, record["run"]
