"""Show where the tokens of a pair look in the other sentence, block by block.

    jaxmatch inspect runs/quickstart/runs/RUN --pair "A man sleeps." "Nobody is awake."
    jaxmatch inspect runs/quickstart/runs/RUN --pair "A man sleeps." "Nobody is awake." --output figures

Without --pair it is the pair of the case study in the model's paper (RE2's, where that has none). With --output the weights are
kept as attention.json, and drawn as attention.png and attention.svg.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaxmatch.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from jaxmatch.analysis.attention import PairAttention

HELP = "show the attention weights of a pair"
# Tokens of the other sentence that are named for each token.
NAMED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder: WORKDIR/runs/NAME")
    parser.add_argument("--pair", nargs=2, metavar=("TEXT", "TEXT"), help="the two texts (default: those of the model's paper)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep the weights and their figure here")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> None:
    from jaxmatch.analysis import attention, figures
    from jaxmatch.matcher import load

    for text in arguments.pair or ():
        if not text.strip():
            raise InputError("a text of the pair is empty", remedy="give two texts")
        if not _is_unicode(text):
            raise InputError(f"{text!r} is not UTF-8", remedy="give the texts in UTF-8")
    matcher = load(arguments.run)
    (found,) = attention.attention(matcher, [tuple(arguments.pair or attention.papers_pair(matcher))])
    print(json.dumps(found.as_json(), ensure_ascii=False) if arguments.format == "json" else "\n".join(_lines(found)))
    if arguments.output is not None:
        figures.write(found.as_json(), arguments.output, "attention")


def _is_unicode(text: str) -> bool:
    """Whether it can be written: bytes of a command line that are no UTF-8 arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(pair: PairAttention) -> Iterator[str]:
    yield f"first:  {pair.text_a}"
    yield f"second: {pair.text_b}"
    if pair.prediction.score is None:
        shares = ", ".join(f"{label} {share:.3f}" for label, share in pair.prediction.probabilities.items())
        yield f"answer: {pair.prediction.label} ({shares})"
    else:
        yield f"answer: {pair.prediction.score:.4f}"
    for block in pair.blocks:
        yield ""
        yield f"{block.name}, first over second"
        yield from _looks(pair.tokens_a, pair.tokens_b, block.over_b)
        yield f"{block.name}, second over first"
        yield from _looks(pair.tokens_b, pair.tokens_a, block.over_a.T)


def _looks(tokens: Sequence[str], others: Sequence[str], weights: np.ndarray) -> Iterator[str]:
    """For each token the tokens of the other sentence that it looks at most."""
    width = max(map(len, tokens))
    for token, row in zip(tokens, weights, strict=True):
        most = sorted(range(len(others)), key=lambda other: -row[other])[:NAMED]
        yield f"  {token:<{width}}  " + ", ".join(f"{others[other]} {row[other]:.2f}" for other in most)
