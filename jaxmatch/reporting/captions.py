"""The sentences of a table's caption: how its numbers came about, and how certain they are."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from jaxmatch.errors import count_text
from jaxmatch.reporting import statistics
from jaxmatch.reporting.comparisons import p_value, ranked
from jaxmatch.reporting.layout import (
    Content,
    Summary,
    format_number,
    format_ranges,
    format_setting,
    is_percent,
    plain_score_name,
    setting_headings,
)
from jaxmatch.reporting.records import deviation_of, setting_of, short_commit
from jaxmatch.reporting.statistics import LEVEL

FEWEST_PAIRS = 4  # the fewest pairs for Fisher's interval of a correlation
OWN_VECTORS = "the data set's own"
# Precision -> the matrix products that its name implies.
_PROMISED = {"float32": "float32", "tensorfloat32": "TF32", "bfloat16": "bfloat16"}


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Returns the distinct values in an order that does not depend on the order of the records."""
    return sorted(set(values), key=str)


def _seeds(finished: Sequence[Mapping], cells: Sequence[Sequence[Mapping]], each: str) -> str:
    if not finished:
        return "No run finished."
    seeds = {record["seed"] for record in finished}
    if all(len(cell) <= 1 for cell in cells):
        one = f"One run a {each}" if each else "One run"
        return f"{one}, {'seed' if len(seeds) == 1 else 'seeds'} {format_ranges(seeds)}."
    if len({frozenset(record["seed"] for record in cell) for cell in cells}) == 1:
        return f"Mean ± sample standard deviation over {len(seeds)} seeds ({format_ranges(seeds)})."
    return f"Mean ± sample standard deviation over as many of the seeds {format_ranges(seeds)} as the row says."


def _dropped(records: Sequence[Mapping]) -> list[str]:
    """Describes how many runs successive halving dropped, and when."""
    found = [record["dropped"] for record in records if record["status"] == "dropped"]
    if not found:
        return []
    after = [each["after_epochs"] for each in found]
    why = ", ".join(f"{after.count(epoch):,} after epoch {epoch}" for epoch in sorted(set(after)))
    shares = {each.get("eta") for each in found}
    if len(shares) == 1 and None not in shares:
        why += f"; the best 1/{shares.pop()} of the settings continued each time"
    verb = "was" if len(found) == 1 else "were"
    return [f"{len(found)} of {len(records)} runs {verb} dropped by successive halving ({why}), and count in no mean."]


def _converged(records: Sequence[Mapping]) -> list[str]:
    """Describes whether training was long enough. A run whose best checkpoint is its last evaluation might have reached
    a better one with more training. The list is empty if there are no records, or one has no curve.
    """
    counts = sorted({len(record["curve"]) for record in records})
    if not counts or not counts[0]:
        return []
    last = sum(record["curve"][-1]["samples"] == record["selected_at_samples"] for record in records)
    had = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    noun = "evaluation" if counts == [1] else "evaluations"
    return [f"Best at the last evaluation: {last} of {len(records)} runs, which had {had} {noun}."]


def _about(record: Mapping) -> str:
    """Describes the splits whose names do not describe them. Old records have no descriptions."""
    known = record["data"].get("about") or {}
    return "".join(f"; {split}: {known[split]}" for split in ("train", "dev", "test") if split in known)


def _data(records: Sequence[Mapping]) -> list[str]:
    sentences = []
    for name, train, dev, test, about in _distinct(
        (*(record["data"][field] for field in ("name", "train", "dev", "test")), _about(record)) for record in records
    ):
        sizes = [f"{size:,} {part}" for part, size in (("training", train), ("dev", dev), ("test", test)) if size]
        sentences.append(f"Data: {name} ({', '.join(sizes)} pairs{about}).")
    sentences += _in_train(records)
    for vectors in _distinct(record["data"]["vectors"] for record in records):
        shares = {
            (record["data"].get("coverage") or {}).get("tokens_with_vector")
            for record in records
            if record["data"]["vectors"] == vectors
        }
        sentences.append(f"Word vectors: {vectors or OWN_VECTORS}{_covered(shares)}.")
    return [*sentences, *_punctuation(records)]


def _in_train(records: Sequence[Mapping]) -> list[str]:
    """Describes how many test pairs a model has seen in training. Old records do not contain the number."""
    found = ((record["data"]["name"], (record["data"].get("in_train") or {}).get("test")) for record in records)
    return [
        f"{count_text(count, 'test pair')} of {name} {'is' if count == 1 else 'are'} in the training set too, up to "
        "order, case and punctuation."
        for name, count in _distinct(found)
        if count
    ]


def _punctuation(records: Sequence[Mapping]) -> list[str]:
    """Describes whether models see punctuation, because papers and their authors' codes differ in this. The list is
    empty if a record does not contain the setting.
    """
    removed = {setting_of(record, "data.remove_punctuation") for record in records}
    if removed == {True, False}:
        return ["Punctuation is removed in some runs and kept in others."]
    return {(True,): ["Punctuation is removed."], (False,): ["Punctuation is kept."]}.get(tuple(removed), [])


