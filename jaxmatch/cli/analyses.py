"""Commands that look into trained models (inspect, occlusion, ensemble), and the analyses that a sweep requests."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jaxmatch
from jaxmatch.cli import common
from jaxmatch.errors import InputError, count_text, printable, printable_json
from jaxmatch.reporting.records import by_setting, is_sweep, read_record, read_sweep_folder, records_of, setting_name
from jaxmatch.workdir import SWEEP_FILE

if TYPE_CHECKING:
    import numpy as np

    from jaxmatch.analysis.attention import PairAttention
    from jaxmatch.analysis.occlusion import Occluded

FORMATS = ("markdown", "latex", "json")
NAMED = 3  # the number of tokens of the other sentence that are printed for each token


def slug(setting: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", setting.lower()).strip("-")[:60]


def _finished_runs(folder: Path, least: int = 1) -> list[tuple[Mapping[str, Any], ...]]:
    """Returns the records of the finished runs of each setting of a sweep that has at least `least` of them."""
    found = [members for members in by_setting(records_of(folder)) if len(members) >= least]
    if not found:
        problem = f"no setting has {count_text(least, 'finished run')}"
        raise InputError(problem, path=folder, remedy="resume the sweep, or train more seeds: --seeds N")
    return found


def add_inspect_arguments(parser: argparse.ArgumentParser) -> None:
    folder, pair = "a run's folder, WORKDIR/runs/NAME, or the --workdir of a sweep", ("TEXT", "TEXT")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=folder)
    texts = "the two texts (default: those of the model's paper)"
    parser.add_argument("--pair", type=common.text_of, nargs=2, metavar=pair, help=texts)
    parser.add_argument("--output", type=common.folder_of, metavar="DIR", help="keep the weights and their figure here")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def inspect(arguments: argparse.Namespace) -> None:
    """Show the attention weights of a pair: for each token, the tokens of the other sentence that it attends to.

        jaxmatch inspect runs/quickstart --pair "A man sleeps." "Nobody is awake." --output figures

    With --output, the weights are kept as attention.json and drawn as attention.png and attention.svg. For a sweep's
    folder there is one file for each finished run, such as attention-seed0.json, or attention-1-SETTING-seed0.json if
    the sweep has several settings.
    """
    from jaxmatch.analysis import attention
    from jaxmatch.reporting import figures

    folder, sweep = arguments.folder, is_sweep(arguments.folder)
    settings = _finished_runs(folder) if sweep else []
    runs = {} if sweep else {"attention": folder}
    for number, members in enumerate(settings, start=1):
        for record in members:
            setting = f"{number}-{slug(setting_name(record))}-" if len(settings) > 1 else ""
            runs[f"attention-{setting}seed{record['seed']}"] = folder / "runs" / record["run"]
    plain, parts = {}, []
    for name, run in runs.items():
        matcher = jaxmatch.load(run)
        (found,) = attention.attention(matcher, [tuple(arguments.pair or attention.papers_pair(matcher))])
        plain[name] = found.as_json() | ({"run": run.name} if sweep else {})
        parts.append("\n".join([f"run:    {run.name}"] * sweep + list(_lines(found))))
    if arguments.format == "json":
        common.show(printable_json(list(plain.values()) if sweep else plain["attention"]))
    else:
        common.show("\n\n".join(parts))
    # The figures come last because they need matplotlib. Without it, the results are still printed.
    for name, values in plain.items() if arguments.output is not None else ():
        figures.write(values, arguments.output, name)


def _lines(pair: PairAttention) -> Iterator[str]:
    yield f"first:  {printable(pair.text_a)}"
    yield f"second: {printable(pair.text_b)}"
    if pair.prediction.score is None:
        shares = ", ".join(f"{printable(label)} {share:.3f}" for label, share in pair.prediction.probabilities.items())
        yield f"answer: {printable(pair.prediction.label)} ({shares})"
    else:
        yield f"answer: {pair.prediction.score:.4f}"
    for block in pair.blocks:
        yield f"\n{block.name}, first over second"
        yield from _attention_lines(pair.tokens_a, pair.tokens_b, block.over_b)
        yield f"{block.name}, second over first"
        yield from _attention_lines(pair.tokens_b, pair.tokens_a, block.over_a.T)


def _attention_lines(tokens: Sequence[str], others: Sequence[str], weights: np.ndarray) -> Iterator[str]:
    """Yields a line for each token, with the tokens of the other sentence that it attends to most."""
    tokens, others = [printable(token) for token in tokens], [printable(token) for token in others]
    width = max(map(len, tokens))
    for token, row in zip(tokens, weights, strict=True):
        most = sorted(range(len(others)), key=lambda other: -row[other])[:NAMED]
        yield f"  {token:<{width}}  " + ", ".join(f"{others[other]} {row[other]:.2f}" for other in most)


def add_occlusion_arguments(parser: argparse.ArgumentParser) -> None:
    folder = "the --workdir of a sweep, or a run: WORKDIR/runs/NAME"
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=folder)
    common.add_split_arguments(parser, "dev")
    parser.add_argument("--output", type=common.folder_of, metavar="DIR", help="keep the changes and their figure here")
    parser.add_argument("--format", choices=FORMATS, default="markdown")


def occlusion(arguments: argparse.Namespace) -> None:
    """Measure how the accuracy of a trained RE2 changes without one of the features that its alignment layers see.

        jaxmatch occlusion runs/re2_main/runs/RUN --data-directory data --output figures

    The embedding, the residual and the contextual features (the encoder's output) of each block are set to zero, one at
    a time. The change of accuracy is reported for each class in percentage points (Figure 2 of RE2's paper), for a
    sweep as mean and sample standard deviation over the seeds of each setting. With --output, the changes are kept as
    occlusion.json, or occlusion-1-SETTING.json and so on for several settings, and drawn. sweeps/re2_occlusion.py
    trains what the figure needs and runs this analysis.
    """
    from jaxmatch.analysis.occlusion import occlusions
    from jaxmatch.reporting import figures

    found = list(_occluded(arguments.folder, arguments.data_directory, arguments.split))
    plain = [plain for plain, _ in found]
    if arguments.format == "json":
        common.show(printable_json(plain if is_sweep(arguments.folder) else plain[0]))
    else:
        common.show(occlusions([occluded for _, occluded in found], arguments.format), end="")
    for number, values in enumerate(plain if arguments.output is not None else [], start=1):
        name = "occlusion" if len(found) == 1 else f"occlusion-{number}-{slug(values['setting'])}"
        figures.write(values, arguments.output, name)


def _occluded(folder: Path, data_directory: str | None, split: str) -> Iterator[tuple[dict[str, Any], Occluded]]:
    """Yields the result for a run, or for each setting of a sweep, as plain values and in the form of a table."""
    from jaxmatch.analysis.evaluate import official_split
    from jaxmatch.analysis.occlusion import Occluded, occlusion, over_seeds

    if not is_sweep(folder):
        matcher = jaxmatch.load(folder)
        found = occlusion(matcher, official_split(matcher, split, data_directory))
        data = f"{matcher.config['data']['name']} {split}"
        records = (read_record(folder / "record.json"),) if (folder / "record.json").exists() else ()
        yield {**found.as_json(), "data": data, "run": folder.resolve().name}, Occluded(found, data, records)
        return
    # In a sweep of several models, only RE2 has such features; for a sweep without RE2, `occlusion` raises an error.
    settings = _finished_runs(folder)
    settings = [each for each in settings if each[0]["config"]["model"].get("name", "re2") == "re2"] or settings
    for members in settings:
        folders = [folder / "runs" / record["run"] for record in members]
        pairs, single = None, []
        for one in folders:
            common.note(f"occlusion of {one.name}")
            matcher = jaxmatch.load(one)
            pairs = pairs or official_split(matcher, split, data_directory)
            single.append(occlusion(matcher, pairs))
        found, seeds = over_seeds(single), [record["seed"] for record in members]
        data, setting = f"{matcher.config['data']['name']} {split}", setting_name(members[0])
        each = [{name: one.as_json()[name] for name in ("accuracy", "change")} for one in single]
        about = {"seeds": seeds, "single": each, "data": data, "setting": setting}
        plain = {**found.as_json(), **about, "runs": [one.name for one in folders]}
        yield plain, Occluded(found, data, members, setting)


def add_ensemble_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="WORKDIR", help="the --workdir of a sweep")
    common.add_split_arguments(parser, "test")
    parser.add_argument("--format", choices=FORMATS, default="markdown")


def ensemble(arguments: argparse.Namespace) -> None:
    """Score all seeds of each setting of a sweep together, as an ensemble: by majority vote and by mean probability.

        jaxmatch ensemble runs/quickstart --split dev --format json

    Each setting with at least two finished runs is one ensemble. Ties of a vote are decided by the summed probability.
    For a sweep of sweeps/re2_ensemble.py, the ensembles of RE2's Table 1 are printed below.
    """
    from jaxmatch.analysis.ensemble import Ensemble, ensemble, ensembles
    from jaxmatch.analysis.evaluate import official_split

    found, directory = [], arguments.directory
    for members in _finished_runs(directory, least=2):
        folders = [directory / "runs" / record["run"] for record in members]
        pairs = official_split(jaxmatch.load(folders[0]), arguments.split, arguments.data_directory)
        scores = ensemble((jaxmatch.load(folder) for folder in folders), pairs)
        found.append(Ensemble(members, arguments.split, len(pairs), scores))
    layout = read_sweep_folder(directory).layout if (directory / SWEEP_FILE).exists() else None
    printed = (layout.ensembles, layout.notes) if layout else ((), ())
    common.show(ensembles(found, printed[0], arguments.format, printed[1]), end="")


def run_analyses(workdir: Path, data_directory: str | None) -> None:
    """Prints the analyses that a sweep requests (`Sweep.analyses`). Saves figures in the workdir's folder "figures"."""
    from jaxmatch.cli.main import parse

    if not (workdir / SWEEP_FILE).exists():  # no sweep was started in the folder
        return
    for name, options in read_sweep_folder(workdir).analyses.items():
        arguments = parse([name, str(workdir)])
        vars(arguments).update(output=workdir / "figures", data_directory=data_directory, **options)
        common.show("")
        {"ensemble": ensemble, "inspect": inspect, "occlusion": occlusion}[name](arguments)
