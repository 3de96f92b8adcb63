"""The table of a sweep, a pure function of its records in any order: in Markdown, LaTeX, CSV, HTML and JSON."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmatch.config.settings import flatten
from jaxmatch.errors import WAIT_OR_RESUME, InputError, count_text, nearest, printable_json, without_nan
from jaxmatch.reporting import formats, statistics
from jaxmatch.reporting.formats import NO_VALUE, Sheet, Text, csv_text
from jaxmatch.reporting.layout import (
    NO_SETTINGS,
    VARIANT,
    BaselineRow,
    Published,
    TableLayout,
    format_number,
    format_setting,
    higher_is_better,
    is_percent,
    p_text,
    plain_score_name,
    score_heading,
    setting_headings,
    setting_text,
)
from jaxmatch.reporting.records import (
    Record,
    SweepFolder,
    by_pairs,
    data_frame,
    grouped,
    model_title,
    read_sweep_folder,
    score_of,
    scores_of,
    setting_of_run,
    short_commit,
)
from jaxmatch.reporting.statistics import CONFIDENCE, LEVEL, Difference
from jaxmatch.workdir import SWEEP_FILE

if TYPE_CHECKING:
    import pandas

STATUSES = ("finished", "diverged", "dropped")
RUN_LABELS = ("seed", "variant")  # the labels of a row besides the settings of its config
_SCORED = ("dev", "test", "best_on_test")  # the parts of a record with scores
_SPLITS = {"train": "training", "dev": "dev", "test": "test"}  # split -> its name in running text
# Precision -> the matrix products that its name implies.
_PROMISED = {"float32": "float32", "tensorfloat32": "TF32", "bfloat16": "bfloat16"}


class Summary(NamedTuple):
    """One score over the finished runs of a row: seed -> value for the runs that have it, their mean, and their sample
    standard deviation. The mean of no values is None, and so is the deviation of fewer than two, and of a time that
    runs share.
    """

    values: Mapping[int, float]
    mean: float | None
    deviation: float | None


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One line of a table: the runs that differ in the seed alone.

    Attributes:
      settings: grid key -> value.
      finished, diverged, dropped: the records of these runs, by seed. Only finished runs are in means.
      scores: score -> Summary.
    """

    settings: Mapping[str, Any]
    finished: tuple[Record, ...]
    diverged: tuple[Record, ...]
    dropped: tuple[Record, ...]
    scores: Mapping[str, Summary]

    @property
    def records(self) -> tuple[Record, ...]:
        """All records of the row."""
        return (*self.finished, *self.diverged, *self.dropped)

    @property
    def name(self) -> str:
        """The settings in words: "wide, blocks 2"."""
        settings = dict(self.settings)
        variant = settings.pop(VARIANT, None)
        text = setting_text(settings, variant or "")
        return text or (model_title(self.records[0]) if variant is None else "as configured")


