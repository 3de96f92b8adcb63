"""Commands for trained models, and the pairs and texts that they read."""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import jaxmatch
from jaxmatch.cli import common
from jaxmatch.data import pairs as data
from jaxmatch.errors import InputError, NotFinite, NotInstalled, aligned, count_text, printable_json, rounded
from jaxmatch.reporting.records import data_frame

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher, Prediction
    from jaxmatch.inference.search import Candidate, SearchIndex

STANDARD_INPUT = "standard input"  # its name in error messages
BLOCK_BYTES = 2**20
CHUNK = 4096  # pairs predicted together: enough to batch pairs of similar length, few enough to be done soon
PREFILTERS = ("vectors", "bm25")  # the names in jaxmatch/inference/search.py
EXPORT_FORMATS = ("stablehlo", "onnx", "safetensors")


def source_of(text: str) -> Path | str:
    """Parses an input for argparse: a file, or `-` for standard input."""
    return STANDARD_INPUT if text == "-" else Path(text)


def add_record_arguments(parser: argparse.ArgumentParser, formats: Sequence[str], example: str, default: str) -> None:
    """Adds --input-format, --columns, --quoted and --output."""
    add = parser.add_argument
    add("--input-format", choices=formats, help=f"format of the input (default: {default})")
    add("--columns", default="", metavar="A=B,...", help=f"columns with other names: {example}")
    add("--quoted", action="store_true", help="TSV with quotation marks, as in CSV")
    add("--output", default="-", metavar="FILE", help="JSON lines; - is standard output (default)")


def lines_of(descriptor: int, on_wait: Callable[[], None] = lambda: None) -> Iterator[bytes]:
    r"""Yields the lines of a pipe or a terminal, each with its b"\n". Calls `on_wait` before it waits for more."""
    block, begun = b"begin", b""
    while block:
        on_wait()
        select.select([descriptor], [], [])  # the descriptor may be one that does not wait
        block = os.read(descriptor, BLOCK_BYTES)
        *lines, begun = (begun + block).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if begun:
        yield begun


def lines_in(source: Path | str, on_wait: Callable[[], None] = lambda: None) -> Iterator[tuple[int, str]]:
    """Yields (line number, line) for a file, also one packed with gzip, or for a stream as its lines arrive."""
    if isinstance(source, Path) and source.is_file():
        yield from data.read_lines(source)
        return
    try:
        stream = source if isinstance(source, Path) else sys.stdin.fileno()
    except (AttributeError, ValueError):  # an io.UnsupportedOperation, in a notebook, is a ValueError
        raise InputError("standard input is closed", remedy="give --input a file, or a pipe") from None
    with open(stream, "rb", buffering=0, closefd=isinstance(source, Path)) as file:
        yield from data.decode_lines(lines_of(file.fileno(), on_wait), source)


def add_predict_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    parser.add_argument("--input", type=source_of, required=True, metavar="FILE", help="the pairs; - is standard input")
    add_record_arguments(parser, data.FORMATS, "text_a=question1,text_b=question2", "from its name or first line")


def predict(arguments: argparse.Namespace) -> None:
    """Predict labels and probabilities of new pairs with a trained run.

        jaxmatch predict runs/quickstart --best --input pairs.tsv
        jaxmatch predict runs/quickstart/runs/RUN --input pairs.parquet --output predictions.jsonl

    The input is TSV, CSV, JSON lines or Parquet, each also with gzip. The columns `text_a` and `text_b` have the names
    that they had in training, unless --columns says otherwise. The output is JSON lines in the order of the input: the
    fields of the input, then "label" and "probabilities", or "score" for a regression, and "unknown_words", the share
    of the words that the model does not know. An input field with one of these names becomes "input_label" and so on.
    An --output that ends in .csv or .parquet is a table with a column for each probability, "probability_LABEL".

    All lines of an input file are checked before the first prediction, and an output file appears whole or not at all.
    From a pipe, pairs are predicted as they arrive, at most 4,096 together, up to a line that cannot be used.
    """
    with common.open_whole(arguments.output, arguments.input) as output:
        matcher = jaxmatch.load(common.chosen_run(arguments))
        _predict(matcher, arguments, output)