def _covered(shares: set[float | None]) -> str:
    """Describes the fractions in words. The text is empty if a fraction is unknown."""
    if None in shares:
        return ""
    low, high = (_percent(share) for share in (min(shares), max(shares)))
    return f" ({low if low == high else f'{low} to {high}'} of the tokens have one)"


def _percent(share: float) -> str:
    """Formats a share as "99.5%". The result is "100%" only if nothing is missing."""
    text = f"{100 * share:.1f}"
    return "100%" if share == 1 else "more than 99.9%" if text == "100.0" else f"{text}%"


def _versions(cells: Sequence[Sequence[Mapping]]) -> list[str]:
    """Describes the commits and the versions of packages if several of them trained the runs of one mean."""
    found: dict[str, set[str]] = {}
    for cell in cells:
        origins = [_origin(each) for record in cell for each in (record, *record.get("trained_by", ()))]
        for name in dict.fromkeys(name for each in origins for name in each):
            values = {each.get(name, "unknown") for each in origins}
            if len(values) > 1:
                found.setdefault(name, set()).update(values)
    if not found:
        return []
    mean = "one mean" if len(cells) == 1 else "a mean"
    versions = "; ".join(f"{name} {', '.join(sorted(values))}" for name, values in found.items())
    return [f"Several versions of the program trained the runs of {mean}: {versions}."]


def _origin(record: Mapping) -> dict[str, str]:
    """Returns the commit, and the versions of the packages, that a record names."""
    return {"commits": short_commit(record.get("commit")) or "unknown", **record.get("versions", {})}


def _precisions(records: Sequence[Mapping]) -> list[str]:
    """Describes the precision that matrix products really used. The list is empty if all are float32 as requested, or
    if no record contains it.
    """
    found = [_precision(record) for record in records]
    unremarkable = all(
        record.get("products") is None or precision == "float32"
        for record, precision in zip(records, found, strict=True)
    )
    return [] if unremarkable else [f"Precision: {'; '.join(_distinct(found))}."]


def _precision(record: Mapping) -> str:
    """Describes the precision of a run: "float32 (TF32 products)". Records of older versions do not contain what the
    products used.
    """
    requested, products = setting_of(record, "model.precision"), record.get("products")
    return (
        f"{requested}"
        if _PROMISED.get(requested) == products is not None
        else f"{requested} ({products or 'unknown'} products)"
    )


def caption(
    records: Sequence[Mapping], scores: Sequence[str], cells: Sequence[Sequence[Mapping]], each: str = "row"
) -> tuple[str, ...]:
    """Describes how the numbers came about: seeds, divergence, the choice of checkpoints, data, vectors, device.

    Arguments:
      records: all records of the table, already checked.
      scores: the scores of the table.
      cells: the records of the finished runs of each mean.
      each: what of the table has a mean: "row" or "cell"; empty if the whole table is about the same runs.
    """
    finished = [record for record in records if record["status"] == "finished"]
    sentences = [_seeds(finished, cells, each)]
    diverged = sum(record["status"] == "diverged" for record in records)
    if diverged:
        verb = "is" if diverged == 1 else "are"
        sentences.append(f"{diverged} of {len(records)} runs diverged and {verb} in no mean.")
    sentences += _dropped(records)
    parts = {score.partition(".")[0] for score in scores}
    chosen = " or ".join(plain_score_name(name) for name in _distinct(r["selected_on"] for r in records))
    choice = f"Checkpoint chosen on {chosen}"
    tested = {bool(record["data"]["test"]) for record in records}
    if "test" in parts and True in tested:
        where = "" if tested == {True} else ", where there is one,"
        if any(setting_of(record, "training.best_on_test") for record in records):
            sentences.append(f"{choice}; test{where} scored with that checkpoint, and besides at every evaluation.")
        else:
            sentences.append(f"{choice}; test{where} scored once, with that checkpoint.")
    else:
        sentences.append(f"{choice}.")
    sentences += _converged(finished)
    if "best_on_test" in parts:
        sentences.append(
            "Scores under “best on test” are those of a checkpoint chosen on the test set itself; "
            "they flatter and are there only for comparison with results obtained in that way."
        )
    if any(score.endswith(".max_f1") for score in scores):
        sentences.append("Max F1 is the best F1 over all thresholds on the scored pairs themselves.")
    sentences += _data(records)
    sentences += _precisions(records)
    devices = _distinct(each["device"] for record in records for each in (record, *record.get("trained_by", ())))
    sentences.append(f"Device: {'; '.join(devices)}.")
    sentences += _versions(cells)
    return tuple(sentences)