@dataclasses.dataclass(frozen=True)
class Table:
    """A filled table that can be printed.

    Attributes:
      layout: the requested layout.
      keys: grid keys of the row labels: the layout's, and any others in which the runs of a row differed.
      rows: the lines, in order.
      caption, details: sentences that say how the numbers came about, the most important ones in the caption.
      baselines: lines below the rows, which no row is compared with.
    """

    layout: TableLayout
    keys: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: tuple[str, ...]
    details: tuple[str, ...] = ()
    baselines: tuple[BaselineRow, ...] = ()

    def markdown(self, verbose: bool = True) -> str:
        """Returns the table in GitHub's Markdown, which can be read in a terminal, too. Unless `verbose`, its caption
        is short.
        """
        return formats.markdown(sheet(self), verbose)

    _repr_markdown_ = markdown  # a notebook shows it

    def __str__(self) -> str:
        return self.markdown(verbose=False)

    def latex(self) -> str:
        """Returns the table in LaTeX, with the rules of booktabs."""
        return formats.latex(sheet(self))

    def csv(self) -> str:
        """Returns CSV with a header and one line per row, with unrounded numbers; undefined values are empty.

        The columns are the grid keys, "parameters", the numbers of finished, diverged and dropped runs, and for each
        score its mean, its sample standard deviation, the number of runs that have it, and where the table has them,
        its difference from the original with the p value as it is and corrected by Holm, the published number, and what
        the interval of our difference to it says. Scores are shares of 1, not percent. Baselines come last, with their
        means alone; their names are in the column "variant", or in an additional one, "model".
        """
        rows = self._plain_rows()
        return csv_text([list(rows[0]), *([row.get(name) for name in rows[0]] for row in rows)])

    def html(self) -> str:
        """Returns the table as a piece of HTML, as on the page of `jaxmatch report`; an InputError without Jinja."""
        from jaxmatch.reporting.report import templates  # imports this module

        return templates().get_template("pieces.html").module.table(sheet(self))

    def dataframe(self) -> pandas.DataFrame:
        """Returns the rows of `csv` as a data frame; an InputError without pandas."""
        frame = data_frame(rows := self._plain_rows())
        kinds = {name: "Int64" for name in frame if all(type(row.get(name, 0)) is int for row in rows)}
        kinds |= {name: float for name in frame if frame[name].isna().all()}
        return frame.astype(kinds)

    def json(self) -> str:
        """Returns JSON with title, caption, details, notes, the rows of `csv`, and published rows; no number is NaN."""
        layout = self.layout
        content = {"title": layout.title, "caption": self.caption, "details": self.details, "notes": layout.notes}
        content |= {"rows": self._plain_rows(), "published": list(map(dataclasses.asdict, layout.published))}
        return printable_json(content, indent=1) + "\n"

    def _plain_rows(self) -> list[dict[str, Any]]:
        """Returns each line of CSV: column -> value."""
        named = bool(self.baselines) and VARIANT not in self.keys
        statuses = STATUSES if any(row.dropped for row in self.rows) else STATUSES[:2]
        rows: list[dict[str, Any]] = []
        for row in self.rows:
            sizes = dict.fromkeys(record["parameters"] for record in row.records)
            rows.append({"model": model_title(row.records[0])} if named else {})
            rows[-1] |= {**row.settings, "parameters": ";".join(map(str, sizes)) if len(sizes) > 1 else [*sizes][0]}
            rows[-1] |= {status: len(getattr(row, status)) for status in statuses}
            for score, summary in row.scores.items():
                entry = {"mean": summary.mean, "std": summary.deviation, "n": len(summary.values)}
                if self.layout.original:
                    found = self.differences.get((row, score), (None, None, None))
                    entry |= zip(("difference", "p_value", "p_holm"), found, strict=True)
                if self.published:
                    entry |= zip(("published", "verdict"), compared(row, score, self.published.get(row)))
                rows[-1] |= {f"{score}.{name}": value for name, value in entry.items()}
        for baseline in self.baselines:
            means = {f"{score}.mean": baseline.scores.get(score) for score in self.layout.scores}
            rows.append({"model" if named else VARIANT: baseline.title, "parameters": baseline.parameters, **means})
        return rows

    def ranked(self, score: str) -> list[Row]:
        """Returns the rows that have a mean of a dev or test score, the best first. There are none for other scores,
        also those of checkpoints that were chosen on the test set, and if rows were scored on different pairs.
        """
        known = [row for row in self.rows if row.scores[score].mean is not None]
        better = higher_is_better(score) if score.startswith(("dev.", "test.")) else None
        if better is None or len(by_pairs(known, lambda row: row.records[0])) > 1:
            return []
        return sorted(known, key=lambda row: row.scores[score].mean * (-1 if better else 1))

    def test(self, row: Row, other: Row, score: str) -> Difference | None:
        """Tests the difference of two means: seed by seed over the seeds that both have, or as two groups of seeds."""
        mine, others = row.scores[score].values, other.scores[score].values
        if not self.layout.paired:
            return statistics.welch(list(mine.values()), list(others.values()))
        shared = sorted(mine.keys() & others.keys())
        return statistics.paired([mine[seed] for seed in shared], [others[seed] for seed in shared])

    def p_value(self, best: Row, other: Row, score: str) -> float | None:
        """Returns the p value of the test of two means, the better one first; None if it cannot be tested, or if the
        seeds that a paired test compares tell the two apart in favor of the other mean.
        """
        test = self.test(best, other, score)
        if test is None or (test.p_value < LEVEL and (test.value > 0) != higher_is_better(score)):
            return None
        return test.p_value

    @functools.cached_property
    def best(self) -> set[tuple[Row, str]]:
        """(row, score) of the best means that the table's tests tell apart from every other mean,
        corrected by Holm for the number of tests.
        """
        found = set()
        for score in self.layout.scores:
            best, *others = self.ranked(score) or [None]
            p_values = [self.p_value(best, row, score) for row in others]
            if p_values and None not in p_values and max(statistics.holm(p_values)) < LEVEL:
                found.add((best, score))
        return found

    @functools.cached_property
    def differences(self) -> dict[tuple[Row, str], Difference]:
        """(row, score) -> the difference of the row from the row that has the original setting and is like it in
        everything else. Times have none.
        """
        found, original = {}, self.layout.original
        by_settings = {tuple(map(identity, row.settings.values())): row for row in self.rows} if original else {}
        for score in (score for score in self.layout.scores if not score.startswith("times.")):
            own = {}
            for row in self.rows:
                other = by_settings.get(tuple(map(identity, {**row.settings, **original}.values())), row)
                mean, base = row.scores[score].mean, other.scores[score].mean
                if other is not row and mean is not None and base is not None:
                    own[row, score] = self.test(row, other, score) or Difference(mean - base)
            tested = [place for place, difference in own.items() if difference.p_value is not None]
            corrected = statistics.holm([own[place].p_value for place in tested])
            found |= own | {p: own[p]._replace(corrected=value) for p, value in zip(tested, corrected, strict=True)}
        return found

    @functools.cached_property
    def published(self) -> dict[Row, Published]:
        """Row -> the first published row with the settings of this row and of no other."""
        found: dict[Row, Published] = {}
        for published in (each for each in self.layout.published if set(each.scores) & set(self.layout.scores)):
            wanted = {key: identity(value) for key, value in published.settings.items() if key not in NO_SETTINGS}
            same = [
                row
                for row in self.rows
                if all(identity(setting_of(each, key, ...)) == wanted[key] for each in row.records for key in wanted)
            ]
            if wanted and len(same) == 1:
                found.setdefault(same[0], published)
        return found