def _predict(matcher: Matcher, arguments: argparse.Namespace, output: BinaryIO) -> None:
    source, suffix = arguments.input, Path(arguments.output).suffix.lower()
    parts, numbered, quoted = matcher.text_columns(arguments.columns)
    waiting: list[tuple[int, dict[str, Any]]] = []
    rows: list[dict[str, Any]] = []  # of a table, which is written as a whole

    def records(on_wait: Callable[[], None] = lambda: None) -> Iterator[tuple[int, Any]]:
        lines = lines_in(source, on_wait)
        return data.read_records(source, parts, arguments.input_format, arguments.quoted or quoted, lines, numbered)

    def write() -> None:
        pairs = [(line, tuple(fields[name] for name in parts)) for line, fields in waiting]
        try:
            for (_, fields), prediction in zip(waiting, _predictions(matcher, pairs, source), strict=True):
                rows.append(_answer(fields, prediction))
                if suffix not in (".csv", ".parquet"):
                    output.write(f"{printable_json(rows.pop())}\n".encode())
        finally:
            waiting.clear()
            output.flush()

    if isinstance(source, Path) and source.is_file():
        for _ in records():  # an error is found before anything is written
            pass
    try:
        for record in records(write):
            waiting.append(record)
            if len(waiting) >= CHUNK:
                write()
    except InputError:
        write()  # the pairs before the one that is wrong
        raise
    write()
    if suffix in (".csv", ".parquet"):
        output.write(_table(rows, suffix))


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
        for half in (pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]):
            yield from _predictions(matcher, half, source)
    else:
        yield from found


def _answer(fields: Mapping[str, Any], prediction: Prediction) -> dict[str, Any]:
    """Returns the output for a pair: its fields and the prediction, whose names no field keeps."""
    record = {}
    for key, value in fields.items():
        name = key
        while name in ("label", "probabilities", "score", "unknown_words") or (name != key and name in fields):
            name = f"input_{name}"
        record[name] = value
    return record | {name: value for name, value in rounded(vars(prediction)).items() if value not in (None, {})}


def _table(answers: Sequence[Mapping[str, Any]], suffix: str) -> bytes:
    """Formats answers as CSV or Parquet, with a column for each probability. In CSV, a nested value is JSON."""
    rows = []
    for answer in answers:
        shares = {f"probability_{label}": value for label, value in answer.get("probabilities", {}).items()}
        rows.append({name: value for name, value in answer.items() if name != "probabilities"} | shares)
    frame = data_frame(rows)
    if suffix == ".csv":
        nested = frame.map(lambda value: printable_json(value) if isinstance(value, list | dict) else value)
        return nested.to_csv(index=False).encode()
    try:
        return frame.to_parquet(index=False)
    except (ImportError, ValueError, TypeError) as error:  # pyarrow's errors are ValueErrors and TypeErrors
        raise InputError(f"Parquet cannot be written ({error})", remedy="write JSON lines") from None


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --label and the options of `texts_of`."""
    parser.add_argument("--label", help="the label that means a match (default: the calibration's, or the second of 2)")
    default = "from its name, or else one text per line; with --columns or --quoted TSV"
    add_record_arguments(parser, ("text", *data.FORMATS), "text=question", default)


def texts_of(source: Path | str, arguments: argparse.Namespace) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) for each text of an input. Rows of Parquet are counted from 0."""
    from jaxmatch.data.own import columns_of

    has_columns = bool(arguments.columns or arguments.quoted)
    layout = arguments.input_format or data.format_of(source) or ("tsv" if has_columns else "text")
    if layout != "text":
        named, numbered = columns_of(arguments.columns, ("text",), "text=question")
        column = named.get("text", "text")
        found = data.read_records(source, [column], layout, arguments.quoted, lines_in(source), numbered)
        yield from ((number, fields[column]) for number, fields in found)
    elif has_columns:
        raise InputError("plain text has no columns and no quotation marks", remedy="leave out --input-format text")
    else:
        yield from ((number, text) for number, text in lines_in(source) if text.strip())


