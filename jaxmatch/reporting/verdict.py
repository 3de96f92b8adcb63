"""The verdict on a sweep: whether its best setting is worth using, and which run to use."""

import shlex
from pathlib import Path

from jaxmatch.errors import count_text
from jaxmatch.reporting import statistics
from jaxmatch.reporting.layout import TableLayout, format_number, higher_is_better, is_percent, p_text, plain_score_name
from jaxmatch.reporting.records import SweepFolder, best_record, read_sweep_folder, setting_name
from jaxmatch.reporting.statistics import LEVEL, MOST_SEEDS
from jaxmatch.reporting.table import Row, Summary, make_table, missing_text


class Ranking:
    """The settings of a sweep by the dev score that chooses checkpoints: a table of this score and its like on test,
    and its rows, the best first. There are none if checkpoints were chosen by different scores, or scored on different
    pairs. `run_to_use` is the record of the run that is best on dev, which `--best` takes, too.
    """

    def __init__(self, folder: SweepFolder):
        records = list(folder.records.values())
        self.score, *others = {record["selected_on"] for record in records if record["status"] == "finished"} or {""}
        self.test = self.score.replace("dev.", "test.", 1)
        self.table, self.rows, self.run_to_use = None, [], None
        if self.score and not others:
            self.table = make_table(records, TableLayout("", folder.layout.rows, scores=(self.score, self.test)))
            self.rows: list[Row] = self.table.ranked(self.score)
        if self.rows:
            self.run_to_use = best_record(records)

    def mean(self, row: Row) -> float:
        return row.scores[self.score].mean


def verdict_lines(directory: Path) -> list[str]:
    """Returns the verdict on the sweep of a folder as lines for a terminal. The command has a line of its own."""
    folder = read_sweep_folder(directory)
    sentences, command = verdict(folder, Ranking(folder))
    return [*sentences, *([f"    {command}"] if command else [])]


def verdict(folder: SweepFolder, ranking: Ranking) -> tuple[list[str], str]:
    """Compares the best setting with the baselines, then with the other settings, says whether it was trained long
    enough, and names the run to use. Returns sentences, and the command that predicts with that run; or nothing.
    """
    if not ranking.rows:
        return [], ""
    score, (best, *others), run = ranking.score, ranking.rows, ranking.run_to_use
    line = f"Best by mean {plain_score_name(score)}: {best.name}, {_mean_text(best.scores[score], score)}"
    if others:
        line += f"; the next, {others[0].name}, "
        difference = ranking.mean(others[0]) - ranking.mean(best)
        line += f"is {_gap(score, difference)} it" if difference else "is as good"
    sentences = [*_against_baselines(folder, ranking), f"{line}.", *_noise(ranking)]
    curves = [record for record in best.finished if record["curve"]]
    last = sum(record["curve"][-1]["samples"] == record["selected_at_samples"] for record in curves)
    if last and 2 * last >= len(curves):
        runs = f"{last} of {count_text(len(curves), 'run')}"
        sentences.append(f"Best at the last evaluation in {runs} of this setting: train longer (--epochs).")
    if folder.missing:
        sentences.append(f"{missing_text(folder)}: this may change.")
    of = "" if run in best.finished else f" of {setting_name(run)}"
    sentences.append(f"Run to use: {folder.path / 'runs' / run['run']} (seed {run['seed']}{of}, the best on dev).")
    command = ["jaxmatch", "predict", str(folder.path), "--best", "--input", "pairs.tsv"]
    return sentences, shlex.join(command)


def _mean_text(summary: Summary, score: str) -> str:
    spread = "" if summary.deviation is None else f" ± {format_number(score, summary.deviation)}"
    seeds = count_text(len(summary.values), "seed")
    return f"{format_number(score, summary.mean)}{spread}{'%' * is_percent(score)} over {seeds}"


def _gap(score: str, difference: float) -> str:
    """Describes a mean minus another one: "4.7 points below"."""
    words = ("below", "above") if higher_is_better(score) else ("better than", "worse than")
    return f"{format_number(score, abs(difference))}{' points' * is_percent(score)} {words[difference > 0]}"


def _against_baselines(folder: SweepFolder, ranking: Ranking) -> list[str]:
    """Compares the best setting with the best baseline: on test, which took no part in the choice, or else on dev."""
    if not folder.baselines:
        return ["No baseline was fitted to compare with. Train with --baselines all to fit them."]
    best = ranking.rows[0]
    known = [score for score in (ranking.test, ranking.score) if best.scores[score].values]
    score = next((score for score in known if any(score in row.scores for row in folder.baselines)), "")
    if not score:
        return []
    sign = 1 if higher_is_better(score) else -1
    baseline = max((row for row in folder.baselines if score in row.scores), key=lambda row: sign * row.scores[score])
    summary, value = best.scores[score], baseline.scores[score]
    gap = _gap(score, summary.mean - value)
    line = f"The best setting, {best.name}, is {gap} the best baseline, {baseline.title}, in {plain_score_name(score)}"
    if sign * (summary.mean - value) <= 0:
        line += ": not worth using"
    elif (ends := statistics.to_published(list(summary.values.values()), value)) and min(sign * e for e in ends) <= 0:
        line += ", within seed noise"
    ours, theirs = _mean_text(summary, score), format_number(score, value) + "%" * is_percent(score)
    return [f"{line} ({ours}, against {theirs})."]


def _noise(ranking: Ranking) -> list[str]:
    """Describes whether the seeds tell the best setting from the others, by Welch's test with Holm's correction, and
    how many seeds would tell it from the next of them.
    """
    score, (best, *others) = ranking.score, ranking.rows
    if not others:
        return []
    p_values = [ranking.table.p_value(best, other, score) for other in others]
    if None in p_values:
        other = others[p_values.index(None)]
        return [f"Too few seeds, or seeds that do not differ: {best.name} and {other.name} cannot be tested."]
    corrected = statistics.holm(p_values)
    within = [other for other, p_value in zip(others, corrected, strict=True) if p_value >= LEVEL]
    if not within:
        most = p_text(max(corrected))
        return [f"It is beyond seed noise: better than every other with a dev score (p {most}, Welch with Holm)."]
    least = min(p_value for p_value in corrected if p_value >= LEVEL)
    names = "; ".join(other.name for other in within[:4]) + f" and {len(within) - 4} more" * (len(within) > 4)
    sentences = [f"Within seed noise of it (p {least:.3f} or more, Welch with Holm): {names}."]
    if ahead := [other for other in others[: others.index(within[-1])] if other not in within]:
        one, other = (f"{row.name}: {_mean_text(row.scores[score], score)}" for row in (ahead[0], within[-1]))
        sentences.append(
            f"{ahead[0].name} has a better mean than {within[-1].name} and yet is beyond noise, because Welch's test "
            f"weighs how much the seeds of each setting spread ({one}; {other})."
        )
    one, other = (list(row.scores[score].values.values()) for row in (best, within[0]))
    count, now = statistics.seeds_to_separate(one, other), min(len(one), len(other))
    if count is None or count > now:  # otherwise, the seeds separate these two, if no other is compared
        needed = f"More than {MOST_SEEDS:,} seeds each"
        if count is not None:
            needed = f"About {count:,} seeds each, {count - now:,} more than now,"
        power = f"power {statistics.POWER:.0%}, level {LEVEL:.0%}, these two alone"
        sentences.append(f"{needed} are needed to tell {best.name} and {within[0].name} apart ({power}).")
    return sentences
