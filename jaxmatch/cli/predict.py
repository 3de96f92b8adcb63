"""Answer new pairs of texts with a trained run.

    jaxmatch predict runs/quickstart/runs/RUN --input pairs.tsv --output answers.jsonl

Input is TSV with a header that names `text_a` and `text_b`, or JSON lines with these keys; other columns and keys are kept.
Output is JSON lines in the order of the input: the input's fields, then "label" and "probabilities", or "score" for a
regression. An input field that has one of these names comes back as "input_label" and so on.

An output file appears whole or not at all. An input file is checked to its end before the first answer; from standard input,
pairs are answered as they come, a few thousand at a time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxmatch.cli.output import open_whole
from jaxmatch.cli.pairs import FORMATS, read_pairs
from jaxmatch.errors import InputError

if TYPE_CHECKING:
    from jaxmatch.matcher import Prediction

HELP = "answer new pairs: labels and probabilities"
WHEN_INTERRUPTED = "interrupted; an output file was left as it was"
ANSWERS = ("label", "probabilities", "score")
# Enough pairs to put those of like length together, few enough to answer soon.
CHUNK = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder: WORKDIR/runs/NAME")
    parser.add_argument("--input", required=True, metavar="FILE", help="TSV or JSON lines; - is standard input")
    parser.add_argument("--output", required=True, metavar="FILE", help="JSON lines; - is standard output")
    parser.add_argument("--format", choices=FORMATS, help="of the input (default: by its name, or by its first line)")


def run(arguments: argparse.Namespace) -> None:
    source = Path(arguments.input)
    if arguments.input != "-" and source.is_file():
        with _opened(source) as lines:
            for _ in read_pairs(lines, source, arguments.format):  # a bad line is found before anything is written
                pass
    from jaxmatch.matcher import load

    matcher = load(arguments.run)
    with _opened(source) if arguments.input != "-" else _standard_input() as lines:
        name = source if arguments.input != "-" else "standard input"
        with open_whole(arguments.output) as output:
            for chunk in _chunks(read_pairs(lines, name, arguments.format)):
                predictions = matcher.predict([(fields["text_a"], fields["text_b"]) for _, fields in chunk])
                for (_, fields), prediction in zip(chunk, predictions, strict=True):
                    output.write(_answer(fields, prediction))
                output.flush()


def _opened(path: Path):
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise InputError("there is no such file", path=path) from None


def _standard_input():
    if sys.stdin is None:
        raise InputError("standard input is closed", remedy="give --input a file, or a pipe")
    # A copy of the descriptor: leaving the `with` block must not close the process's own input.
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb")


def _chunks(pairs: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    pairs = iter(pairs)
    while chunk := list(itertools.islice(pairs, CHUNK)):
        yield chunk


def _answer(fields: dict[str, Any], prediction: Prediction) -> bytes:
    """One line of output."""
    record = {}
    for key, value in fields.items():
        if key in ANSWERS:
            key = f"input_{key}"
            while key in fields:
                key = f"input_{key}"
        record[key] = value
    if prediction.score is None:
        record |= {"label": prediction.label, "probabilities": prediction.probabilities}
    else:
        record |= {"score": prediction.score}
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()
