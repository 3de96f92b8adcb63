"""Commands that look into trained models (inspect, occlusion, ensemble), and the analyses that a sweep requests."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jaxmatch
from jaxmatch.cli import common
from jaxmatch.errors import InputError, count_text, printable, printable_json
from jaxmatch.reporting import formats
from jaxmatch.reporting.records import by_setting, is_sweep, read_record, read_sweep_folder, records_of, setting_name
from jaxmatch.workdir import SWEEP_FILE

if TYPE_CHECKING:
    import numpy as np

    from jaxmatch.analysis.attention import PairAttention

FORMATS = ("markdown", "latex", "json")
NAMED = 3  # the number of tokens of the other sentence that are printed for each token


def _finished_runs(folder: Path, least: int = 1) -> list[tuple[tuple[Mapping[str, Any], ...], list[Path]]]:
    """Returns the records and the folders of the finished runs of each setting of a sweep that has at least `least`."""
    found = [members for members in by_setting(records_of(folder)) if len(members) >= least]
    if not found:
        problem = f"no setting has {count_text(least, 'finished run')}"
        raise InputError(problem, path=folder, remedy="resume the sweep, or train more seeds: --seeds N")
    return [(members, [folder / "runs" / record["run"] for record in members]) for members in found]


def add_inspect_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="a run's folder, WORKDIR/runs/NAME, or the --workdir of a sweep")
    add("--pair", type=common.text_of, nargs=2, metavar=("TEXT", "TEXT"), help="the texts (default: the paper's)")
    add("--output", type=common.folder_of, metavar="DIR", help="keep the weights and their figure here")
    add("--format", choices=("text", "json"), default="text")


def inspect(arguments: argparse.Namespace) -> None:
    """Show the attention weights of a pair: for each token, the tokens of the other sentence that it attends to.

        jaxmatch inspect runs/quickstart --pair "A man sleeps." "Nobody is awake." --output figures

    With --output, the weights are kept as attention.json and drawn as attention.png and attention.svg. For a sweep's
    folder there is one file for each finished run, attention-RUN.json.
    """
    from jaxmatch.analysis import attention
    from jaxmatch.reporting import figures

    folder, sweep = arguments.folder, is_sweep(arguments.folder)
    runs = {"attention": folder}
    if sweep:
        runs = {f"attention-{run.name}": run for _, folders in _finished_runs(folder) for run in folders}
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
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="the --workdir of a sweep, or a run: WORKDIR/runs/NAME")
    common.add_split_arguments(parser, "dev")
    add("--output", type=common.folder_of, metavar="DIR", help="keep the changes and their figure here")
    add("--format", choices=FORMATS, default="markdown")


def occlusion(arguments: argparse.Namespace) -> None:
    """Measure how the accuracy of a trained RE2 changes without one of the features that its alignment layers see.

        jaxmatch occlusion runs/re2_main/runs/RUN --data-directory data --output figures

    The embedding, the residual and the contextual features (the encoder's output) of each block are set to zero, one at
    a time. The change of accuracy is reported for each class in percentage points (Figure 2 of RE2's paper), for a
    sweep as mean and sample standard deviation over the seeds of each setting. With --output, the changes are kept as
    occlusion.json, or occlusion-1.json and so on for several settings, and drawn.
    """
    from jaxmatch.reporting import figures

    found = list(_occluded(arguments.folder, arguments.data_directory, arguments.split))
    plain = [plain for plain, _ in found]
    if arguments.format == "json":
        common.show(printable_json(plain if is_sweep(arguments.folder) else plain[0]))
    else:
        common.show("\n".join(getattr(formats, arguments.format)(sheet) for _, sheet in found), end="")
    for number, values in enumerate(plain if arguments.output is not None else [], start=1):
        figures.write(values, arguments.output, "occlusion" if len(found) == 1 else f"occlusion-{number}")


def _occluded(folder: Path, data_directory: str | None, split: str) -> Iterator[tuple[dict[str, Any], formats.Sheet]]:
    """Yields the result for a run, or for each setting of a sweep, as plain values and as a table."""
    from jaxmatch.analysis.evaluate import official_split
    from jaxmatch.analysis.occlusion import occlusion, over_seeds, sheet

    if is_sweep(folder):
        settings = _finished_runs(folder)
        # Of several models, only RE2 has such features; for a sweep without RE2, `occlusion` raises an error.
        re2 = [each for each in settings if each[0][0]["config"]["model"].get("name", "re2") == "re2"]
        settings = re2 or settings
    else:
        file = folder / "record.json"
        settings = [((read_record(file),) if file.exists() else (), [folder])]
    for members, folders in settings:
        pairs, single = None, []
        for one in folders:
            common.note(f"occlusion of {one.name}")
            matcher = jaxmatch.load(one)
            pairs = pairs or official_split(matcher, split, data_directory)
            single.append(occlusion(matcher, pairs))
        data = f"{matcher.config['data']['name']} {split}"
        if not is_sweep(folder):
            yield {**single[0].as_json(), "data": data, "run": folder.resolve().name}, sheet(single[0], data, members)
            continue
        found, setting = over_seeds(single), setting_name(members[0])
        each = [{name: one.as_json()[name] for name in ("accuracy", "change")} for one in single]
        about = {"seeds": [record["seed"] for record in members], "single": each, "data": data, "setting": setting}
        runs = [one.name for one in folders]
        yield {**found.as_json(), **about, "runs": runs}, sheet(found, data, members, setting)


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
    from jaxmatch.analysis.ensemble import Ensemble, ensemble, sheet
    from jaxmatch.analysis.evaluate import official_split

    found, directory = [], arguments.directory
    for members, folders in _finished_runs(directory, least=2):
        pairs = official_split(jaxmatch.load(folders[0]), arguments.split, arguments.data_directory)
        scores = ensemble((jaxmatch.load(folder) for folder in folders), pairs)
        found.append(Ensemble(members, arguments.split, len(pairs), scores))
    if arguments.format == "json":
        common.show(printable_json([one.as_json() for one in found]))
    else:
        layout = read_sweep_folder(directory).layout if (directory / SWEEP_FILE).exists() else None
        more = (layout.ensembles, layout.notes) if layout else ()
        common.show(getattr(formats, arguments.format)(sheet(found, *more)), end="")


def run_analyses(workdir: Path, data_directory: str | None) -> None:
    """Prints the analyses that a sweep requests (`Sweep.analyses`). Saves figures in the workdir's folder "figures"."""
    from jaxmatch.cli.main import parse

    for name, options in read_sweep_folder(workdir).analyses.items():
        arguments = parse([name, str(workdir)])
        vars(arguments).update(output=workdir / "figures", data_directory=data_directory, **options)
        common.show("")
        {"ensemble": ensemble, "inspect": inspect, "occlusion": occlusion}[name](arguments)
