"""Records of runs: read from a sweep's folder, with their settings and scores, in groups.

A record is a JSON object (docs/reference/files.md). It is checked once, where it is read.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from jaxmatch.config.models import MODELS
from jaxmatch.config.settings import OR_IMPORT, OWN_LAYOUT, SCORES
from jaxmatch.errors import InputError, NotInstalled, count_text, nearest, report_damage, shown, without_nan
from jaxmatch.files import read_json
from jaxmatch.reporting.layout import BaselineRow, Published, TableLayout, higher_is_better, setting_text
from jaxmatch.workdir import BASELINES_FILE, SWEEP_FILE, Workdir

FORMAT, BASELINES_FORMAT = 1, 1
REMEDY = "remove the run's folder and run the sweep again"

Record = Mapping[str, Any]
Item = TypeVar("Item")

# The fields of every record, and of its data.
_FIELDS = """run cohort seed variant overrides config status device data parameters versions curve times dev test
    best_on_test selected_on selected_at_samples diverged_at_samples""".split()
_DATA = ("name", "fingerprint", "train", "dev", "test", "vectors")


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
        for fields, found in ((_FIELDS, record), (_DATA, record.get("data", {}))):
            if missing := [field for field in fields if field not in found]:
                raise ValueError(f"there is no {missing[0]}")
        scores = [record["dev"], record["test"], record["times"], *(entry["dev"] for entry in record["curve"])]
        for value in (value for each in scores for value in (each or {}).values()):
            float(value or 0)  # raises an error unless it is a number or null
        if (score := record["selected_on"].removeprefix("dev.")) not in SCORES:
            raise InputError(f"there is no score {shown(score)}", path=path, remedy=nearest(score, SCORES) + OR_IMPORT)
    return record


def read_baselines(directory: Path) -> dict[str, Any]:
    """Reads the file of a sweep's baselines: {"fingerprint", "asked", "rows": name -> BaselineRow, ...}. Returns {} if
    the file does not exist.

    Raises:
      InputError: the file is damaged, or has the format of another version.
    """
    file = Path(directory) / BASELINES_FILE
    if not file.exists():
        return {}
    with report_damage(file, "remove it, and run the sweep again"):
        found, rows = read_json(file), {}
        if (found["format"], type(found["fingerprint"])) != (BASELINES_FORMAT, str):
            raise ValueError(f"its format is not {BASELINES_FORMAT}")
        for row in found["rows"]:
            scores = {}
            for part in ("dev", "test", "times"):
                values = (row[part] or {}).items()
                scores |= {f"{part}.{name}": float(value) for name, value in values if value is not None}
            rows[row["name"]] = BaselineRow(row["title"], int(row["parameters"]), scores)
    return {**found, "rows": rows}


@dataclasses.dataclass(frozen=True)
class SweepFolder:
    """The sweep that was started last in a folder, and the layout of its table.

    Attributes:
      runs: the name of each planned run -> {"variant", "overrides", "seed"}, which is empty if the folder does not
        store it.
      records: name -> record, for the runs that ended, in the order of `runs` and with the place that they have there.
      analyses: command -> its options, for the analyses that the sweep requests.
      plan: the plan of all runs, in words, or "".
      baselines: lines of the table that have no runs.
      command: the command that started the sweep, or "".
    """

    path: Path
    name: str
    layout: TableLayout
    runs: Mapping[str, Mapping[str, Any]]
    records: Mapping[str, Record]
    analyses: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    plan: str = ""
    baselines: tuple[BaselineRow, ...] = ()
    command: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the runs that have not ended."""
        return tuple(run for run in self.runs if run not in self.records)


def read_sweep_folder(directory: Path) -> SweepFolder:
    """Reads a sweep's folder.

    Raises:
      InputError: no sweep was run in the folder, or a file is damaged.
    """
    directory = Path(directory)
    file = directory / SWEEP_FILE
    if not file.exists():
        raise InputError("no sweep was run in this folder", path=directory, remedy="give the --workdir of a sweep")
    with report_damage(file, "run the sweep again to renew it"):
        notes = read_json(file)
        layout = dict(notes["layout"])
        layout.pop("columns", None)  # of earlier versions
        for rows in ("published", "ensembles"):
            layout[rows] = tuple(Published(**row) for row in layout.get(rows, ()))
        layout = TableLayout(**{name: tuple(v) if isinstance(v, list) else v for name, v in layout.items()})
        places, kinds = notes.get("places", {}), {"variant": str, "overrides": dict, "seed": int}
        places = {run: {key: kind(place[key]) for key, kind in kinds.items()} for run, place in places.items()}
        runs = {str(run): places.get(run, {}) for run in notes["runs"]}
        name, requested = str(notes.get("name", directory.name)), list(notes.get("baselines", ()))
        analyses = {str(each): dict(options) for each, options in notes.get("analyses", {}).items()}
    files = {run: Workdir(directory).run_folder(run) / "record.json" for run in runs}
    records = {run: read_record(file) for run, file in files.items() if file.exists()}
    for run, record in records.items():
        if record["run"] != run:
            raise InputError(f"this is the record of the run {record['run']}", path=files[run], remedy=REMEDY)
        # A run keeps its name when the grid gains an axis or a variant is renamed, and its record the place of then.
        records[run] = {**record, **runs[run]}
    known = read_baselines(directory).get("rows", {}) if requested else {}
    baselines = tuple(known[each] for each in requested if each in known)
    plan, command = (str(notes.get(each, "")) for each in ("plan", "command"))
    return SweepFolder(directory, name, layout, runs, records, analyses, plan, baselines, command)


