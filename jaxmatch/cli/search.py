"""Find the stored texts that match a query, among many.

    jaxmatch search runs/quora --best --texts questions.txt --query "how do I sleep better"
    jaxmatch search runs/quora/runs/RUN --texts questions.txt --save questions.index
    jaxmatch search runs/quora/runs/RUN --index questions.index --input queries.txt --top-k 5

A prefilter chooses candidates, which the model ranks: `vectors` compares mean word vectors, `bm25` (`pip install
'jaxmatch[search]'`) the words themselves. --save keeps the index, which --index reads instead of the texts.

Texts and queries are one a line, or in a format of `jaxmatch rank`. The output is JSON lines like those of `jaxmatch
rank`, for each query the best first; "line" is that of the text. Queries from standard input are answered as they
arrive. A model with more than two labels needs --label.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from jaxmatch.cli.launching import positive
from jaxmatch.cli.output import open_whole
from jaxmatch.cli.paths import check_output, check_output_folder, nonempty_path
from jaxmatch.cli.rank import add_label_argument, answer, checked_query
from jaxmatch.cli.record_input import source_of
from jaxmatch.cli.runs import add_run_arguments, chosen_run
from jaxmatch.cli.text_input import add_arguments as add_input_arguments
from jaxmatch.cli.text_input import all_texts, layout_of, texts_of
from jaxmatch.errors import InputError

CHECKS_OUTPUT = True
# The names in jaxmatch/inference/search.py.
PREFILTERS = ("vectors", "bm25")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    texts = parser.add_mutually_exclusive_group(required=True)
    texts.add_argument("--texts", metavar="FILE", help="the texts to search; - is standard input")
    texts.add_argument("--index", type=Path, metavar="DIR", help="an index that --save made")
    parser.add_argument("--prefilter", choices=PREFILTERS, help="method that finds candidates (default: vectors)")
    parser.add_argument("--save", type=nonempty_path, metavar="DIR", help="keep the index of the texts here")
    queries = parser.add_mutually_exclusive_group()
    queries.add_argument("--query", metavar="TEXT", help="what to search for, the first text of each pair")
    queries.add_argument("--input", metavar="FILE", help="queries; - is standard input")
    parser.add_argument("--top-k", type=positive, default=10, metavar="N", help="how many to print for each query")
    parser.add_argument(
        "--candidates",
        type=positive,
        default=100,
        metavar="N",
        help="how many the model ranks for each query, or --top-k if that is more",
    )
    add_label_argument(parser)
    add_input_arguments(parser)
    parser.add_argument("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")


def run(arguments: argparse.Namespace) -> None:
    if arguments.query is None and arguments.input is None and arguments.save is None:
        raise InputError("there is nothing to search for", remedy="give --query or --input, or --save an index")
    if arguments.index is not None and (arguments.save is not None or arguments.prefilter is not None):
        raise InputError(
            "--index cannot be combined with --prefilter or --save", remedy="give --texts to make another index"
        )
    option = _first_given(arguments, "format", "columns", "quoted")  # these apply only to reading a file
    if option and arguments.texts is None and arguments.input is None:
        raise InputError(
            f"{option} applies only to a file, but no file is read", remedy="give --texts or --input, or leave it out"
        )
    if arguments.texts == "-" == arguments.input:
        raise InputError("texts and queries cannot both come from standard input", remedy="give one of them as a file")
    sources = [source_of(name) for name in (arguments.texts, arguments.input) if name is not None]
    _check_layouts(sources, arguments)
    check_output(arguments.output, *sources, arguments.index, arguments.run)
    check_output_folder(arguments.save, "--save")
    folder = chosen_run(arguments)
    if arguments.query is not None:
        checked_query(arguments.query)
    if arguments.texts is not None:
        lines, texts = all_texts(source_of(arguments.texts), arguments, alone=arguments.input is None)
    from jaxmatch.inference.matcher import load
    from jaxmatch.inference.search import SearchIndex, matched_label

    matcher = load(folder)
    if arguments.query is not None or arguments.input is not None:
        matched_label(matcher, arguments.label)  # a wrong label is found before the work is done
    if arguments.index is None:
        index = SearchIndex(matcher, texts, arguments.prefilter or PREFILTERS[0], lines=lines)
    else:
        index = matcher.load_index(arguments.index)
    if arguments.save is not None:
        index.save(arguments.save)
    if arguments.query is None and arguments.input is None:
        return
    with open_whole(arguments.output) as output:
        for query in _queries(arguments):
            candidates = max(arguments.candidates, arguments.top_k)
            found = index.search(query, arguments.top_k, candidates, arguments.label)
            for place, one in enumerate(found, start=1):
                output.write(answer(query, place, index.lines[one.index], one.text, one.score))
            output.flush()


def _first_given(arguments: argparse.Namespace, *names: str) -> str:
    """Returns the first of these options that is given, such as "--columns", or ""."""
    return next((f"--{name}" for name in names if getattr(arguments, name)), "")


def _check_layouts(sources: Sequence[Path | str], arguments: argparse.Namespace) -> None:
    """Checks that one of the inputs has the columns that --columns names, or the quotation marks of --quoted.

    Raises:
      InputError: all inputs are plain text.
    """
    option = _first_given(arguments, "columns", "quoted")
    if option and all(layout_of(source, arguments, alone=len(sources) == 1) == "text" for source in sources):
        raise InputError(f"{option} does not apply to plain text", remedy="give --format, or leave it out")


def _queries(arguments: argparse.Namespace) -> Iterator[str]:
    if arguments.query is not None:
        yield arguments.query
    else:
        for _, query in texts_of(source_of(arguments.input), arguments, alone=arguments.texts is None):
            yield query