# From records to rows


def setting_of(record: Record, key: str, default: Any = None) -> Any:
    """Returns the value that a run has for a grid key: "seed", "variant", or a dotted path of its config.

    A key that the run's grid did not name is looked up in its resolved config, so that runs of an earlier, narrower
    grid find their place in the table of a wider one.
    """
    if key in RUN_LABELS:
        return record[key]
    value = record["config"]
    for part in key.split("."):
        value = value.get(part, default) if isinstance(value, Mapping) else default
    return record["overrides"].get(key, value)


def identity(value: Any) -> str:
    """Returns a text that two settings share if they mean the same. 1 and 1.0 share it, [3, 5] and (3, 5) share it, 1
    and True do not.
    """
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(identity(each) for each in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return json.dumps(value, sort_keys=True, default=str)


def check_layout(layout: TableLayout, settings: Iterable[Mapping[str, Any]], scores: Collection[str]) -> None:
    """Checks that runs fill a layout, by the settings of each run and the names of their scores, if there are any.

    Raises:
      InputError: the layout names a row, an original or a score that the runs do not have.
    """
    labels = [*layout.rows, *RUN_LABELS]
    for known in settings:
        if unknown := [key for key in layout.rows if key not in known and key not in RUN_LABELS]:
            problem = f"the table shows {unknown[0]!r}, which is not a setting of its runs"
            raise InputError(problem, remedy=nearest(unknown[0], sorted(known)))
    if unknown := [key for key in layout.original if key not in labels]:
        problem = f"the table's original is named by {unknown[0]!r}, which labels no row"
        raise InputError(problem, remedy=f"name it by {' or '.join(labels)}")
    possible = [f"{part}.{name}" for part in _SCORED for name in sorted(scores)]
    for score in layout.scores if scores else ():
        if score not in possible and not score.startswith("times."):
            raise InputError(f"the table asks for {score!r}, which no run has", remedy=nearest(score, possible))


def make_table(records: Sequence[Record], layout: TableLayout, baselines: Sequence[BaselineRow] = ()) -> Table:
    """Gathers the records of a sweep, in any order, into a table, with baselines below.

    Runs that differ in the seed alone are averaged. Diverged and dropped runs are counted, but are in no mean. Grid
    keys that the layout does not name become row labels if runs of one row differ in them.

    Raises:
      InputError: there are no records; two runs of a row have the same seed, or differ in settings or data; or the
        layout does not fit the records, as in `check_layout`.
    """
    if not records:
        raise InputError("there are no records to make a table of", remedy="run the sweep first")
    names = {name for record in records for part in _SCORED for name in scores_of(record, part)}
    check_layout(layout, [flatten(record["config"]) | record["overrides"] for record in records], names)
    keys = list(layout.rows)

    def by(keys: Sequence[str], records: Sequence[Record]) -> list[list[Record]]:
        return list(grouped(records, lambda record: tuple(identity(setting_of(record, key)) for key in keys)).values())

    # Runs that differ in another key of the grid would be averaged as if they were seeds.
    for key in ("variant", *sorted({key for record in records for key in record["overrides"]} - {"seed"})):
        if key not in keys and any(len(by([key], group)) > 1 for group in by(keys, records)):
            keys.append(key)

    def rank(row: Row) -> list[tuple]:
        ranks: list[tuple] = []
        for key, value in row.settings.items():
            name, first = identity(value), list(map(identity, layout.order.get(key, ())))
            place = first.index(name) if name in first else len(first)
            ranks.append((place, 0, value, name) if isinstance(value, (int, float)) else (place, 1, str(value), name))
        return ranks

    rows = sorted((_row(group, keys, layout) for group in by(keys, records)), key=rank)
    words = caption(records, layout.scores, [row.finished for row in rows])
    return Table(layout, tuple(keys), tuple(rows), *words, tuple(baselines))


def _row(records: Sequence[Record], keys: Sequence[str], layout: TableLayout) -> Row:
    by_seed: dict[int, Record] = {}
    for record in sorted(records, key=lambda each: (each["seed"], each["run"])):
        twin = by_seed.get(record["seed"])
        other = twin or next(iter(by_seed.values()), record)
        this, that = ((setting_of_run(each["run"]), each["data"]["fingerprint"]) for each in (record, other))
        if twin or this != that:
            one, two = (flatten({**each["config"], "record": {"data": each["data"]}}) for each in (other, record))
            named = (one.keys() | two.keys()) - {"seed"}
            differing = sorted(key for key in named if identity(one.get(key, ...)) != identity(two.get(key, ...)))
            if twin or differing:
                problem = f"records {other['run']} and {record['run']} belong to the same row of the table"
                problem += f"{' and seed' * bool(twin)}, but differ in {', '.join(differing[:4]) or 'nothing'}"
                remedy = "name what differs in the layout's rows, or move the runs of one of the two away"
                raise InputError(problem, remedy=remedy)
        by_seed[record["seed"]] = record
    finished, diverged, dropped = (
        tuple(record for record in by_seed.values() if record["status"] == status) for status in STATUSES
    )
    scores = {}
    for score in layout.scores:
        values = {record["seed"]: score_of(record, score) for record in finished}
        known = {seed: value for seed, value in values.items() if value is not None}
        mean, deviation = statistics.mean_and_deviation(known.values()) if known else (None, None)
        if score.startswith("times.") and len({record["cohort"] for record in finished}) < len(finished):
            deviation = None  # runs that trained together share one measurement, so it has no spread
        scores[score] = Summary(known, mean, deviation)
    first = next(iter(by_seed.values()))
    return Row({key: setting_of(first, key) for key in keys}, finished, diverged, dropped, scores)


# Published numbers


def other_training_set(row: Row, published: Published) -> bool:
    """Returns whether the models of a row were trained on more or fewer pairs than a published model, by more than a
    hundredth.
    """
    wanted = published.training_pairs
    return bool(wanted) and any(abs(record["data"]["train"] - wanted) > wanted / 100 for record in row.records)


def compared(
    row: Row, score: str, published: Published | None
) -> tuple[float | None, str | None, tuple[float, float] | None]:
    """Returns the number that a published text begins with, a share if our score is one; how the mean of a row compares
    with it; and the interval of the difference by which that is judged: it "covers" zero, up to the rounding of the
    number, or all of it "beats" it or "misses" it. Each may be None: nothing is judged from fewer than two seeds or
    from seeds that all agree, if the training sets differ, or if the score is not the same quantity.
    """
    text = published.scores.get(score, "").replace("−", "-") if published else ""
    number, spread = re.match(r"\s*([-+]?\d+(?:\.(\d+))?)", text), re.search(r"±\s*(\d+(?:\.\d+)?)", text)
    if not number:
        return None, None, None
    unit, seeds, summary = 100.0 if is_percent(score) else 1.0, published.settings.get("seeds"), row.scores[score]
    value, rounding = float(number[1]) / unit, 0.5 * 10.0 ** -len(number[2] or "") / unit
    unlike = score in published.unlike or other_training_set(row, published)
    if unlike or not summary.deviation or higher_is_better(score) is None:
        return value, None, None
    printed = (float(spread[1]) / unit if spread else None, seeds if isinstance(seeds, int) else None)
    lower, upper = found = statistics.to_published(list(summary.values.values()), value, *printed)
    if lower - rounding <= 0 <= upper + rounding:
        return value, "covers", found
    return value, "beats" if (lower > 0) == higher_is_better(score) else "misses", found


# The caption


def caption(
    records: Sequence[Record], scores: Sequence[str], means: Sequence[Sequence[Record]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Describes how the numbers came about: the caption, with seeds, divergence, the choice of checkpoints, data and
    vectors; and all the rest. `means` are the records of the finished runs of each mean.
    """
    finished = [record for record in records if record["status"] == "finished"]
    short, sentences = [_seeds(finished, means)], []
    if diverged := sum(record["status"] == "diverged" for record in records):
        short.append(f"{diverged} of {len(records)} runs diverged and {'is' if diverged == 1 else 'are'} in no mean.")
    if dropped := [record["dropped"] for record in records if record["status"] == "dropped"]:
        after, shares = [each["after_epochs"] for each in dropped], {each.get("eta") for each in dropped}
        why = ", ".join(f"{after.count(epoch):,} after epoch {epoch}" for epoch in sorted(set(after)))
        if len(shares) == 1 and None not in shares:
            why += f"; the best 1/{shares.pop()} of the settings continued each time"
        runs = f"{len(dropped)} of {len(records)} runs {'was' if len(dropped) == 1 else 'were'}"
        sentences.append(f"{runs} dropped by successive halving ({why}), and count in no mean.")
    chosen = " or ".join(plain_score_name(name) for name in sorted({record["selected_on"] for record in records}))
    tested, how = {bool(record["data"]["test"]) for record in records}, ""
    if any(score.startswith("test.") for score in scores) and True in tested:
        often = any(setting_of(record, "training.best_on_test") for record in records)
        how = "; test scored" if tested == {True} else "; test, where there is one, scored"
        how += " with that checkpoint, and besides at every evaluation" if often else " once, with that checkpoint"
    short.append(f"Checkpoint chosen on {chosen}{how}.")
    lengths = sorted({len(record["curve"]) for record in finished})
    if lengths and lengths[0]:  # a run that was best at its last evaluation might have gained from more training
        last = sum(record["curve"][-1]["samples"] == record["selected_at_samples"] for record in finished)
        had = " to ".join(f"{length:,}" for length in dict.fromkeys((lengths[0], lengths[-1])))
        noun = "evaluation" if lengths == [1] else "evaluations"
        sentences.append(f"Best at the last evaluation: {last} of {len(finished)} runs, which had {had} {noun}.")
    if any(score.startswith("best_on_test.") for score in scores):
        sentences.append(
            "Scores under “best on test” are those of a checkpoint chosen on the test set itself; "
            "they flatter and are there only for comparison with results obtained in that way."
        )
    if any(score.endswith(".max_f1") for score in scores):
        sentences.append("Max F1 is the best F1 over all thresholds on the scored pairs themselves.")
    about, more = _data(records)
    precisions = set()
    for record in records:
        requested, products = setting_of(record, "model.precision"), record.get("products")
        as_promised = _PROMISED.get(requested) == products is not None
        precisions.add(f"{requested}" if as_promised else f"{requested} ({products or 'unknown'} products)")
    if precisions != {"float32"} and any(record.get("products") is not None for record in records):
        sentences.append(f"Precision: {'; '.join(sorted(precisions))}.")
    devices = {each["device"] for record in records for each in (record, *record.get("trained_by", ()))}
    sentences.append(f"Device: {'; '.join(sorted(devices))}.")
    return (*short, *about, *_versions(means)), (*more, *sentences)


def _seeds(finished: Sequence[Record], means: Sequence[Sequence[Record]]) -> str:
    if not finished:
        return "No run finished."
    seeds = {record["seed"] for record in finished}
    if all(len(mean) <= 1 for mean in means):
        one = f"One run{' a row' * (len(means) > 1)}, seed{'s' * (len(seeds) > 1)}"
        return f"{one} {format_ranges(seeds)}."
    if len({frozenset(record["seed"] for record in mean) for mean in means}) == 1:
        return f"Mean ± sample standard deviation over {len(seeds)} seeds ({format_ranges(seeds)})."
    return f"Mean ± sample standard deviation over as many of the seeds {format_ranges(seeds)} as the row says."


def format_ranges(numbers: Iterable[int]) -> str:
    """Formats whole numbers in ascending order, with three or more consecutive numbers as a range: "1–5, 8"."""
    groups = itertools.groupby(enumerate(sorted(set(numbers))), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _data(records: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Describes data, test pairs in train and word vectors; and punctuation. Old records lack some fields: whatever
    one of them lacks is left out.
    """
    sentences, in_train, coverage = set(), set(), {}
    for data in (record["data"] for record in records):
        sizes = [f"{data[split]:,} {part}" for split, part in _SPLITS.items() if data[split]]
        known = data.get("about") or {}
        about = "".join(f"; {split}: {known[split]}" for split in _SPLITS if split in known)
        sentences.add(f"Data: {data['name']} ({', '.join(sizes)} pairs{about}).")
        if count := (data.get("in_train") or {}).get("test"):
            pairs = f"{count_text(count, 'test pair')} of {data['name']} {'is' if count == 1 else 'are'}"
            in_train.add(f"{pairs} in the training set too, up to order, case and punctuation.")
        share = (data.get("coverage") or {}).get("tokens_with_vector")
        coverage.setdefault(data["vectors"], set()).add(share)
    vectors = []
    for name, shares in sorted(coverage.items(), key=str):
        between = [] if None in shares else dict.fromkeys(map(_percent, (min(shares), max(shares))))
        covered = f" ({' to '.join(between)} of the tokens have one)" if between else ""
        vectors.append("Word vectors: " + (name or "the data set's own") + f"{covered}.")
    removed = {setting_of(record, "data.remove_punctuation") for record in records}
    said = {(True,): "removed", (False,): "kept"}.get(tuple(removed), "removed in some runs and kept in others")
    punctuation = [] if None in removed else [f"Punctuation is {said}."]
    return [*sorted(sentences), *sorted(in_train), *vectors], punctuation


def _percent(share: float) -> str:
    """Formats a share as "99.5%". The result is "100%" only if nothing is missing."""
    text = f"{100 * share:.1f}"
    return "100%" if share == 1 else "more than 99.9%" if text == "100.0" else f"{text}%"


def _versions(means: Sequence[Sequence[Record]]) -> list[str]:
    """Describes the commits and the versions of packages if several of them trained the runs of one mean."""
    found: dict[str, set[str]] = {}
    for mean in means:
        origins = [
            {"commits": short_commit(each.get("commit")) or "unknown", **each.get("versions", {})}
            for record in mean
            for each in (record, *record.get("trained_by", ()))
        ]
        for name in dict.fromkeys(name for each in origins for name in each):
            values = {each.get(name, "unknown") for each in origins}
            if len(values) > 1:
                found.setdefault(name, set()).update(values)
    one = "one" if len(means) == 1 else "a"
    versions = "; ".join(f"{name} {', '.join(sorted(values))}" for name, values in found.items())
    return [f"Several versions of the program trained the runs of {one} mean: {versions}."] if found else []


# The legend


def _sampling_errors(table: Table) -> list[str]:
    """Describes the sampling error of the best scores: of accuracy and Pearson's correlation over the pairs of test, or
    of dev if there is no test score; and of test scores that are means over questions, by the standard deviation over
    the questions, averaged over the seeds.
    """
    best = {score: ranked[0] for score in table.layout.scores if (ranked := table.ranked(score))}
    part = "test" if any(score.startswith("test.") for score in best) else "dev"
    besides, sentences, texts, size = "in addition to the spread over seeds.", [], [], ""
    for name, interval in (("accuracy", statistics.wilson), ("pearson", statistics.fisher)):
        score = f"{part}.{name}"
        if score in best and (pairs := best[score].records[0]["data"][part]) > 3:  # for Fisher's interval
            value = best[score].scores[score].mean
            mean, lower, upper = (format_number(score, each) for each in (value, *interval(value, pairs)))
            if lower != upper:  # as printed: "100.0 to 100.0" says nothing
                sentences.append(
                    f"Sampling error of the best {plain_score_name(score)}: {mean}{'%' * is_percent(score)}, "
                    f"{CONFIDENCE:.0%} interval {lower} to {upper} ({pairs:,} pairs), {besides}"
                )
    for score, row in best.items():
        samplings = [record.get("test_sampling") or {"questions": 0} for record in row.finished]
        if not score.startswith("test.") or min(each["questions"] for each in samplings) < 1:
            continue  # old records, or no question that counts
        deviations = [without_nan(each["deviations"].get(score.removeprefix("test."))) for each in samplings]
        if None not in deviations:
            questions = sum(each["questions"] for each in samplings) / len(samplings)
            margin = statistics.NORMAL_QUANTILE * sum(deviations) / len(deviations) / math.sqrt(questions)
            mean, margin = (format_number(score, value) for value in (row.scores[score].mean, margin))
            texts.append(f"{plain_score_name(score).removeprefix('test ')} {mean} ± {margin}")
            size = size or f"{questions:,.0f} questions"
    if texts:
        found = f"{' and '.join(texts)} ({CONFIDENCE:.0%} interval, {size})"
        sentences.append(f"Sampling error of the best test scores: {found}, {besides}")
    return sentences


def _legend(table: Table) -> list[str]:
    """Explains the marks and abbreviations that occur in the cells."""
    layout = table.layout
    baselines = ", ".join(baseline.title for baseline in table.baselines)
    legend = []
    if baselines:
        legend.append(f"Baselines ({baselines}): fitted once on the training pairs, on the CPU, without seeds.")
    counts = [(len(one.values), len(row.finished)) for row in table.rows for one in row.scores.values()]
    if any(0 < known < finished for known, finished in counts):
        legend.append("(n = k): only k of the runs have that score.")
    if any(finished and not known for known, finished in counts):
        legend.append(f"{NO_VALUE}: the runs have no such score.")
    if table.differences:
        over = "Welch's t-test, two-sided over the seeds (scores of seeds taken as independent and roughly normal)"
        if layout.paired:
            over = "paired t-test, two-sided, over the seeds that both have (their differences roughly normal)"
        tested = any(difference.p_value is not None for difference in table.differences.values())
        test = f"; p: {over}, corrected by Holm for all of a column" if tested else ""
        legend.append(f"Differences are to {setting_text(layout.original)}{test}.")
    if any(compared(row, score, one)[1] for row, one in table.published.items() for score in layout.scores):
        legend.append(
            f"In brackets: the {CONFIDENCE:.0%} confidence interval of our mean less the published number (Welch's t). "
            "covers: the interval contains zero, up to rounding; beats: our mean is better over the whole interval; "
            "misses: worse over the whole interval. The interval includes the paper's own deviation over its seeds "
            "where the paper prints one."
        )
    if table.best:
        others = "every other" if all(row.finished for row in table.rows) else "every other that finished"
        test = "the paired test" if layout.paired else "Welch's test"
        legend.append(
            f"Bold: better than {others} on the same data, by {test} with Holm's correction (p < {LEVEL:.2f})."
        )
    return [*legend, *_sampling_errors(table)]


# The printed table


def sheet(table: Table) -> Sheet:
    """Returns the table as it is printed, in plain text. Means that are best beyond chance are bold. Published scores
    are next to the row of the same settings, with the verdict on its mean, or else in rows below the baselines; those
    without a column are in a note.
    """
    layout, headings = table.layout, setting_headings(table.keys)
    own = [_own_row(table, row) for row in table.rows]
    baselines = []
    for one in table.baselines:
        label = "baseline" if VARIANT in table.keys else one.title
        scores = {score_heading(score): format_number(score, value) for score, value in one.scores.items()}
        baselines.append({"model": label, VARIANT: one.title, "parameters": f"{one.parameters:,}", **scores})
    below = []
    for one in layout.published:
        if set(one.scores) & set(layout.scores) and one not in table.published.values():
            settings = {headings.get(key, key): format_setting(key, value) for key, value in one.settings.items()}
            scores = {score_heading(score): text for score, text in one.scores.items()}
            below.append({"model": one.label, **settings, **scores})
    named = bool(below) or bool(table.baselines and VARIANT not in table.keys)
    columns = labels = [*["model"] * named, *headings.values(), *NO_SETTINGS]
    for name in map(score_heading, layout.scores):
        more = (f"difference: {name}", f"published: {name}")
        columns = [*columns, name, *(each for each in more if any(each in row for row in own))]

    def line(row: Mapping[str, str | Text]) -> tuple[Text, ...]:
        cells = (row.get(column, "") for column in columns)
        return tuple(cell if isinstance(cell, Text) else Text(cell) for cell in cells)

    return Sheet(
        title=layout.title,
        caption=table.caption,
        details=(*table.details, *_legend(table)),
        notes=(*layout.notes, *_published_notes(table)),
        headings=tuple(columns),
        numeric=tuple(column == "parameters" or column not in labels for column in columns),
        sections=tuple(tuple(map(line, section)) for section in (own, baselines, below) if section),
    )


def _own_row(table: Table, row: Row) -> dict[str, str | Text]:
    """Returns heading -> cell."""
    sizes = dict.fromkeys(f"{record['parameters']:,}" for record in row.records)
    others = [f" + {len(runs)} {how}" for runs, how in ((row.diverged, "diverged"), (row.dropped, "dropped")) if runs]
    headings = setting_headings(table.keys)
    texts = {headings[key]: format_setting(key, value) for key, value in row.settings.items()}
    texts |= {"model": model_title(row.records[0]), "parameters": " / ".join(sizes)}
    texts["seeds"] = f"{len(row.finished)}{''.join(others)}"
    published = table.published.get(row)
    for score, summary in row.scores.items():
        name = score_heading(score)
        if summary.mean is None:
            # A setting that was dropped and has a diverged run was dropped because of that run.
            text = NO_VALUE if row.finished else "diverged" if row.diverged else "dropped"
        else:
            text = format_number(score, summary.mean)
            text += "" if summary.deviation is None else f" ± {format_number(score, summary.deviation)}"
            text += "" if len(summary.values) == len(row.finished) else f" (n = {len(summary.values)})"
        texts[name] = Text(text, bold=(row, score) in table.best)
        if found := table.differences.get((row, score)):
            p_value = "" if found.corrected is None else f" (p {p_text(found.corrected)})"
            texts[f"difference: {name}"] = _signed(score, found.value) + p_value
        if published and score in published.scores:
            text, (_, verdict, ends) = published.scores[score], compared(row, score, published)
            if other_training_set(row, published):
                text += f" ({published.training_pairs:,} training pairs)"
            elif verdict:
                text += f" ({verdict}: {' to '.join(_signed(score, end) for end in ends)})"
            texts[f"published: {name}"] = text
    return texts


def _signed(score: str, value: float) -> str:
    printed = format_number(score, value)
    return f"−{printed[1:]}" if printed.startswith("-") else f"+{printed}"


def _published_notes(table: Table) -> tuple[str, ...]:
    """Returns notes on published rows: their sources, and values without a column. Equal notes are merged."""
    labels: dict[str, dict[str, None]] = {}
    shown = table.layout.scores
    for published in table.layout.published:
        details = [f"{score_heading(name)} {text}" for name, text in published.scores.items() if name not in shown]
        if published in table.published.values():  # only a row below has columns for these
            details += [f"{published.settings[key]} {key}" for key in NO_SETTINGS if key in published.settings]
        details += ["its released configuration chooses checkpoints on the test set"] * published.chosen_on_test
        details += [f"{score_heading(name)}: {reason}" for name, reason in published.unlike.items() if name in shown]
        labels.setdefault("; ".join([published.source, *details]), {})[published.label] = None
    return tuple(f"{', '.join(those)}: {source}." for source, those in labels.items())


# The table of a folder


def folder_table(directory: Path, format: str = "markdown", verbose: bool = True) -> str:
    """Returns the table of a sweep folder as text, in one of `FORMATS`. In Markdown, its caption is short unless
    `verbose`. Errors are those of `read_sweep_folder` and `table_of`.
    """
    table = table_of(read_sweep_folder(directory))
    return table.markdown(verbose) if format == "markdown" else getattr(table, format)()


def table_of(folder: SweepFolder) -> Table:
    """Returns the table of a sweep folder.

    Raises:
      InputError: none of its runs has ended, or the layout in its notes cannot be followed.
    """
    if not folder.records:
        raise InputError("no run has finished yet", path=folder.path, remedy=WAIT_OR_RESUME)
    try:
        table = make_table(list(folder.records.values()), folder.layout, folder.baselines)
    except InputError as error:
        raise error.at(error.path or folder.path / SWEEP_FILE, error.line) from None
    if not folder.missing:
        return table
    note = missing_text(folder)
    if failed := sorted(folder.path.glob("cohorts/*/error.json")):
        note += f"; training failed, as {failed[0]} says"
    return dataclasses.replace(table, caption=(f"{note}.", *table.caption))


def missing_text(folder: SweepFolder) -> str:
    """Says how many of the planned runs have no record."""
    have = "has" if len(folder.missing) == 1 else "have"
    return f"{len(folder.missing)} of {len(folder.runs)} runs {have} not finished"