def all_texts(source: Path | str, arguments: argparse.Namespace) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Returns the line numbers and the texts of a whole input (`texts_of`), of which there must be some."""
    if not (found := list(texts_of(source, arguments))):
        raise InputError("holds no texts", path=source)
    return tuple(zip(*found, strict=True))


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
    with common.open_whole(arguments.output, arguments.input) as output:
        matcher = jaxmatch.load(common.chosen_run(arguments))
        lines, texts = all_texts(arguments.input, arguments)
        found = matcher.rank(arguments.query, texts, arguments.top_k, arguments.label)
        _write_ranking(output, arguments.query, found, lines)


def _write_ranking(output: BinaryIO, query: str, found: Iterable[Candidate], lines: Sequence[int]) -> None:
    for place, one in enumerate(found, start=1):
        values = {"query": query, "rank": place, "line": lines[one.index], "text": one.text, "score": one.score}
        output.write(f"{printable_json(rounded(values))}\n".encode())
    output.flush()


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--texts", type=source_of, metavar="FILE", help="the texts to search; - is standard input")
    add("--index", type=Path, metavar="DIR", help="an index that --save made")
    add = parser.add_argument
    add("--prefilter", choices=PREFILTERS, help="method that finds candidates (default: vectors)")
    add("--save", type=common.folder_of, metavar="DIR", help="keep the index of the texts here")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--query", type=common.text_of, metavar="TEXT", help="what to search for, the first text of each pair")
    add("--input", type=source_of, metavar="FILE", help="queries; - is standard input")
    add, number = parser.add_argument, common.whole_number
    add("--top-k", type=number, default=10, metavar="N", help="how many to print for each query (default: 10)")
    add("--candidates", type=number, default=100, metavar="N", help="how many the model ranks for each (default: 100)")
    add("--mix", type=float, metavar="W", help="share of the prefilter in a score, 0 to 1 (default: chosen on dev)")
    add_text_arguments(parser)
    common.add_directory_argument(parser)


def search(arguments: argparse.Namespace) -> None:
    """Find the stored texts that match a query, among many.

        jaxmatch search runs/quora --best --texts questions.txt --query "how do I sleep better" --save questions.index
        jaxmatch search runs/quora/runs/RUN --index questions.index --input queries.txt --top-k 5

    A prefilter chooses candidates: `vectors` compares mean word vectors, `bm25` (`pip install 'jaxmatch[search]'`) the
    words themselves. A text's "score" is (1 - W) times the model's probability plus W times the prefilter's score, from
    0 to 1 over the candidates. Without --mix W, matching pairs of the run's dev choose W, which takes seconds. An index
    keeps W. Texts, queries, output and --label are those of `jaxmatch rank`. Queries from standard input are answered
    as they arrive.
    """
    queries = () if arguments.input is None else texts_of(arguments.input, arguments)
    queries = queries if arguments.query is None else [(1, arguments.query)]
    if not queries and arguments.save is None:
        raise InputError("there is nothing to search for", remedy="give --query or --input, or --save an index")
    if arguments.index is not None and (arguments.save is not None or arguments.prefilter is not None):
        raise InputError("--index cannot be combined with --prefilter or --save", remedy="give --texts instead")
    if not 0 <= (arguments.mix or 0) <= 1:
        raise InputError("--mix is not between 0 and 1")
    if arguments.texts == STANDARD_INPUT == arguments.input:
        raise InputError("texts and queries cannot both come from standard input", remedy="give one of them as a file")
    with common.open_whole(arguments.output, arguments.texts, arguments.input) as output:
        index, candidates = _index(arguments, bool(queries)), max(arguments.candidates, arguments.top_k)
        for _, query in queries:
            found = index.search(query, arguments.top_k, candidates, arguments.label)
            _write_ranking(output, query, found, index.lines)


def _index(arguments: argparse.Namespace, is_searched: bool) -> SearchIndex:
    """Makes or reads the index that a command line names, and saves it if --save is given."""
    from jaxmatch.inference.search import SearchIndex

    matcher = jaxmatch.load(common.chosen_run(arguments))
    if is_searched:
        matcher.matched_label(arguments.label)  # a wrong label is found before the work is done
    if arguments.index is not None:
        index = matcher.load_index(arguments.index)
    else:
        lines, texts = all_texts(arguments.texts, arguments)
        index = SearchIndex(matcher, texts, arguments.prefilter or PREFILTERS[0], lines=lines)
    if arguments.mix is not None:
        index.mix = arguments.mix
    elif index.mix is None and (is_searched or arguments.label is not None or len(matcher.labels) < 3):
        index.mix = _mix_of_dev(index, arguments)
    if arguments.save is not None:
        index.save(arguments.save)
    return index


def _mix_of_dev(index: SearchIndex, arguments: argparse.Namespace) -> float:
    """Chooses the mix of a search on the run's dev, and prints it on standard error; 0.5 if there is no such data."""
    from jaxmatch.analysis.evaluate import official_split
    from jaxmatch.inference.search import DEFAULT_MIX, chosen_mix

    matcher = index.matcher
    try:
        dev = official_split(matcher, "dev", arguments.data_directory)
        mix, rank = chosen_mix(matcher, dev, index.prefilter, arguments.label)
    except InputError as error:
        mix, why = DEFAULT_MIX, f"as dev cannot choose it ({error})"
    else:
        why = f"chosen on {matcher.config['data']['name']} dev (mean reciprocal rank {rank:.4f})"
    common.note(f"note: the prefilter has a share of {mix:.1f}, {why}")
    return mix


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    add = parser.add_mutually_exclusive_group().add_argument
    add("--split", choices=common.SPLITS, default="test", help="split of its data set (default: test)")
    add("--input", type=Path, metavar="FILE", help="score this file instead: as training data, with labels")
    add = parser.add_argument
    add("--by", metavar="COLUMN", help="also score the pairs of each value of this column of the file")
    _add_pairs_arguments(parser)


