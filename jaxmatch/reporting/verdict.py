"""The conclusions of a sweep, in sentences: the best setting, whether the seeds confirm it, the run to use, and the
command that repeats the sweep. Also the effect of each axis of its grid.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from jaxmatch.errors import count_text
from jaxmatch.reporting import statistics
from jaxmatch.reporting.captions import p_text, seeds_text
from jaxmatch.reporting.layout import format_number, higher_is_better, is_percent, plain_score_name, setting_text
from jaxmatch.reporting.records import SweepFolder, best_record, by_pairs, grouped, score_of, setting_of_run
from jaxmatch.reporting.statistics import LEVEL


@dataclasses.dataclass(frozen=True)
class ScoredSetting:
    """A setting that has finished runs with a score.

    Attributes:
      name: the name of the setting, made from its place in the grid.
      variant, overrides: its place in the grid.
      records: the records of its finished runs, one per seed.
      values: the scores of these runs, except for undefined ones.
    """

    name: str
    variant: str
    overrides: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    values: Sequence[float]

    @property
    def mean(self) -> float:
        return mean(self.values)


def ranked(folder: SweepFolder) -> tuple[str, list[ScoredSetting]]:
    """Returns the dev score that chooses checkpoints, and the settings in the order of its mean over their runs, the
    best first.

    There are no settings if checkpoints of the sweep were chosen by different scores, or if its runs were scored on
    different pairs, because their means cannot be compared.
    """
    done = [record for record in folder.records.values() if record["status"] == "finished"]
    score = done[0]["selected_on"] if done else ""
    if len({record["selected_on"] for record in done}) > 1 or len(by_pairs(done, lambda record: record)) > 1:
        return score, []
    settings = []
    for (variant, _), members in grouped(done, lambda record: (record["variant"], str(record["overrides"]))).items():
        values = [score_of(record, score) for record in members]
        known = [value for value in values if value is not None]
        if known:
            overrides = members[0]["overrides"]
            name = setting_text(overrides, variant) or "as configured"
            settings.append(ScoredSetting(name, variant, overrides, members, known))
    sign = -1 if higher_is_better(score) else 1
    return score, sorted(settings, key=lambda setting: sign * setting.mean)


def verdict(folder: SweepFolder) -> list[str]:
    """Returns the conclusions as sentences, the most important first. There are none while nothing can be concluded."""
    score, settings = ranked(folder)
    if not settings:
        return []
    best, *others = settings
    ranked_runs = {setting_of_run(record["run"]) for setting in settings for record in setting.records}
    unranked = {setting_of_run(run) for run in (*folder.runs, *folder.records)} - ranked_runs
    count = len(settings) + len(unranked)
    sentences = [_best(score, best, others, count), *_noise(score, best, others, count)]
    if folder.missing:
        have = "has" if len(folder.missing) == 1 else "have"
        sentences.append(f"{len(folder.missing)} of {len(folder.runs)} runs {have} not finished; this may change.")
    run = run_to_use(folder)
    if run is not None:
        sentences.append(
            f"Run to use: {folder.path / 'runs' / run['run']} (the best of them on dev, seed {run['seed']})."
        )
    if best.records[0]["test"]:
        test = score.replace("dev.", "test.", 1)
        values = [value for record in best.records if (value := score_of(record, test)) is not None]
        if values:
            sentences.append(
                f"Its {plain_score_name(test)}, which took no part in the choice: {_summary(test, values)}."
            )
    if command := folder.command:
        sentences.append(f"Command: {command}")
    return sentences


def run_to_use(folder: SweepFolder) -> Mapping[str, Any] | None:
    """Returns the record of the run of the best setting that is best on dev, or None if no setting is ranked."""
    settings = ranked(folder)[1]
    return best_record(settings[0].records) if settings else None


def _summary(score: str, values: Sequence[float]) -> str:
    center, deviation = statistics.mean_and_deviation(values)
    unit = "%" if is_percent(score) else ""
    spread = "" if deviation is None else f" ± {format_number(score, deviation)}"
    return f"{format_number(score, center)}{spread}{unit} over {count_text(len(values), 'seed')}"


def _best(score: str, best: ScoredSetting, others: Sequence[ScoredSetting], settings: int) -> str:
    line = f"Best by mean {plain_score_name(score)}: {best.name}, {_summary(score, best.values)}"
    if not others:
        only = "the only setting" if settings == 1 else f"the only one of {settings} settings with a dev score"
        return f"{line}. It is {only}."
    if best.mean == others[0].mean:
        return f"{line}. That is as good as the next, {_end(others[0].name)}"
    gap = format_number(score, abs(best.mean - others[0].mean))
    unit = " points" if is_percent(score) else ""
    return f"{line}. That is {gap}{unit} better than the next, {_end(others[0].name)}"


def _end(sentence: str) -> str:
    """Ends a sentence with a full stop. The name of a setting may end with one already."""
    return sentence if sentence.endswith(".") else f"{sentence}."


def _noise(score: str, best: ScoredSetting, others: Sequence[ScoredSetting], settings: int) -> list[str]:
    """Describes whether the seeds tell the best setting from the others, by Welch's test with Holm's correction.
    `settings` also counts those without a dev score, which are not tested.
    """
    if not others:
        return []
    if min(len(setting.values) for setting in (best, *others)) < 2:
        return ["Not every setting has two seeds or more, so the differences cannot be tested."]
    tests = [statistics.welch(best.values, other.values) for other in others]
    if None in tests:
        other = others[tests.index(None)]
        return [f"The seeds of {best.name} do not differ, nor do those of {other.name}, so no test is possible."]
    corrected = statistics.holm([test.p_value for test in tests])
    within = [other for other, p_value in zip(others, corrected) if p_value >= LEVEL]
    if not within:
        tested = "every other setting" if len(others) + 1 == settings else "every other with a dev score"
        return [f"It is beyond seed noise: better than {tested} (p {p_text(max(corrected))}, Welch with Holm)."]
    least = min(p_value for p_value in corrected if p_value >= LEVEL)
    names = ", ".join(other.name for other in within[:4]) + (f" and {len(within) - 4} more" if len(within) > 4 else "")
    sentences = [f"Within seed noise of it (p {least:.3f} or more, Welch with Holm): {_end(names)}"]
    needed = statistics.seeds_to_separate(best.values, within[0].values, LEVEL / len(others))
    have = min(len(best.values), len(within[0].values))
    if needed is None or needed > have:
        corrected_for = f", corrected for {len(others)} comparisons" if len(others) > 1 else ""
        sentences.append(
            f"{seeds_text(needed, have)} are needed to separate it from {within[0].name} in "
            f"{plain_score_name(score)} (power {statistics.POWER:.0%}, level {LEVEL:.0%}{corrected_for})."
        )
    return sentences


@dataclasses.dataclass(frozen=True)
class Effect:
    """The effect of a value of an axis.

    Attributes:
      axis, value: the axis and its value.
      settings: the number of settings that have the value.
      mean: the mean of the mean scores of these settings.
      difference: the difference from the best value of the axis, over settings that differ in nothing else. None for
        the best value, or if no such settings exist.
    """

    axis: str
    value: Any
    settings: int
    mean: float
    difference: float | None


def effects(folder: SweepFolder) -> list[Effect]:
    """Computes the effect of each axis of the grid on the dev score. Values of an axis are compared where all else is
    equal.
    """
    score, settings = ranked(folder)
    sign = 1 if higher_is_better(score) else -1
    places = {id(setting): {"variant": setting.variant, **setting.overrides} for setting in settings}
    axes = dict.fromkeys(axis for place in places.values() for axis in place)
    found = []
    for axis in axes:
        by_value = grouped(settings, lambda setting: str(places[id(setting)].get(axis)))
        if len(by_value) < 2:
            continue
        means = {value: mean(each.mean for each in members) for value, members in by_value.items()}
        best = max(means, key=lambda value: sign * means[value])
        rest = {str(_without(places[id(each)], axis)): each for each in by_value[best]}
        for value, members in by_value.items():
            pairs = [
                (each.mean, rest[key].mean)
                for each in members
                if (key := str(_without(places[id(each)], axis))) in rest
            ]
            difference = mean(one - other for one, other in pairs) if pairs and value != best else None
            shown = places[id(members[0])].get(axis)
            found.append(Effect(axis, shown, len(members), means[value], difference))
    return found


def _without(place: Mapping[str, Any], axis: str) -> list[tuple[str, Any]]:
    return sorted((key, value) for key, value in place.items() if key != axis)
