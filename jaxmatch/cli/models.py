"""Commands for trained models: predict, rank, search, evaluate, calibrate, export."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from jaxmatch.cli.common import (
    FILE_LAYOUT,
    SPLITS,
    add_directory_argument,
    add_file_argument,
    add_layout_arguments,
    add_run_arguments,
    check_output,
    check_output_folder,
    chosen_run,
    nonempty_path,
    note,
    open_whole,
    positive,
    requested_pairs,
    show,
)
from jaxmatch.cli.streams import (
    RECORD_FORMATS,
    PredictionQueue,
    add_record_arguments,
    add_text_arguments,
    all_texts,
    is_file,
    known_columns,
    layout_of,
    records,
    source_of,
    texts_of,
)
from jaxmatch.errors import InputError, count_text, printable, printable_json, without_nan

# The most seconds that a pair waits for others in a stream that never pauses.
LONGEST_WAIT = 1.0


def add_predict_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    parser.add_argument("--input", required=True, metavar="FILE", help="the pairs; - is standard input")
    parser.add_argument("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")
    example = "text_a=question1,text_b=question2"
    add_record_arguments(parser, RECORD_FORMATS, example, "from its name or first line")


def predict(arguments: argparse.Namespace) -> None:
    """Predict labels and probabilities of new pairs with a trained run.

        jaxmatch predict runs/quickstart --best --input pairs.tsv
        jaxmatch predict runs/quickstart/runs/RUN --input pairs.csv.gz --columns text_a=question1,text_b=question2
        jaxmatch predict runs/quickstart/runs/RUN --input pairs.parquet --output predictions.jsonl

    The input is TSV, CSV, JSON lines or Parquet, each also with gzip, with the columns `text_a` and `text_b`. They have
    the names that they had in training, unless --columns says otherwise. Other columns are kept. The output is JSON
    lines in the order of the input: the fields of the input, then "label" and "probabilities", or "score" for a
    regression. An input field with one of these names becomes "input_label" and so on.

    An output file appears whole or not at all. All lines of an input file are checked before the first prediction. Only
    whether a long text fits the memory is checked later, when its turn comes. From standard input or a pipe, pairs are
    predicted in batches as they arrive. A batch is complete at 4,096 pairs, after 50 ms without input, or one second
    after its first pair. A line that cannot be used ends the stream with a message that names it; all pairs before it
    are predicted. A line has at most 64 MiB. The memory of the device limits the tokens of a pair.
    """
    from jaxmatch.data.own import EXAMPLE, KNOWN

    source = source_of(arguments.input)
    check_output(arguments.output, source, arguments.run)
    folder = chosen_run(arguments)
    from jaxmatch.inference.matcher import load

    matcher = load(folder)
    # --columns takes all parts of training data, so that the same text can be given. Label and group are not needed.
    named = known_columns(arguments.columns or matcher.config.get("data", {}).get("columns", ""), KNOWN, EXAMPLE)
    columns = named["text_a"], named["text_b"]
    given = source, dict(zip(columns, ("text_a", "text_b"))), arguments.format, arguments.quoted
    whole = is_file(source)
    if whole:
        for _ in records(*given):  # an error is found before anything is written
            pass
    with open_whole(arguments.output) as output:
        answers = PredictionQueue(matcher, source, output, None if whole else LONGEST_WAIT, columns)
        try:
            for number, fields in records(*given, None if whole else answers.write):
                answers.add(number, fields)
        except InputError:
            answers.write()  # the pairs before the one that is wrong
            raise
        answers.write()


def add_rank_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    parser.add_argument("--query", required=True, metavar="TEXT", help="the first text of each pair")
    parser.add_argument("--input", required=True, metavar="FILE", help="the texts to order; - is standard input")
    parser.add_argument("--top-k", type=positive, metavar="N", help="how many to print (default: all)")
    add_label_argument(parser)
    add_text_arguments(parser)
    parser.add_argument("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")


def rank(arguments: argparse.Namespace) -> None:
    """Order texts by how well they match a query.

        jaxmatch rank runs/quora --best --query "who wrote it" --input answers.txt
        head -100 answers.txt | jaxmatch rank runs/quora/runs/RUN --query "who wrote it" --input - --top-k 3

    The input is one text per line, or CSV, TSV, JSON lines or Parquet with the column "text", or the one that --columns
    names. Each may be packed with gzip. The output is JSON lines, the best first: "query", "rank" from 1 on, "line" of
    the input (of Parquet the row, from 0), "text", and "score": the probability of the label that means a match, or the
    predicted number of a regression. A model with more than two labels needs --label.
    """
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


# The names in jaxmatch/inference/search.py.
PREFILTERS = ("vectors", "bm25")


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
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
    add_text_arguments(parser)
    parser.add_argument("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")


def search(arguments: argparse.Namespace) -> None:
    """Find the stored texts that match a query, among many.

        jaxmatch search runs/quora --best --texts questions.txt --query "how do I sleep better"
        jaxmatch search runs/quora/runs/RUN --texts questions.txt --save questions.index
        jaxmatch search runs/quora/runs/RUN --index questions.index --input queries.txt --top-k 5

    A prefilter chooses candidates, which the model ranks: `vectors` compares mean word vectors, `bm25` (`pip install
    'jaxmatch[search]'`) the words themselves. --save keeps the index, which --index reads instead of the texts.

    Texts and queries are one a line, or in a format of `jaxmatch rank`. The output is JSON lines like those of
    `jaxmatch rank`, for each query the best first; "line" is that of the text. Queries from standard input are answered
    as they arrive. A model with more than two labels needs --label.
    """
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
    from jaxmatch.inference.search import SearchIndex

    matcher = load(folder)
    if arguments.query is not None or arguments.input is not None:
        matcher.matched_label(arguments.label)  # a wrong label is found before the work is done
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


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--split", choices=SPLITS, default="test", help="split of the data set it was trained on (default: test)"
    )
    add_file_argument(what, "score this file instead: as training data, with labels")
    add_layout_arguments(parser)
    add_directory_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def evaluate(arguments: argparse.Namespace) -> None:
    """Score a trained run on its data set, or on a file of your own.

        jaxmatch evaluate runs/quickstart/runs/RUN --split dev
        jaxmatch evaluate runs/quickstart/runs/RUN --input pairs.tsv
        jaxmatch evaluate runs/quickstart/runs/RUN --input pairs.csv.gz --columns text_a=question1,text_b=question2

    If the run is calibrated (`jaxmatch calibrate`), there are two columns, without and with its temperature and
    threshold.

    A file has a format of training data: CSV, TSV, JSON lines or Parquet, each also with gzip. Its columns and labels
    have the names that they had in training, unless --columns and --labels say otherwise.
    """
    from jaxmatch.analysis.evaluate import label_numbers, pairs_of, score_outputs
    from jaxmatch.inference.matcher import load

    folder = chosen_run(arguments)
    matcher = load(folder)
    split, name = requested_pairs(arguments, folder, matcher, arguments.split)
    numbers = label_numbers(matcher, split)  # a wrong label is found before the work is done
    logits = matcher.logits(pairs_of(split))
    scores, calibrated = score_outputs(matcher, split, logits), None
    if matcher.calibration is not None:
        from jaxmatch.inference.calibration import Calibration, quality

        decisive = matcher.calibration.decisive(logits, matcher.labels)
        calibrated = score_outputs(matcher, split, decisive) | quality(
            matcher.calibration, logits, numbers, matcher.labels
        )
        as_trained = Calibration(positive=matcher.calibration.positive)
        scores |= quality(as_trained, logits, numbers, matcher.labels)
    if arguments.format == "json":
        found = {"run": str(folder), "data": name, "pairs": len(split), "scores": without_nan(scores)}
        show(printable_json(found if calibrated is None else found | {"calibrated": without_nan(calibrated)}))
        return
    show(f"{printable(name)}: {count_text(len(split), 'pair')}")
    if calibrated is not None:
        show_before_and_after(scores, calibrated)
        return
    width = max(map(len, scores))
    for key, value in scores.items():
        show(f"{key:<{width}}  {value:.4f}")


def add_calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--choose", choices=("accuracy", "f1"), help="score that the threshold maximizes (default: accuracy)"
    )
    what.add_argument(
        "--precision",
        type=float,
        metavar="P",
        help="choose the threshold with the highest recall whose precision is at least P",
    )
    what.add_argument("--remove", action="store_true", help="remove the run's calibration")
    parser.add_argument(
        "--positive", metavar="LABEL", help="the label that the threshold is for (default: the second of two)"
    )
    add_file_argument(parser, "pairs with labels to choose on (default: dev)")
    add_layout_arguments(parser)
    add_directory_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def calibrate(arguments: argparse.Namespace) -> None:
    """Choose the temperature of a run's probabilities, and the threshold between two labels, on dev.

        jaxmatch calibrate runs/quora/runs/RUN
        jaxmatch calibrate runs/quora --best --choose f1
        jaxmatch calibrate runs/quora/runs/RUN --precision 0.95 --positive duplicate

    The temperature maximizes the likelihood. A pair gets the positive label if its probability reaches the threshold; a
    model with more than two labels has none. Both are kept in the run's model folder, as calibration.json. From then on
    `predict` uses them; `jaxmatch evaluate` shows the scores with and without them. --remove removes them.
    """
    from jaxmatch.inference import model_folder
    from jaxmatch.inference.calibration import FILE

    folder = chosen_run(arguments)
    if arguments.remove:
        for name in ("input", "positive", "data_directory", *FILE_LAYOUT):
            if getattr(arguments, name) is not None:
                option = name.replace("_", "-")
                raise InputError(f"--remove cannot be combined with --{option}", remedy="leave it out")
        path = model_folder.find(folder) / FILE
        if not path.exists():
            raise InputError("there is no calibration", path=path)
        path.unlink()
        return
    from jaxmatch.analysis.evaluate import label_numbers, pairs_of
    from jaxmatch.inference.calibration import chosen_calibration
    from jaxmatch.inference.matcher import load

    matcher = load(folder)
    if matcher.task == "regression":
        raise InputError("a regression has no probabilities to calibrate", path=folder)
    if arguments.precision is not None and not 0 < arguments.precision <= 1:
        raise InputError(f"--precision is {arguments.precision:g}", remedy="give a number above 0, at most 1, as 0.95")
    split, name = requested_pairs(arguments, folder, matcher, "dev")
    numbers = label_numbers(matcher, split)
    found = chosen_calibration(
        matcher.logits(pairs_of(split)),
        numbers,
        matcher.labels,
        objective=arguments.choose or ("accuracy" if arguments.precision is None else "precision"),
        precision=arguments.precision,
        positive=arguments.positive,
        data=name,
    )
    path = model_folder.save_calibration(folder, found)
    if arguments.format == "json":
        show(printable_json(without_nan({"run": str(folder), "file": str(path)} | vars(found))))
        return
    show(f"{printable(name)}: {count_text(len(split), 'pair')}")
    show(f"temperature  {found.temperature:.4f}")
    if found.threshold is not None:
        show(f"threshold    {found.threshold:.4f}  (of {printable(found.positive)}, chosen for {found.objective})")
    show_before_and_after(found.before, found.after)


def show_before_and_after(before: dict[str, float], after: dict[str, float]) -> None:
    """Prints the scores without and with a calibration in two columns."""
    width = max(map(len, before))
    show(f"{'':<{width}}  as trained  calibrated")
    for key, value in before.items():
        show(f"{key:<{width}}  {value:>10.4f}  {after[key]:>10.4f}")


EXPORT_FORMATS = ("stablehlo", "onnx", "safetensors")


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    parser.add_argument("--format", choices=EXPORT_FORMATS, required=True, help="format of the export")
    parser.add_argument("--output", type=nonempty_path, metavar="DIR", required=True, help="folder of the export")


def export(arguments: argparse.Namespace) -> None:
    """Export a run for programs without this package.

        jaxmatch export runs/quickstart/runs/RUN --format stablehlo --output exported
        jaxmatch export runs/quickstart --best --format onnx --output exported

    `stablehlo` writes a program that `jax.export` runs on CPUs, GPUs and TPUs. `onnx` writes one for ONNX Runtime; it
    needs `pip install 'jaxmatch[onnx]'` and `pip install --no-deps 'jax2onnx>=0.17.1,<0.18'`. Both take any number of
    pairs of any length. `safetensors` writes the weights alone. Tokenizer, vocabulary and word vectors are written to
    the same folder, in plain files. docs/how_to/export.md shows how to run an export.
    """
    check_output_folder(arguments.output)
    folder = chosen_run(arguments)
    from jaxmatch.inference.export import export
    from jaxmatch.inference.matcher import load

    export(load(folder), arguments.output, arguments.format)
    note(f"note: wrote {arguments.output}")