def seeds_needed(table: Content) -> list[str]:
    """Describes, for each data set, whether the seeds tell apart its two best settings by the table's last dev or test
    score, or how many more seeds would.
    """
    scores = [score for score in table.layout.scores if ranked(table, score)]
    sentences = []
    of_data = ranked(table, scores[-1]) if scores else {}
    for name, cells in of_data.items():
        if len(cells) < 2:
            continue
        (_, first, best), (_, second, next_best), *_ = cells
        score = scores[-1]
        where = f"{plain_score_name(score)}{_on(name, of_data)}"
        what = f"({row_name(first)}; {row_name(second)}) in {where}"
        of_two = p_value(table, best, next_best, score)
        if of_two is None:
            continue
        if of_two < LEVEL:
            sentences.append(f"The seeds separate the two best settings {what} (p {p_text(of_two)}, these two alone).")
            continue
        sentences.append(
            f"{_needed(best.scores[score], next_best.scores[score], table.layout.paired)} are needed to separate the "
            f"two best settings {what} (power {statistics.POWER:.0%}, level {LEVEL:.0%}, these two alone)."
        )
    return sentences


def _needed(one: Summary, other: Summary, paired: bool) -> str:
    """Says how many seeds separate two settings, and how many more these are than now."""
    shared = sorted(one.values.keys() & other.values.keys())
    if paired:
        count = statistics.shared_seeds_to_separate([one.values[seed] - other.values[seed] for seed in shared])
    else:
        count = statistics.seeds_to_separate(*(list(each.values.values()) for each in (one, other)))
    seeds = "shared seeds" if paired else "seeds each"
    now = len(shared) if paired else min(len(one.values), len(other.values))
    return seeds_text(count, now, seeds)


def seeds_text(count: int | None, now: int, seeds: str = "seeds each") -> str:
    """Formats the number of seeds that separate two settings (`statistics.seeds_to_separate`).

    Arguments:
      count: the number. None: more than `statistics.MOST_SEEDS`.
      now: the number of seeds that there are now.
      seeds: the words for what is counted.
    """
    if count is None:
        return f"More than {statistics.MOST_SEEDS:,} {seeds}"
    return f"About {count:,} {seeds}, {count - now:,} more than now,"


def _on(name: str, of_data: Collection[str]) -> str:
    """Names the data set that a sentence is about, if there are several."""
    return f" on {name}" if len(of_data) > 1 else ""


def row_name(settings: Mapping) -> str:
    """Describes a row's settings in words."""
    headings = setting_headings(list(settings))
    texts = [(key, format_setting(key, value)) for key, value in settings.items()]
    return ", ".join(text if key == "variant" else f"{headings[key]} {text}" for key, text in texts) or "this work"


def p_text(p_value: float) -> str:
    """Formats a p value as "= 0.017" or "< 0.001"."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def sampling_error(table: Content) -> list[str]:
    """Describes the sampling error of the best test score of each data set, in sentences."""
    return [
        *_of_pairs(table, "accuracy", statistics.wilson),
        *_of_pairs(table, "pearson", statistics.fisher),
        *_of_rankings(table),
    ]


def _of_pairs(table: Content, name: str, interval: Callable[[float, int], tuple[float, float]]) -> list[str]:
    """Describes the sampling error of a score over pairs. It uses dev for data sets without any test score."""
    sentences = []
    shown = table.layout.scores
    tested = {data for score in shown if score.startswith("test.") for data in ranked(table, score)}
    on_test, on_dev = (ranked(table, f"{part}.{name}") if f"{part}.{name}" in shown else {} for part in ("test", "dev"))
    untested = {data: found for data, found in on_dev.items() if data not in tested}
    of_data = {data: ("test", found[0]) for data, found in on_test.items()}
    of_data |= {data: ("dev", found[0]) for data, found in untested.items()}
    for data, (part, (_, _, best)) in of_data.items():
        score = f"{part}.{name}"
        value, pairs = best.scores[score].mean, best.records[0]["data"][part]
        if pairs >= FEWEST_PAIRS:
            unit = "%" if is_percent(score) else ""
            mean, lower, upper = (format_number(score, each) for each in (value, *interval(value, pairs)))
            sentences.append(
                f"Sampling error of the best {plain_score_name(score)}{_on(data, of_data)}: {mean}{unit}, "
                f"{statistics.CONFIDENCE:.0%} interval {lower} to {upper} ({pairs:,} pairs), "
                "in addition to the spread over seeds."
            )
    return sentences


def _of_rankings(table: Content) -> list[str]:
    """Describes the sampling error of test scores that are means over questions. It uses the standard deviation over
    the questions, averaged over the seeds.
    """
    of_data: dict[str, list[tuple[int, str]]] = {}
    for score in table.layout.scores:
        for name, ((_, _, best), *_) in ranked(table, score).items():
            deviations = [deviation_of(record, score) for record in best.finished]
            if not deviations or None in deviations:
                continue
            deviation, questions = (sum(values) / len(deviations) for values in zip(*deviations, strict=True))
            margin, mean = statistics.NORMAL_QUANTILE * deviation / math.sqrt(questions), best.scores[score].mean
            title = plain_score_name(score).partition(" ")[2]
            text = f"{title} {format_number(score, mean)} ± {format_number(score, margin)}"
            of_data.setdefault(name, []).append((round(questions), text))
    return [
        f"Sampling error of the best test scores{_on(name, of_data)}: {' and '.join(text for _, text in found)} "
        f"({statistics.CONFIDENCE:.0%} interval, {found[0][0]:,} questions), in addition to the spread over seeds."
        for name, found in of_data.items()
    ]
