"""Commands for trained models, and the pairs and texts that they read."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import jaxmatch
from jaxmatch.cli import common
from jaxmatch.data import pairs as data
from jaxmatch.errors import InputError, NotFinite, count_text, printable_json, without_nan

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher, Prediction
    from jaxmatch.inference.search import Candidate

STANDARD_INPUT = "standard input"  # its name in error messages
FORMATS = ("tsv", "csv", "jsonl", "parquet")
SUFFIXES = {".json": "jsonl", **{f".{name}": name for name in FORMATS}}
MAX_LINE_BYTES, BLOCK_BYTES = 2**26, 2**20
CHUNK = 4096  # pairs predicted together: enough to batch pairs of similar length, few enough to be done soon
PREFILTERS = ("vectors", "bm25")  # the names in jaxmatch/inference/search.py
EXPORT_FORMATS = ("stablehlo", "onnx", "safetensors")


def source_of(text: str) -> Path | str:
    """Parses an input for argparse: a file, or `-` for standard input."""
    return STANDARD_INPUT if text == "-" else common.path_of(text)


def add_record_arguments(parser: argparse.ArgumentParser, formats: Sequence[str], example: str, default: str) -> None:
    """Adds --input-format, --columns, --quoted and --output."""
    parser.add_argument("--input-format", choices=formats, help=f"format of the input (default: {default})")
    parser.add_argument("--columns", default="", metavar="A=B,...", help=f"columns with other names: {example}")
    parser.add_argument("--quoted", action="store_true", help="TSV with quotation marks, as in CSV")
    parser.add_argument("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")


def lines_of(descriptor: int, name: Path | str, on_wait: Callable[[], None] = lambda: None) -> Iterator[bytes]:
    r"""Yields the lines of a pipe or a terminal, each with its b"\n". Calls `on_wait` before it waits for more."""
    block, begun, number = b"begin", b"", 1
    while block:
        on_wait()
        select.select([descriptor], [], [])  # the descriptor may be one that does not wait
        block = os.read(descriptor, BLOCK_BYTES)
        *lines, begun = (begun + block).split(b"\n")
        yield from (line + b"\n" for line in lines)
        number += len(lines)
        if len(begun) > MAX_LINE_BYTES:
            problem = f"the line has more than {MAX_LINE_BYTES:,} bytes"
            raise InputError(problem, path=name, line=number)
    if begun:
        yield begun


def lines_in(source: Path | str, on_wait: Callable[[], None] = lambda: None) -> Iterator[tuple[int, str]]:
    """Yields (line number, line) for a file, also one packed with gzip, or for a stream as its lines arrive."""
    if isinstance(source, Path) and source.is_file():
        yield from data.read_lines(source)
    elif isinstance(source, Path):
        with open(source, "rb", buffering=0) as file:
            yield from data.decode_lines(lines_of(file.fileno(), source, on_wait), source)
    else:
        try:
            descriptor = sys.stdin.fileno()
        except (AttributeError, ValueError):  # an io.UnsupportedOperation, in a notebook, is a ValueError
            raise InputError("standard input is closed", remedy="give --input a file, or a pipe") from None
        yield from data.decode_lines(lines_of(descriptor, source, on_wait), source)


def records(
    source: Path | str,
    parts: Sequence[str],
    layout: str | None = None,
    quoted: bool = False,
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, fields) for each record. Values that JSON cannot hold become texts or, as NaN does, null.

    Arguments:
      source: the input, as `source_of` returns it. Rows of Parquet are counted from 0.
      parts: columns that each record must have, with texts that are not empty.
      layout: one of `FORMATS`; None: the format by the file's name, or else JSON if the first line has a brace.
      quoted: whether TSV is written with quotation marks.
      on_wait: as in `lines_of`, for a stream.
    """
    layout = layout or format_of(source)
    lines = lines_in(source, on_wait)
    if layout is None:
        first = next(data.without_blank(lines), (1, ""))
        layout = "jsonl" if first[1].lstrip().startswith("{") else "tsv"
        lines = itertools.chain([first], lines)
    found: Iterable[tuple[int, Any]]
    if layout == "parquet":
        rows = data.read_parquet(Path(source), parts)[1]
        found = ((number, json.loads(json.dumps(row, default=str))) for number, row in rows)
    elif layout == "jsonl":
        found = ((number, data.object_of(line, source, number, parts)) for number, line in data.without_blank(lines))
    else:
        quoted_by = "," if layout == "csv" else "\t" if quoted else None
        names, found = data.read_table(source, parts, quoted_by=quoted_by, lines=lines)
        data.require_columns(names, list(filter(None, names)), source, 1)  # all of them go to the output
    for number, fields in found:
        try:
            if empty := [key for key in parts if not data.text_of(fields, key).strip()]:
                raise InputError(f"{empty[0]} is empty")
        except InputError as error:
            raise error.at(source, number) from None
        yield number, without_nan(fields)


