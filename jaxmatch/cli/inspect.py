"""Show the attention weights of a pair: for each token, the tokens of the other sentence that it attends to, layer by
layer.

    jaxmatch inspect runs/quickstart/runs/RUN --pair "A man sleeps." "Nobody is awake."
    jaxmatch inspect runs/quickstart --pair "A man sleeps." "Nobody is awake." --output figures

Without --pair, it shows the pair of the model's paper, or of RE2's paper if that has none. With --output, the weights
are kept as attention.json and drawn as attention.png and attention.svg. For a sweep's folder there is one file for each
finished run, such as attention-seed0.json. If the sweep has several settings, the name has the number of the setting
and the setting before the seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaxmatch.cli.output import show as show_text
from jaxmatch.cli.paths import check_output_folder, nonempty_path
from jaxmatch.cli.runs import records_of, slug
from jaxmatch.errors import InputError
from jaxmatch.printable import printable, printable_json

if TYPE_CHECKING:
    import numpy as np

    from jaxmatch.analysis.attention import PairAttention

# How many tokens of the other sentence are printed for each token.
NAMED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a run's folder, WORKDIR/runs/NAME, or the --workdir of a sweep"
    )
    parser.add_argument(
        "--pair", nargs=2, metavar=("TEXT", "TEXT"), help="the two texts (default: those of the model's paper)"
    )
    parser.add_argument("--output", type=nonempty_path, metavar="DIR", help="keep the weights and their figure here")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> None:
    check_output_folder(arguments.output)
    show(arguments.folder, arguments.output, arguments.pair, arguments.format)


def show(folder: Path, output: Path | None = None, pair: Sequence[str] | None = None, format: str = "text") -> None:
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
    for name, run in _of_sweep(folder) if sweep else [("attention", folder)]:
        matcher = load(run)
        (found,) = attention.attention(matcher, [tuple(pair or attention.papers_pair(matcher))])
        plain[name] = found.as_json() | ({"run": run.name} if sweep else {})
        parts.append("\n".join([f"run:    {run.name}"] * sweep + list(_lines(found))))
    if format == "json":
        show_text(printable_json(list(plain.values()) if sweep else plain["attention"]))
    else:
        show_text("\n\n".join(parts))
    # The figures come last because they need matplotlib. Without it, the results are still printed.
    for name, values in plain.items() if output is not None else ():
        figures.write(values, output, name)


def _of_sweep(folder: Path) -> list[tuple[str, Path]]:
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
