"""Order texts by how well they match a query.

    jaxmatch rank runs/quora --best --query "who wrote it" --input answers.txt
    head -100 answers.txt | jaxmatch rank runs/quora/runs/RUN --query "who wrote it" --input - --top-k 3

The input is one text per line, or CSV, TSV, JSON lines or Parquet with the column "text", or the one that --columns
names. Each may be packed with gzip. The output is JSON lines, the best first: "query", "rank" from 1 on, "line" of the
input (of Parquet the row, from 0), "text", and "score": the probability of the label that means a match, or the
predicted number of a regression. A model with more than two labels needs --label.
"""

import argparse

from jaxmatch.cli.launching import positive
from jaxmatch.cli.output import open_whole
from jaxmatch.cli.paths import check_output
from jaxmatch.cli.record_input import source_of
from jaxmatch.cli.runs import add_run_arguments, chosen_run
from jaxmatch.cli.text_input import add_arguments as add_input_arguments
from jaxmatch.cli.text_input import all_texts
from jaxmatch.errors import InputError
from jaxmatch.printable import printable_json

CHECKS_OUTPUT = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    parser.add_argument("--query", required=True, metavar="TEXT", help="the first text of each pair")
    parser.add_argument("--input", required=True, metavar="FILE", help="the texts to order; - is standard input")
    parser.add_argument("--top-k", type=positive, metavar="N", help="how many to print (default: all)")
    add_label_argument(parser)
    add_input_arguments(parser)
    parser.add_argument("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")


def run(arguments: argparse.Namespace) -> None:
    source = source_of(arguments.input)
    check_output(arguments.output, source, arguments.run)
    folder, query = chosen_run(arguments), checked_query(arguments.query)
    lines, texts = all_texts(source, arguments)
    from jaxmatch.inference.matcher import load

    found = load(folder).rank(query, texts, arguments.top_k, arguments.label)
    with open_whole(arguments.output) as output:
        for place, one in enumerate(found, start=1):
            output.write(answer(query, place, lines[one.index], one.text, one.score))


def answer(query: str, place: int, line: int, text: str, score: float) -> bytes:
    """Returns the line of output for a text."""
    values = {"query": query, "rank": place, "line": line, "text": text, "score": score}
    return f"{printable_json(values)}\n".encode()


def add_label_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --label, an option of `rank` and `search`."""
    parser.add_argument(
        "--label",
        metavar="LABEL",
        help="the label that means a match (default: the positive label of a calibrated run; else the second of two)",
    )


def checked_query(text: str) -> str:
    """Checks a query of the command line, and returns it.

    Raises:
      InputError: the query is empty or not UTF-8.
    """
    if not text.strip():
        raise InputError("the query is empty", remedy="give a text")
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of a command line that are not UTF-8 arrive as lone surrogates
        raise InputError("the query is not UTF-8", remedy="give it in UTF-8") from None
    return text