def is_sweep(directory: Path) -> bool:
    """Returns whether a folder is that of a sweep, and not of a run."""
    return (directory / "runs").is_dir() or (directory / SWEEP_FILE).is_file()


def records_of(directory: Path) -> list[Record]:
    """Reads the records in a folder of runs that finished, diverged or were dropped: of its last sweep, or else all."""
    if (directory / SWEEP_FILE).exists():
        records = list(read_sweep_folder(directory).records.values())
    else:
        records = [read_record(file) for file in sorted((directory / "runs").glob("[!.]*/record.json"))]
    if not records:
        remedy = "give the --workdir of a sweep, or wait until a run has ended"
        raise InputError("holds no runs of a sweep that have ended", path=directory, remedy=remedy)
    return records


def best_run(directory: Path) -> tuple[Path, str]:
    """Returns the folder of a sweep's run that is best on dev (`best_record`), and a line that names it.

    Raises:
      InputError: no run has finished, or the runs cannot be compared.
    """
    records = [record for record in records_of(directory) if record["status"] == "finished"]
    if (best := best_record(records)) is None:
        problem, remedy = "no run has finished with a score of dev", "name a run: WORKDIR/runs/NAME"
        raise InputError(problem, path=directory, remedy=remedy)
    score = best["selected_on"].removeprefix("dev.")
    line = (
        f"note: {best['run']} ({setting_name(best)}, seed {best['seed']}) is the best of "
        f"{count_text(len(records), 'run')} by dev {score}, {best['dev'][score]:.4f}"
    )
    return directory / "runs" / best["run"], line


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


def best_record(records: Iterable[Record]) -> Record | None:
    """Returns the record of the finished run with the best dev score, the first if several are equal. Returns None if
    no finished run has a dev score.

    Raises:
      InputError: finished runs were scored on different data, or their checkpoints were chosen by different scores.
    """
    records = [record for record in records if record["status"] == "finished"]
    selections = {record["selected_on"] for record in records}
    for name, kinds in (("data", set(by_pairs(records, lambda record: record))), ("scores", selections)):
        if len(kinds) > 1:
            problem = f"no run is the best on dev: the runs differ in {name}: {', '.join(sorted(kinds))}"
            raise InputError(problem, remedy="name a run: WORKDIR/runs/NAME")
    scored = [(score_of(record, record["selected_on"]), record) for record in records]
    sign = -1 if any(not higher_is_better(score) for score in selections) else 1
    known = [(sign * value, record) for value, record in scored if value is not None]
    return max(known, key=lambda found: found[0], default=(None, None))[1]


def short_commit(commit: str | None, digits: int = 8) -> str:
    """Returns the first digits of a record's commit, and the "+" of changed code."""
    return commit[:digits] + "+" * commit.endswith("+") if commit else ""


def data_frame(rows: list[dict[str, Any]]) -> Any:
    """Returns rows as a data frame; an InputError if pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise NotInstalled("a data frame", "pandas", "tables") from None
    return pandas.DataFrame(rows)


# Groups


def grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> dict[Any, list[Item]]:
    """Groups items by a key. Keys are in the order of their first items, and the items of a group keep their order."""
    groups: dict[Any, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def setting_of_run(run: str) -> str:
    """Returns the name of a run without its seed: a hash of its settings and data."""
    return run.rpartition("-seed")[0]


def by_setting(records: Iterable[Record]) -> list[tuple[Record, ...]]:
    """Groups the finished runs by setting, in the order of the seeds. The settings are in the order of their variants
    and grid values; values that are numbers come first.
    """

    def rank(members: tuple[Record, ...]) -> tuple:
        values = members[0]["overrides"].values()
        ranks = [(0, value) if isinstance(value, (int, float)) else (1, str(value)) for value in values]
        return members[0]["variant"], ranks, members[0]["run"]

    finished = (record for record in records if record["status"] == "finished")
    settings = grouped(finished, lambda record: setting_of_run(record["run"]))
    return sorted((tuple(sorted(members, key=lambda each: each["seed"])) for members in settings.values()), key=rank)


def by_pairs(items: Iterable[Item], record_of: Callable[[Item], Record]) -> dict[str, list[Item]]:
    """Groups items, whose records `record_of` returns, by the dev and test pairs that their runs were scored on: the
    name of a data set -> items. Items of different groups cannot be compared. If data sets of the same name have
    different files, a number and the directory are added to the name.
    """
    groups = list(grouped(items, lambda item: _pairs(record_of(item))).values())
    firsts = [record_of(members[0]) for members in groups]
    titles = [first["data"]["name"] for first in firsts]
    names = list(titles)
    for place, first in enumerate(firsts):
        if titles.count(titles[place]) > 1:
            directory = first["config"].get("data", {}).get("directory") or ""
            names[place] += f" ({place + 1}{directory and f', in {directory}'})"
    return dict(zip(names, groups, strict=True))


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
    return setting_text(record["overrides"], record["variant"]) or "as configured"


def model_title(record: Record) -> str:
    """Returns the name of a run's model as tables show it: "RE2"."""
    name = record["config"]["model"]["name"]
    return MODELS[name].title if name in MODELS else name
