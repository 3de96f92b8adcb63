"""Predict labels and probabilities of new pairs with a trained run.

    jaxmatch predict runs/quickstart --best --input pairs.tsv
    jaxmatch predict runs/quickstart/runs/RUN --input pairs.tsv --output predictions.jsonl

The input is TSV with a header that names `text_a` and `text_b`, or JSON lines with these keys. Other columns and keys
are kept. The output is JSON lines in the order of the input: the fields of the input, then "label" and "probabilities",
or "score" for a regression. An input field with one of these names becomes "input_label" and so on.

An output file appears whole or not at all. An input file is checked to its end before the first prediction. From
standard input or a pipe, pairs are predicted as they arrive: 4,096 at once, or those that are there after 50
milliseconds of silence, or when the first of them has waited for a second. A line that cannot be used ends the stream
with a message that names it; all pairs before it are predicted. A line has at most 64 MiB. The memory of the device
limits the tokens of a pair.
"""

import argparse
from pathlib import Path

from jaxmatch.cli.answers import Answers
from jaxmatch.cli.output import open_whole
from jaxmatch.cli.pair_input import FORMATS, read_pairs
from jaxmatch.cli.runs import add_run_arguments, chosen_run
from jaxmatch.cli.stream import STANDARD_INPUT, lines_of, opened
from jaxmatch.errors import InputError

WHEN_INTERRUPTED = "interrupted; an output file was left as it was"
CHECKS_OUTPUT = True
# Seconds that a pair of a stream that never pauses waits for others.
LONGEST_WAIT = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    parser.add_argument("--input", required=True, metavar="FILE", help="TSV or JSON lines; - is standard input")
    parser.add_argument("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")
    parser.add_argument("--format", choices=FORMATS, help="format of the input (default: from its name or first line)")


def run(arguments: argparse.Namespace) -> None:
    folder = chosen_run(arguments)
    source = STANDARD_INPUT if arguments.input == "-" else Path(arguments.input)
    is_file = isinstance(source, Path) and source.is_file()
    if is_file:
        with opened(source) as descriptor:
            for _ in read_pairs(
                lines_of(descriptor, source), source, arguments.format
            ):  # found before anything is written
                pass
    from jaxmatch.inference.matcher import load

    matcher = load(folder)
    with opened(source) as descriptor, open_whole(arguments.output) as output:
        answers = Answers(matcher, source, output, None if is_file else LONGEST_WAIT)
        lines = lines_of(descriptor, source, None if is_file else answers.write)
        try:
            for number, fields in read_pairs(lines, source, arguments.format):
                answers.add(number, fields)
        except InputError:
            answers.write()  # the pairs before the one that is wrong
            raise
        answers.write()