def format_of(source: Path | str) -> str | None:
    """Returns the format by the ending of a file's name, ignoring .gz; None if the ending is unknown."""
    return SUFFIXES.get(Path(str(source).lower().removesuffix(".gz")).suffix)


def add_predict_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    parser.add_argument("--input", type=source_of, required=True, metavar="FILE", help="the pairs; - is standard input")
    add_record_arguments(parser, FORMATS, "text_a=question1,text_b=question2", "from its name or first line")


def predict(arguments: argparse.Namespace) -> None:
    """Predict labels and probabilities of new pairs with a trained run.

        jaxmatch predict runs/quickstart --best --input pairs.tsv
        jaxmatch predict runs/quickstart/runs/RUN --input pairs.parquet --output predictions.jsonl

    The input is TSV, CSV, JSON lines or Parquet, each also with gzip. The columns `text_a` and `text_b` have the names
    that they had in training, unless --columns says otherwise. The output is JSON lines in the order of the input: the
    fields of the input, then "label" and "probabilities", or "score" for a regression. An input field with one of these
    names becomes "input_label" and so on.

    All lines of an input file are checked before the first prediction, and an output file appears whole or not at all.
    From standard input or a pipe, pairs are predicted as they arrive, at most 4,096 together. A line that cannot be
    used, such as one of more than 64 MiB, ends the stream; all pairs before it are predicted.
    """
    from jaxmatch.data.own import EXAMPLE, KNOWN, columns_of

    source = arguments.input
    common.check_output(arguments.output, source)
    matcher = jaxmatch.load(common.chosen_run(arguments))
    # --columns takes all parts of training data, so that the same text can be given. Label and group are not needed.
    named = columns_of(arguments.columns or matcher.config.get("data", {}).get("columns", ""), KNOWN, EXAMPLE)
    parts = [named.get(name, name) for name in ("text_a", "text_b")]
    given = source, parts, arguments.input_format, arguments.quoted
    if isinstance(source, Path) and source.is_file():
        for _ in records(*given):  # an error is found before anything is written
            pass
    waiting: list[tuple[int, dict[str, Any]]] = []
    with common.open_whole(arguments.output) as output:

        def write() -> None:
            pairs = [(line, tuple(fields[name] for name in parts)) for line, fields in waiting]
            try:
                for (_, fields), prediction in zip(waiting, _predictions(matcher, pairs, source), strict=True):
                    output.write(_answer(fields, prediction))
            finally:
                waiting.clear()
                output.flush()

        try:
            for record in records(*given, write):
                waiting.append(record)
                if len(waiting) >= CHUNK:
                    write()
        except InputError:
            write()  # the pairs before the one that is wrong
            raise
        write()