def _add_pairs_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_layout_arguments(parser)
    common.add_directory_argument(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def evaluate(arguments: argparse.Namespace) -> None:
    """Score a trained run on its data set, or on a file of your own.

        jaxmatch evaluate runs/quickstart --split dev
        jaxmatch evaluate runs/quora/runs/RUN --input pairs.csv.gz --columns text_a=question1,text_b=question2
        jaxmatch evaluate runs/snli --input hans.tsv --by heuristic \\
            --labels entailment=entailment,neutral+contradiction=non-entailment

    Scores have intervals with 95% confidence. A classification also gets a matrix of labels and predictions, and
    precision, recall and F1 of each label. Of a calibrated run (`jaxmatch calibrate`), scores are shown without and
    with its temperature and threshold; the intervals are those of the first, and the rest is that of the second. A file
    has a format of training data, and its columns and labels have the names that they had in training, unless --columns
    and --labels say otherwise. With +, --labels sums labels of the model to one of the file. Labels of a ranking may be
    grades of relevance from 0 to 10.
    """
    from jaxmatch.analysis.evaluate import evaluation

    folder = common.chosen_run(arguments)
    matcher = jaxmatch.load(folder)
    split, name = common.requested_pairs(arguments, matcher, arguments.split)
    found = evaluation(matcher, split, arguments.labels or "")
    if arguments.format == "json":
        common.show(printable_json({"run": str(folder), "data": name} | found))
        return
    questions = found.get("questions")
    counted = f", {questions['counted']:,} of {count_text(questions['all'], 'question')} counted" if questions else ""
    common.show(f"{name}: {count_text(len(split), 'pair')}{counted}")
    _show_scores(found["scores"], found.get("calibrated"), found["intervals"])
    if classes := found.get("classes"):
        common.show("\nlabels of the data (rows) and predictions (columns)")
        rows = [["", *found["labels"], "precision", "recall", "f1", "pairs"]]
        for counts, (label, each) in zip(found["confusion"], classes.items(), strict=True):
            shares = [f"{each[share]:.4f}" for share in ("precision", "recall", "f1")]
            rows.append([label, *map(str, counts), *shares, f"{each['pairs']:,}"])
        common.show(aligned(rows))
    if categories := found.get("categories"):
        common.show("")
        rows = [[arguments.by, "pairs", *next(iter(categories.values()))["scores"]]]
        for value, each in categories.items():
            rows.append([value, f"{each['pairs']:,}", *(f"{score:.4f}" for score in each["scores"].values())])
        common.show(aligned(rows))


def _show_scores(scores: Mapping, calibrated: Mapping | None, intervals: Mapping) -> None:
    """Prints scores, without and with a calibration in two columns if both are given, and their intervals."""
    rows = [] if calibrated is None else [["", "as trained", "calibrated", ""]]
    for name, value in scores.items():
        both = [] if calibrated is None else [f"{calibrated[name]:.4f}"]
        bounds = intervals.get(name)
        rows.append([name, f"{value:.4f}", *both, f"[{bounds[0]:.4f}, {bounds[1]:.4f}]" if bounds else ""])
    common.show(aligned(rows))


def add_calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    add = parser.add_mutually_exclusive_group().add_argument
    add("--choose", choices=("accuracy", "f1"), help="score that the threshold maximizes (default: accuracy)")
    add("--precision", type=float, metavar="P", help="choose the highest recall at a precision of at least P")
    add = parser.add_argument
    add("--positive", metavar="LABEL", help="the label that the threshold is for (default: the second of two)")
    add("--input", type=Path, metavar="FILE", help="pairs with labels to choose on (default: dev)")
    _add_pairs_arguments(parser)


def calibrate(arguments: argparse.Namespace) -> None:
    """Choose the temperature of a run's probabilities, and the threshold between two labels, on dev.

        jaxmatch calibrate runs/quora --best --choose f1
        jaxmatch calibrate runs/quora/runs/RUN --precision 0.95 --positive duplicate

    The temperature maximizes the likelihood. A pair gets the positive label if its probability reaches the threshold; a
    model with more than two labels has none. Both are kept in the run's model folder, as calibration.json. From then on
    `predict` uses them; `jaxmatch evaluate` shows the scores with and without them.
    """
    from jaxmatch.analysis.evaluate import label_numbers, pairs_of
    from jaxmatch.inference import calibration, model_folder

    folder = common.chosen_run(arguments)
    matcher = jaxmatch.load(folder)
    split, name = common.requested_pairs(arguments, matcher, "dev")
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
        common.show(printable_json({"run": str(folder), "file": str(path)} | vars(found)))
        return
    common.show(f"{name}: {count_text(len(split), 'pair')}")
    common.show(f"temperature  {found.temperature:.4f}")
    if found.threshold is not None:
        common.show(f"threshold    {found.threshold:.4f}  (of {found.positive}, chosen for {found.objective})")
    _show_scores(found.before, found.after, {})


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run_arguments(parser)
    add, number = parser.add_argument, common.whole_number
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: this machine only)")
    add("--port", type=number, default=8000, metavar="N", help="port to listen on (default: 8000)")
    add("--max-pairs", type=number, default=256, metavar="N", help="most pairs of a request (default: 256)")
    add("--max-bytes", type=number, default=1_000_000, metavar="N", help="most bytes of a request (default: 1,000,000)")


