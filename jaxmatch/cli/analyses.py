"""Commands that look into trained models (inspect, occlusion, ensemble), and the analyses that a sweep requests."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.cli.common import (
    SPLITS,
    add_directory_argument,
    check_output_folder,
    nonempty_path,
    note,
    records_of,
    show,
    slug,
)
from jaxmatch.errors import InputError, printable, printable_json

if TYPE_CHECKING:
    import numpy as np

    from jaxmatch.analysis.attention import PairAttention

# How many tokens of the other sentence are printed for each token.
NAMED = 3
_FORMATS = ("markdown", "latex", "json")


def add_inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a run's folder, WORKDIR/runs/NAME, or the --workdir of a sweep"
    )
    parser.add_argument(
        "--pair", nargs=2, metavar=("TEXT", "TEXT"), help="the two texts (default: those of the model's paper)"
    )
    parser.add_argument("--output", type=nonempty_path, metavar="DIR", help="keep the weights and their figure here")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def inspect(arguments: argparse.Namespace) -> None:
    """Show the attention weights of a pair: for each token, the tokens of the other sentence that it attends to.

        jaxmatch inspect runs/quickstart/runs/RUN --pair "A man sleeps." "Nobody is awake."
        jaxmatch inspect runs/quickstart --pair "A man sleeps." "Nobody is awake." --output figures

    Without --pair, it shows the pair of the model's paper, or of RE2's paper if that has none. With --output, the
    weights are kept as attention.json and drawn as attention.png and attention.svg. For a sweep's folder there is one
    file for each finished run, such as attention-seed0.json. If the sweep has several settings, the name has the number
    of the setting and the setting before the seed.
    """
    check_output_folder(arguments.output)
    show_attention(arguments.folder, arguments.output, arguments.pair, arguments.format)


def show_attention(
    folder: Path, output: Path | None = None, pair: Sequence[str] | None = None, format: str = "text"
) -> None:
    """Prints the attention weights of a pair, for a run or for every finished run of a sweep, and saves them.

    Arguments:
      folder: the folder of a run or of a sweep.
      output: the folder in which the weights and their figures are saved; None: nothing is saved.
      pair: the two texts; None: the texts of the model's paper.
      format: "text" or "json".

    Raises:
      InputError: a text is empty or not UTF-8, no run has finished, a model has no attention to show, or matplotlib,
        which draws the figures, is not installed.
    """
    from jaxmatch.analysis import attention
    from jaxmatch.inference.matcher import load
    from jaxmatch.reporting import figures

    for one in pair or ():
        if not one.strip():
            raise InputError("a text of the pair is empty", remedy="give two texts")
        try:
            one.encode()
        except UnicodeEncodeError:  # bytes of a command line that are not UTF-8 arrive as lone surrogates
            raise InputError(f"{one!r} is not UTF-8", remedy="give the texts in UTF-8") from None
    sweep = (folder / "runs").is_dir() or (folder / "sweep.json").is_file()
    plain, parts = {}, []
    for name, run in _runs_of_sweep(folder) if sweep else [("attention", folder)]:
        matcher = load(run)
        (found,) = attention.attention(matcher, [tuple(pair or attention.papers_pair(matcher))])
        plain[name] = found.as_json() | ({"run": run.name} if sweep else {})
        parts.append("\n".join([f"run:    {run.name}"] * sweep + list(_lines(found))))
    if format == "json":
        show(printable_json(list(plain.values()) if sweep else plain["attention"]))
    else:
        show("\n\n".join(parts))
    # The figures come last because they need matplotlib. Without it, the results are still printed.
    for name, values in plain.items() if output is not None else ():
        figures.write(values, output, name)


def _runs_of_sweep(folder: Path) -> list[tuple[str, Path]]:
    """Returns (name of the files, folder) for each finished run of a sweep."""
    from jaxmatch.reporting.records import by_setting, setting_name

    settings = by_setting(records_of(folder))
    if not settings:
        raise InputError("no run has finished", path=folder, remedy="run the sweep again to resume it")
    several = len(settings) > 1
    return [
        (
            f"attention-{f'{number}-{slug(setting_name(record))}-' * several}seed{record['seed']}",
            folder / "runs" / record["run"],
        )
        for number, members in enumerate(settings, start=1)
        for record in members
    ]


def _lines(pair: PairAttention) -> Iterator[str]:
    yield f"first:  {printable(pair.text_a)}"
    yield f"second: {printable(pair.text_b)}"
    if pair.prediction.score is None:
        shares = ", ".join(f"{printable(label)} {share:.3f}" for label, share in pair.prediction.probabilities.items())
        yield f"answer: {printable(pair.prediction.label)} ({shares})"
    else:
        yield f"answer: {pair.prediction.score:.4f}"
    for block in pair.blocks:
        yield ""
        yield f"{block.name}, first over second"
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


if TYPE_CHECKING:
    from jaxmatch.analysis.occlusion import Occluded


def add_occlusion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the --workdir of a sweep, or a run: WORKDIR/runs/NAME"
    )
    parser.add_argument(
        "--split", choices=SPLITS, default="dev", help="split of the data set it was trained on (default: dev)"
    )
    add_directory_argument(parser)
    parser.add_argument("--output", type=nonempty_path, metavar="DIR", help="keep the changes and their figure here")
    parser.add_argument("--format", choices=_FORMATS, default="markdown")


def occlusion(arguments: argparse.Namespace) -> None:
    """Measure how the accuracy of a trained RE2 changes without one of the features that its alignment layers see.

        jaxmatch occlusion runs/re2_main --data-directory data --output figures
        jaxmatch occlusion runs/re2_main/runs/RUN --data-directory data --output figures

    The embedding, the residual and the contextual features (the encoder's output) of each block are set to zero, one at
    a time. The change of accuracy is reported for each class in percentage points (Figure 2 of RE2's paper). For a
    sweep's folder it is the mean and sample standard deviation over the seeds of each setting. With --output, the
    changes are kept as occlusion.json and drawn as occlusion.png and occlusion.svg. For a sweep with several settings
    the files are called occlusion-1-SETTING.json and so on. sweeps/re2_occlusion.py trains what the figure needs and
    runs this analysis.
    """
    check_output_folder(arguments.output)
    show_occlusion(arguments.folder, arguments.data_directory, arguments.output, arguments.split, arguments.format)


def show_occlusion(
    folder: Path, data_directory: str | None, output: Path | None = None, split: str = "dev", format: str = "markdown"
) -> None:
    """Prints the tables of a run, or of each setting of a sweep, and saves the values.

    Arguments:
      folder: the folder of a run or of a sweep.
      data_directory: the folder with the data files, or None for the folder that the runs were trained from.
      output: the folder in which the values and their figures are saved; None: nothing is saved.
      split: the split on which the accuracy is measured.
      format: "markdown", "latex" or "json".

    Raises:
      InputError: no finished run has RE2's features, the split cannot be read, or matplotlib, which draws the figures,
        is not installed.
    """
    from jaxmatch.analysis.occlusion import occlusions
    from jaxmatch.reporting import figures

    sweep = (folder / "runs").is_dir() or (folder / "sweep.json").is_file()
    found = list((_occlusion_of_sweep if sweep else _occlusion_of_run)(folder, data_directory, split))
    plain = [plain for plain, _ in found]
    if format == "json":
        show(printable_json(plain if sweep else plain[0]))
    else:
        show(occlusions([occluded for _, occluded in found], format), end="")
    # The figures come last because they need matplotlib. Without it, the results are still printed.
    for number, values in enumerate(plain if output is not None else [], start=1):
        name = "occlusion" if len(found) == 1 else f"occlusion-{number}-{slug(values['setting'])}"
        figures.write(values, output, name)


def _occlusion_of_run(
    folder: Path, data_directory: str | None, split: str
) -> Iterator[tuple[dict[str, Any], Occluded]]:
    """Yields the result for a run, as plain values and in the form that a table takes."""
    from jaxmatch.analysis.evaluate import official_split
    from jaxmatch.analysis.occlusion import Occluded, occlusion
    from jaxmatch.inference.matcher import load
    from jaxmatch.reporting.records import read_record

    matcher = load(folder)
    found = occlusion(matcher, official_split(folder, matcher, split, data_directory))
    data = f"{matcher.config['data']['name']} {split}"
    records = (read_record(folder / "record.json"),) if (folder / "record.json").exists() else ()
    yield {**found.as_json(), "data": data, "run": folder.resolve().name}, Occluded(found, data, records)


def _occlusion_of_sweep(
    folder: Path, data_directory: str | None, split: str
) -> Iterator[tuple[dict[str, Any], Occluded]]:
    """Yields the result for each setting of a sweep, over its seeds, in the same two forms as `_occlusion_of_run`."""
    from jaxmatch.analysis.evaluate import official_split
    from jaxmatch.analysis.occlusion import Occluded, occlusion, over_seeds
    from jaxmatch.inference.matcher import load
    from jaxmatch.reporting.records import by_setting, setting_name

    # In a sweep of several models, only RE2 has such features; for a sweep without RE2, `occlusion` raises an error.
    settings = by_setting(records_of(folder))
    settings = [members for members in settings if _is_re2(members[0])] or settings
    if not settings:
        raise InputError("no run has finished", path=folder, remedy="run the sweep again to resume it")
    for members in settings:
        folders = [folder / "runs" / record["run"] for record in members]
        pairs, single = None, []
        for one in folders:
            note(f"occlusion of {one.name}")
            matcher = load(one)
            pairs = pairs or official_split(one, matcher, split, data_directory)
            single.append(occlusion(matcher, pairs))
        found, seeds = over_seeds(single), [record["seed"] for record in members]
        data, setting = f"{matcher.config['data']['name']} {split}", setting_name(members[0])
        each = [{name: one.as_json()[name] for name in ("accuracy", "change")} for one in single]
        about = {"seeds": seeds, "single": each, "data": data, "setting": setting}
        plain = {**found.as_json(), **about, "runs": [one.name for one in folders]}
        yield plain, Occluded(found, data, members, setting)


def _is_re2(record: Mapping[str, Any]) -> bool:
    return record.get("config", {}).get("model", {}).get("name", "re2") == "re2"


if TYPE_CHECKING:
    from jaxmatch.reporting.layout import TableLayout


def add_ensemble_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="WORKDIR", help="the --workdir of a sweep")
    parser.add_argument("--split", choices=SPLITS, default="test", help="split of the data set (default: test)")
    add_directory_argument(parser)
    parser.add_argument("--format", choices=_FORMATS, default="markdown")


def ensemble(arguments: argparse.Namespace) -> None:
    """Score all seeds of each setting of a sweep together, as an ensemble: by majority vote and by mean probability.

        jaxmatch ensemble runs/quickstart
        jaxmatch ensemble runs/quickstart --split dev --format json

    Each setting with at least two finished runs is one ensemble. Ties of a vote are decided by the summed probability.
    For a sweep of sweeps/re2_ensemble.py, the ensembles of RE2's Table 1 are printed below.
    """
    show(ensemble_text(arguments.directory, arguments.data_directory, arguments.split, arguments.format), end="")


def ensemble_text(directory: Path, data_directory: str | None, split: str = "test", format: str = "markdown") -> str:
    """Returns the table of a sweep's ensembles.

    Arguments:
      directory: the sweep's folder.
      data_directory: the folder with the data files, or None for the folder that the runs were trained from.
      split: the split that is scored.
      format: "markdown", "latex" or "json".

    Raises:
      InputError: no setting has two finished runs, or the split cannot be read.
    """
    from jaxmatch.analysis.ensemble import Ensemble, ensemble, ensembles
    from jaxmatch.analysis.evaluate import official_split
    from jaxmatch.inference.matcher import load

    found = []
    for members in _settings_with_seeds(directory):
        folders = [directory / "runs" / record["run"] for record in members]
        pairs = official_split(folders[0], load(folders[0]), split, data_directory)
        found.append(Ensemble(members, split, len(pairs), ensemble((load(folder) for folder in folders), pairs)))
    layout = _layout_of(directory)
    return ensembles(found, layout.ensembles, format, layout.notes) if layout else ensembles(found, (), format)


def _settings_with_seeds(directory: Path) -> list[tuple[Mapping[str, Any], ...]]:
    """Returns the finished runs of each setting that has at least two, in the order of their seeds."""
    from jaxmatch.reporting.records import by_setting

    found = [members for members in by_setting(records_of(directory)) if len(members) > 1]
    if not found:
        raise InputError("no setting has two finished runs", path=directory, remedy="train more seeds: --seeds N")
    return found


def _layout_of(directory: Path) -> TableLayout | None:
    from jaxmatch.reporting.records import name_of_sweep, read_sweep_folder

    return None if name_of_sweep(directory) is None else read_sweep_folder(directory).layout


def run_analyses(workdir: Path, data_directory: str | None) -> None:
    """Prints the analyses that a sweep requests (`Sweep.analyses`). Saves figures in the folder "figures" of `workdir`.

    Arguments:
      workdir: the sweep's folder.
      data_directory: the folder with the data files, or None for the folder that the runs were trained from.

    Raises:
      InputError: as in the commands `ensemble`, `occlusion` and `inspect`.
    """
    from jaxmatch.reporting.records import name_of_sweep, read_sweep_folder

    if name_of_sweep(workdir) is None:  # no sweep was started in the folder
        return
    figures = workdir / "figures"
    for name, options in read_sweep_folder(workdir).analyses.items():
        show("")
        if name == "ensemble":
            show(ensemble_text(workdir, data_directory, **options), end="")
        elif name == "occlusion":
            show_occlusion(workdir, data_directory, figures, **options)
        else:
            show_attention(workdir, figures, **options)