def _predictions(matcher: Matcher, pairs: Sequence[tuple[int, Any]], source: Path | str) -> Iterator[Prediction]:
    """Yields the predictions of (line, texts). If a pair cannot be predicted, those before it are yielded first."""
    from jaxmatch.devices import is_out_of_memory

    try:
        found = matcher.predict([texts for _, texts in pairs]) if pairs else []
    except (NotFinite, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not is_out_of_memory(error):
            raise
        if len(pairs) == 1:
            problem, remedy = "out of device memory on this pair", "shorten its texts, or free device memory"
            if isinstance(error, NotFinite):
                problem, remedy = "the model's output for this pair is not finite", "train the model again"
            raise InputError(problem, path=source, line=pairs[0][0], remedy=remedy) from None
        yield from _predictions(matcher, pairs[: len(pairs) // 2], source)
        yield from _predictions(matcher, pairs[len(pairs) // 2 :], source)
    else:
        yield from found


def _answer(fields: Mapping[str, Any], prediction: Prediction) -> bytes:
    """Returns the line of output for a pair: its fields and the prediction, whose names no field keeps."""
    record = {}
    for key, value in fields.items():
        name = key
        while name in ("label", "probabilities", "score") or (name != key and name in fields):
            name = f"input_{name}"
        record[name] = value
    if prediction.score is None:
        record |= {"label": prediction.label, "probabilities": prediction.probabilities}
    else:
        record["score"] = prediction.score
    return f"{printable_json(record)}\n".encode()


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --label and the options of `texts_of`."""
    label = "the label that means a match (default: the positive label of a calibrated run; else the second of two)"
    parser.add_argument("--label", metavar="LABEL", help=label)
    default = "from its name, or else one text per line; with --columns or --quoted TSV"
    add_record_arguments(parser, ("text", *FORMATS), "text=question", default)


def texts_of(source: Path | str, arguments: argparse.Namespace) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) for each text of an input. Rows of Parquet are counted from 0."""
    from jaxmatch.data.own import columns_of

    has_columns = bool(arguments.columns or arguments.quoted)
    layout = arguments.input_format or format_of(source) or ("tsv" if has_columns else "text")
    if layout != "text":
        column = columns_of(arguments.columns, ("text",), "text=question").get("text", "text")
        found = records(source, [column], layout, arguments.quoted)
        yield from ((number, fields[column]) for number, fields in found)
    elif has_columns:
        raise InputError("plain text has no columns and no quotation marks", remedy="leave out --input-format text")
    else:
        yield from ((number, text) for number, text in lines_in(source) if text.strip())


def all_texts(source: Path | str, arguments: argparse.Namespace) -> tuple[list[int], list[str]]:
    """Returns the line numbers and the texts of a whole input (`texts_of`), of which there must be some."""
    found = list(texts_of(source, arguments))
    if not found:
        raise InputError("holds no texts", path=source)
    return [number for number, _ in found], [text for _, text in found]


def add_rank_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    add = parser.add_argument
    add("--query", type=common.text_of, required=True, metavar="TEXT", help="the first text of each pair")
    add("--input", type=source_of, required=True, metavar="FILE", help="the texts to order; - is standard input")
    add("--top-k", type=common.whole_number, metavar="N", help="how many to print (default: all)")
    add_text_arguments(parser)


def rank(arguments: argparse.Namespace) -> None:
    """Order texts by how well they match a query.

        jaxmatch rank runs/quora --best --query "who wrote it" --input answers.txt
        head -100 answers.txt | jaxmatch rank runs/quora/runs/RUN --query "who wrote it" --input - --top-k 3

    The input is one text per line, or CSV, TSV, JSON lines or Parquet with the column "text", or the one that --columns
    names. Each may be packed with gzip. The output is JSON lines, the best first: "query", "rank" from 1 on, "line" of
    the input (of Parquet the row, from 0), "text", and "score": the probability of the label that means a match, or the
    predicted number of a regression. A model with more than two labels needs --label.
    """
    common.check_output(arguments.output, arguments.input)
    folder = common.chosen_run(arguments)
    lines, texts = all_texts(arguments.input, arguments)
    found = jaxmatch.load(folder).rank(arguments.query, texts, arguments.top_k, arguments.label)
    with common.open_whole(arguments.output) as output:
        _write_ranking(output, arguments.query, found, lines)


def _write_ranking(output: BinaryIO, query: str, found: Iterable[Candidate], lines: Sequence[int]) -> None:
    for place, one in enumerate(found, start=1):
        values = {"query": query, "rank": place, "line": lines[one.index], "text": one.text, "score": one.score}
        output.write(f"{printable_json(values)}\n".encode())
    output.flush()


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    texts = parser.add_mutually_exclusive_group(required=True)
    texts.add_argument("--texts", type=source_of, metavar="FILE", help="the texts to search; - is standard input")
    texts.add_argument("--index", type=Path, metavar="DIR", help="an index that --save made")
    add = parser.add_argument
    add("--prefilter", choices=PREFILTERS, help="method that finds candidates (default: vectors)")
    add("--save", type=common.folder_of, metavar="DIR", help="keep the index of the texts here")
    queries = parser.add_mutually_exclusive_group()
    query = "what to search for, the first text of each pair"
    queries.add_argument("--query", type=common.text_of, metavar="TEXT", help=query)
    queries.add_argument("--input", type=source_of, metavar="FILE", help="queries; - is standard input")
    add("--top-k", type=common.whole_number, default=10, metavar="N", help="how many to print for each query")
    candidates = "how many the model ranks for each query, or --top-k if that is more"
    add("--candidates", type=common.whole_number, default=100, metavar="N", help=candidates)
    add_text_arguments(parser)


def search(arguments: argparse.Namespace) -> None:
    """Find the stored texts that match a query, among many.

        jaxmatch search runs/quora --best --texts questions.txt --query "how do I sleep better" --save questions.index
        jaxmatch search runs/quora/runs/RUN --index questions.index --input queries.txt --top-k 5

    A prefilter chooses candidates, which the model ranks: `vectors` compares mean word vectors, `bm25` (`pip install
    'jaxmatch[search]'`) the words themselves. --save keeps the index, which --index reads instead of the texts. Texts,
    queries, output and --label are those of `jaxmatch rank`. Queries from standard input are answered as they arrive.
    """
    from jaxmatch.inference.search import SearchIndex

    is_searched = arguments.query is not None or arguments.input is not None
    if not is_searched and arguments.save is None:
        raise InputError("there is nothing to search for", remedy="give --query or --input, or --save an index")
    if arguments.index is not None and (arguments.save is not None or arguments.prefilter is not None):
        raise InputError("--index cannot be combined with --prefilter or --save", remedy="give --texts instead")
    if arguments.texts == STANDARD_INPUT == arguments.input:
        raise InputError("texts and queries cannot both come from standard input", remedy="give one of them as a file")
    common.check_output(arguments.output, arguments.texts, arguments.input)
    folder = common.chosen_run(arguments)
    if arguments.texts is not None:
        lines, texts = all_texts(arguments.texts, arguments)
    matcher = jaxmatch.load(folder)
    if is_searched:
        matcher.matched_label(arguments.label)  # a wrong label is found before the work is done
    if arguments.index is None:
        index = SearchIndex(matcher, texts, arguments.prefilter or PREFILTERS[0], lines=lines)
    else:
        index = matcher.load_index(arguments.index)
    if arguments.save is not None:
        index.save(arguments.save)
    if not is_searched:
        return
    candidates = max(arguments.candidates, arguments.top_k)
    queries = [(1, arguments.query)] if arguments.input is None else texts_of(arguments.input, arguments)
    with common.open_whole(arguments.output) as output:
        for _, query in queries:
            found = index.search(query, arguments.top_k, candidates, arguments.label)
            _write_ranking(output, query, found, index.lines)


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    split = "split of the data set it was trained on (default: test)"
    what.add_argument("--split", choices=common.SPLITS, default="test", help=split)
    file = "score this file instead: as training data, with labels"
    what.add_argument("--input", type=common.path_of, metavar="FILE", help=file)
    common.add_layout_arguments(parser)
    common.add_directory_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def evaluate(arguments: argparse.Namespace) -> None:
    """Score a trained run on its data set, or on a file of your own.

        jaxmatch evaluate runs/quickstart/runs/RUN --split dev
        jaxmatch evaluate runs/quickstart/runs/RUN --input pairs.csv.gz --columns text_a=question1,text_b=question2

    If the run is calibrated (`jaxmatch calibrate`), there are two columns, without and with its temperature and
    threshold. A file has a format of training data. Its columns and labels have the names that they had in training,
    unless --columns and --labels say otherwise.
    """
    from jaxmatch.analysis.evaluate import label_numbers, pairs_of, score_outputs
    from jaxmatch.inference.calibration import Calibration, quality

    folder = common.chosen_run(arguments)
    matcher = jaxmatch.load(folder)
    split, name = common.requested_pairs(arguments, folder, matcher, arguments.split)
    numbers = label_numbers(matcher, split)  # a wrong label is found before the work is done
    logits = matcher.logits(pairs_of(split))
    scores = score_outputs(matcher, split, logits)
    found = {"run": str(folder), "data": name, "pairs": len(split), "scores": scores}
    if matcher.calibration is not None:
        as_trained = Calibration(positive=matcher.calibration.positive)
        scores |= quality(as_trained, logits, numbers, matcher.labels)
        decisive = matcher.calibration.decisive(logits, matcher.labels)
        quality_now = quality(matcher.calibration, logits, numbers, matcher.labels)
        found["calibrated"] = score_outputs(matcher, split, decisive) | quality_now
    if arguments.format == "json":
        common.show(printable_json(without_nan(found)))
        return
    common.show(f"{name}: {count_text(len(split), 'pair')}")
    _show_scores(scores, found.get("calibrated"))


def _show_scores(scores: Mapping[str, float], calibrated: Mapping[str, float] | None = None) -> None:
    """Prints scores, without and with a calibration in two columns if both are given."""
    width = max(map(len, scores))
    if calibrated is not None:
        common.show(f"{'':<{width}}  as trained  calibrated")
    for key, value in scores.items():
        values = f"{value:.4f}" if calibrated is None else f"{value:>10.4f}  {calibrated[key]:>10.4f}"
        common.show(f"{key:<{width}}  {values}")


def add_calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    choose = "score that the threshold maximizes (default: accuracy)"
    what.add_argument("--choose", choices=("accuracy", "f1"), help=choose)
    precision = "choose the threshold with the highest recall whose precision is at least P"
    what.add_argument("--precision", type=float, metavar="P", help=precision)
    what.add_argument("--remove", action="store_true", help="remove the run's calibration")
    positive = "the label that the threshold is for (default: the second of two)"
    parser.add_argument("--positive", metavar="LABEL", help=positive)
    file = "pairs with labels to choose on (default: dev)"
    parser.add_argument("--input", type=common.path_of, metavar="FILE", help=file)
    common.add_layout_arguments(parser)
    common.add_directory_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def calibrate(arguments: argparse.Namespace) -> None:
    """Choose the temperature of a run's probabilities, and the threshold between two labels, on dev.

        jaxmatch calibrate runs/quora --best --choose f1
        jaxmatch calibrate runs/quora/runs/RUN --precision 0.95 --positive duplicate

    The temperature maximizes the likelihood. A pair gets the positive label if its probability reaches the threshold; a
    model with more than two labels has none. Both are kept in the run's model folder, as calibration.json. From then on
    `predict` uses them; `jaxmatch evaluate` shows the scores with and without them. --remove removes them.
    """
    from jaxmatch.analysis.evaluate import label_numbers, pairs_of
    from jaxmatch.inference import calibration, model_folder

    folder = common.chosen_run(arguments)
    if arguments.remove:
        path = model_folder.find(folder) / calibration.FILE
        if not path.exists():
            raise InputError("there is no calibration", path=path)
        path.unlink()
        return
    matcher = jaxmatch.load(folder)
    if matcher.task == "regression":
        raise InputError("a regression has no probabilities to calibrate", path=folder)
    split, name = common.requested_pairs(arguments, folder, matcher, "dev")
    found = calibration.chosen_calibration(
        matcher.logits(pairs_of(split)),
        label_numbers(matcher, split),
        matcher.labels,
        objective=arguments.choose or ("accuracy" if arguments.precision is None else "precision"),
        precision=arguments.precision,
        positive=arguments.positive,
        data=name,
    )
    path = model_folder.save_calibration(folder, found)
    if arguments.format == "json":
        common.show(printable_json(without_nan({"run": str(folder), "file": str(path)} | vars(found))))
        return
    common.show(f"{name}: {count_text(len(split), 'pair')}")
    common.show(f"temperature  {found.temperature:.4f}")
    if found.threshold is not None:
        common.show(f"threshold    {found.threshold:.4f}  (of {found.positive}, chosen for {found.objective})")
    _show_scores(found.before, found.after)


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    parser.add_argument("--format", choices=EXPORT_FORMATS, required=True, help="format of the export")
    parser.add_argument("--output", type=common.folder_of, metavar="DIR", required=True, help="folder of the export")


def export(arguments: argparse.Namespace) -> None:
    """Export a run for programs without this package.

        jaxmatch export runs/quickstart --best --format onnx --output exported

    `stablehlo` writes a program that `jax.export` runs on CPUs, GPUs and TPUs. `onnx` writes one for ONNX Runtime; it
    needs `pip install 'jaxmatch[onnx]'` and `pip install --no-deps 'jax2onnx>=0.17.1,<0.18'`. `safetensors` writes the
    weights alone. Tokenizer, vocabulary and word vectors are written, too. docs/how_to/export.md shows how to run it.
    """
    from jaxmatch.inference.export import export

    export(jaxmatch.load(common.chosen_run(arguments)), arguments.output, arguments.format)
    common.note(f"note: wrote {arguments.output}")