def serve(arguments: argparse.Namespace) -> None:
    """Answer requests for predictions of a trained run over HTTP.

        jaxmatch serve runs/quickstart --port 8000
        curl localhost:8000/predict -H 'Content-Type: application/json' -d '{"pairs": [["It rains.", "It is wet."]]}'

    POST /predict takes {"pairs": [[TEXT, TEXT], ...]}, POST /rank {"query", "candidates", "top_k", "label"}. GET
    /health answers when the model is ready, and /docs describes all of them. A request that is too large is answered
    with status 413, one that cannot be used with 422. At SIGTERM, requests that have begun are answered first.
    """
    try:
        import uvicorn

        from jaxmatch.inference.serve import service
    except ImportError:
        raise NotInstalled("a service", "fastapi or uvicorn", "serve") from None
    with socket.socket(socket.AF_INET6 if ":" in arguments.host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((arguments.host, arguments.port))
        except (OSError, OverflowError) as error:
            problem = f"port {arguments.port} of {arguments.host} cannot be used ({getattr(error, 'strerror', error)})"
            raise InputError(problem, remedy="give another --port, up to 65535, or another --host") from None
        matcher = jaxmatch.load(common.chosen_run(arguments))
        app = service(matcher, arguments.max_pairs, arguments.max_bytes)
        matcher.warmup()
        common.note(f"note: {matcher!r} answers at http://{arguments.host}:{arguments.port}")
        # After the last answer, uvicorn sends the signal again that ended it, which is no failure.
        before = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


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
