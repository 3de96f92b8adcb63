"""Predict labels and probabilities of new pairs with a trained run.

    jaxmatch predict runs/quickstart --best --input pairs.tsv
    jaxmatch predict runs/quickstart/runs/RUN --input pairs.csv.gz --columns text_a=question1,text_b=question2
    jaxmatch predict runs/quickstart/runs/RUN --input pairs.parquet --output predictions.jsonl

The input is TSV, CSV, JSON lines or Parquet, each also with gzip, with the columns `text_a` and `text_b`, or those that
--columns names. Other columns are kept. The output is JSON lines in the order of the input: the fields of the input,
then "label" and "probabilities", or "score" for a regression. An input field with one of these names becomes
"input_label" and so on.

An output file appears whole or not at all. All lines of an input file are checked before the first prediction. Only
whether a long text fits the memory is checked later, when its turn comes. From standard input or a pipe, pairs are
predicted in batches as they arrive. A batch is complete at 4,096 pairs, after 50 ms without input, or one second after
its first pair. A line that cannot be used ends the stream with a message that names it; all pairs before it are
predicted. A line has at most 64 MiB. The memory of the device limits the tokens of a pair.
"""

import argparse

from jaxmatch.cli import record_input
from jaxmatch.cli.output import open_whole
from jaxmatch.cli.paths import check_output
from jaxmatch.cli.prediction_queue import PredictionQueue
from jaxmatch.cli.runs import add_run_arguments, chosen_run
from jaxmatch.data.own import EXAMPLE, KNOWN
from jaxmatch.errors import InputError

WHEN_INTERRUPTED = "interrupted; an output file was left as it was"
CHECKS_OUTPUT = True
# The most seconds that a pair waits for others in a stream that never pauses.
LONGEST_WAIT = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    parser.add_argument("--input", required=True, metavar="FILE", help="the pairs; - is standard input")
    parser.add_argument("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")
    example = "text_a=question1,text_b=question2"
    record_input.add_arguments(parser, record_input.FORMATS, example, "from its name or first line")


def run(arguments: argparse.Namespace) -> None:
    source = record_input.source_of(arguments.input)
    check_output(arguments.output, source, arguments.run)
    folder = chosen_run(arguments)
    # --columns takes all parts of training data, so that the same text can be given. Label and group are not needed.
    named = record_input.known_columns(arguments.columns, KNOWN, EXAMPLE)
    columns = named["text_a"], named["text_b"]
    given = source, dict(zip(columns, ("text_a", "text_b"))), arguments.format, arguments.quoted
    is_file = record_input.is_file(source)
    with record_input.naming_rows(source, arguments.format):
        if is_file:
            for _ in record_input.records(*given):  # an error is found before anything is written
                pass
        from jaxmatch.inference.matcher import load

        matcher = load(folder)
        with open_whole(arguments.output) as output:
            answers = PredictionQueue(matcher, source, output, None if is_file else LONGEST_WAIT, columns)
            try:
                for number, fields in record_input.records(*given, None if is_file else answers.write):
                    answers.add(number, fields)
            except InputError:
                answers.write()  # the pairs before the one that is wrong
                raise
            answers.write()
