"""The text of `jaxmatch data check`: the contents of a data set, and its likely problems."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from jaxmatch.data import catalog, own
from jaxmatch.data.encoding import DataSettings, check_words, read_word_vectors, warnings_about
from jaxmatch.data.pairs import NO_LABEL, DataSet, Split
from jaxmatch.data.text import UNKNOWN_WORD, Corpus, build_vocabulary, coverage
from jaxmatch.data.vectors import VectorReport
from jaxmatch.errors import count_text, printable

_QUANTILES = (0.5, 0.9, 0.99, 1.0)
# A vector coverage below the first share is a problem, and so is a label with the second share or more.
_LOW_COVERAGE, _MAX_LABEL_SHARE = 0.9, 0.95
# A text this many times longer than the 99th percentile determines the shape of a bucket alone.
_OUTLIER = 4
_UP_TO = ", up to order, case and punctuation"


def check(settings: DataSettings) -> str:
    """Describes a data set: counts, labels, lengths, vocabulary coverage and problems.

    Arguments:
      settings: the data set, and how to read it. If `vectors` is empty, coverage is reported for embedded data only.

    Returns:
      Several lines of text. The last section lists the problems, or states that there are no problems.

    Raises:
      InputError: the data or the vectors cannot be read, or tokenization leaves no word in a split.
    """
    data = catalog.load(settings.name, settings.directory or None, task=settings.task, layout=settings.layout)
    corpus = Corpus(data, settings.preprocessing)
    check_words(data, corpus, settings.preprocessing)
    problems = [_missing_split_text(data.name, name) for name in catalog.SPLITS if name not in data.splits]
    problems += warnings_about(data, corpus, settings.task)
    sections = [
        f"{data.name}: {data.task}{_labels_text(data)}",
        _pairs(data, problems),
        *(f"{name}: {text}" for name, text in catalog.about(data.name).items() if name in data.splits),
        _labels(data, problems),
    ]
    if data.name == catalog.OWN and not settings.layout.quoted:
        _look_for_quotation_marks(data, problems)
    if any(split.groups is not None for split in data.splits.values()):
        sections.append(_groups(data, problems))
    sections.append(_lengths(data, corpus, problems))
    sections.append(_words(settings, corpus, problems))
    _look_for_repetition(data, problems)
    sections.append("\n".join(["problems", *(f"  - {problem}" for problem in problems)]) if problems else "no problems")
    return "\n\n".join(sections)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Formats rows as aligned columns: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def _percent_covered(share: float) -> str:
    # Rounded down, so that 99.999% is not shown as 100.0%.
    return f"{np.floor(share * 1000) / 10:.1f}%"


def _missing_split_text(name: str, split: str) -> str:
    """Returns a line about a missing split. For official data it gives the names of the files, or the reason."""
    problem = f"there is no {split} split"
    if name not in catalog.CATALOG:
        return problem
    files, reason = catalog.CATALOG[name].files[split], catalog.about(name).get(split)
    problem += f", no {' or '.join(files)}" if files else ""
    return problem + (f" ({reason})" if reason else "")


def _pairs(data: DataSet, problems: list[str]) -> str:
    rows = []
    for name, split in data.splits.items():
        dropped = ", ".join(f"{count:,} ({reason})" for reason, count in split.dropped.items() if count) or "0"
        distinct = len(set(zip(split.text_a, split.text_b, strict=True)))
        rows.append((name, f"{len(split):,}", f"{distinct:,}", dropped))
        if not len(split):
            problems.append(f"{name} has no pairs")
        if name == "train" and (unlabeled := split.dropped.get(NO_LABEL)):
            named = "" if data.task == "regression" else "; if -1 is a label, name it: --labels=-1=NAME"
            problems.append(f"train: {count_text(unlabeled, 'pair is', 'pairs are')} left out without a label{named}")
    return _table(("split", "pairs", "distinct", "dropped"), rows)


def _labels_text(data: DataSet) -> str:
    if not data.labels:
        return ""
    positive = f" ({data.labels[1]} is positive)" if data.task == "classification" and len(data.labels) == 2 else ""
    return f", labels {', '.join(data.labels)}{positive}"


def _labels(data: DataSet, problems: list[str]) -> str:
    if data.task == "regression":
        rows = []
        for name, split in data.splits.items():
            values = np.array(split.labels or [np.nan], np.float64)
            rows.append(
                (name, *(f"{value:.3f}" for value in (values.min(), values.mean(), values.max(), values.std())))
            )
            if values.min() == values.max():
                problems.append(f"{name}: every pair has the score {values.min():g}")
        return _table(("scores", "lowest", "mean", "highest", "deviation"), rows)
    rows = []
    for name, split in data.splits.items():
        counts = Counter(split.labels)
        total = max(1, len(split))
        rows.append((name, *(f"{counts[label]:,} ({counts[label] / total:.1%})" for label in data.labels)))
        for label in data.labels:
            if len(split) and not counts[label]:
                problems.append(f"{name} has no pair labeled {label!r}")
            elif data.task == "classification" and counts[label] / total >= _MAX_LABEL_SHARE:
                problems.append(f"{name}: {counts[label] / total:.1%} of the pairs are labeled {label!r}")
    return _table(("labels", *data.labels), rows)


def _groups(data: DataSet, problems: list[str]) -> str:
    rows = []
    for name, split in data.splits.items():
        if split.groups is None:
            problems.append(f"{name} has no groups")
            continue
        found: dict[str, set[object]] = {}
        for group, label in zip(split.groups, split.labels, strict=True):
            found.setdefault(group, set()).add(label)
        scored = sum(len(labels) > 1 for labels in found.values())
        sizes = Counter(split.groups).values()
        rows.append(
            (name, f"{len(found):,}", f"{scored:,}", f"{len(split) / max(1, len(found)):.1f}", max(sizes, default=0))
        )
        if not scored:
            problems.append(f"{name}: no group has both a right and a wrong candidate, so nothing can be ranked")
    return _table(("groups", "all", "right and wrong", "mean size", "largest"), rows)


def _lengths(data: DataSet, corpus: Corpus, problems: list[str]) -> str:
    rows = []
    empty = corpus.words.get(UNKNOWN_WORD)
    for name, split in data.splits.items():
        if not len(split):
            continue
        for side in ("a", "b"):
            tokens, offsets = corpus.column(name, side)
            lengths = np.diff(offsets)
            quantiles = np.quantile(lengths, _QUANTILES, method="higher")
            rows.append((f"{name} {side}", f"{lengths.mean():.1f}", *quantiles.tolist()))
            if quantiles[-1] > _OUTLIER * quantiles[-2]:
                problems.append(
                    f"{name} {side}: the longest text has {quantiles[-1]} tokens, 99% have at most {quantiles[-2]};"
                    " a maximum length would save padding"
                )
            nothing = 0 if empty is None else int(np.sum((tokens[offsets[:-1]] == empty) & (lengths == 1)))
            if nothing:
                problems.append(f"{name} {side}: {count_text(nothing, 'text has', 'texts have')} no token left")
    return _table(("tokens", "mean", *(f"{quantile:.0%}" for quantile in _QUANTILES)), rows)


def _words(settings: DataSettings, corpus: Corpus, problems: list[str]) -> str:
    counts = dict(zip(corpus.words, corpus.counts.tolist(), strict=True))
    known = {word: count for word, count in counts.items() if word != UNKNOWN_WORD}
    lines = [f"words: {len(known):,} distinct, {sum(counts.values()):,} in all texts"]
    if not settings.vectors and settings.name not in catalog.EMBEDDED_TASKS:
        frequent = sum(count >= settings.minimum_count for count in known.values())
        lines.append(f"  {frequent:,} occur {settings.minimum_count} times or more")
        lines.append("  no vectors were named, so their coverage is unknown")
        return "\n".join(lines)
    found, report = read_word_vectors(settings, corpus.words)
    words = build_vocabulary(counts, found, settings.minimum_count)
    shares = coverage(counts, words, found)
    lines += [
        f"  vectors {printable(report.name)}: {report.lines:,} words of {report.dimensions} dimensions,"
        f" {count_text(report.broken, 'broken line')}",
        f"  vocabulary: {len(words) - 2:,} words, {_percent_covered(shares['words_with_vector'])} of them with a "
        "vector",
        f"  {_percent_covered(shares['tokens_with_vector'])} of all tokens have a vector,"
        f" {_percent_covered(shares['tokens_in_vocabulary'])} are in the vocabulary",
    ]
    missing = sorted((word for word in known if word not in found), key=lambda word: (-counts[word], word))
    if missing:
        lines.append(
            "  most frequent without a vector: "
            + ", ".join(f"{printable(word)} ({counts[word]})" for word in missing[:8])
        )
    _judge_vectors(shares, report, problems)
    return "\n".join(lines)


def _judge_vectors(shares: Mapping[str, float], report: VectorReport, problems: list[str]) -> None:
    if shares["tokens_with_vector"] < _LOW_COVERAGE:
        problems.append(f"only {_percent_covered(shares['tokens_with_vector'])} of all tokens have a vector")
    if report.broken:
        shown = "; ".join(report.broken_examples)
        problems.append(
            f"vectors {printable(report.name)}: {count_text(report.broken, 'broken line')} left out ({shown})"
        )


def _look_for_quotation_marks(data: DataSet, problems: list[str]) -> None:
    """Reports TSV from a program that puts quotation marks around every text, or around texts that contain one, and CSV
    with a space before quotation marks, which then belong to the text.
    """
    for name, split in data.splits.items():
        names, texts = {str(label) for label in split.labels}, {*split.text_a, *split.text_b}
        if own.format_of(split.source) == ".csv":
            after_space = sum(text.startswith(" ") and _is_enclosed(text.strip()) for text in texts)
            if after_space:
                what = f"{count_text(after_space, 'text')} {'is' if after_space == 1 else 'are'} enclosed"
                problems.append(f"{name}: {what} in quotation marks after a space; write none after a comma")
        if own.format_of(split.source) != ".tsv":
            continue
        labels, enclosed = sum(map(_is_enclosed, names)), sum(map(_is_enclosed, texts))
        if labels == len(names) > 0 or 2 * enclosed > sum('"' in text for text in texts):
            counts = [(labels, "label"), (enclosed, "text")]
            what = " and ".join(count_text(count, one) for count, one in counts if count)
            are = "is" if labels + enclosed == 1 else "are"
            problems.append(f"{name}: {what} {are} enclosed in quotation marks; if the file is quoted, give --quoted")


def _is_enclosed(text: str) -> bool:
    """Returns whether a text is enclosed in quotation marks and all quotation marks inside are doubled, as in CSV."""
    return len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1].replace('""', "")


def _look_for_repetition(data: DataSet, problems: list[str]) -> None:
    """Reports pairs that occur twice in a split, with different labels in a split, or in the training split too."""
    in_train = data.in_train()
    for name, split in data.splits.items():
        repeated = len(split) - len(set(split.pair_keys()))
        if repeated:
            problems.append(f"{name}: {count_text(repeated, 'pair repeats', 'pairs repeat')} an earlier one{_UP_TO}")
        contradicting = _contradicting(split)
        if contradicting:
            problems.append(
                f"{name}: {count_text(contradicting, 'pair occurs', 'pairs occur')} there with different labels"
            )
    for name, shared in in_train.items():
        if shared:
            occur = count_text(shared, "pair occurs", "pairs occur")
            problems.append(f"{name}: {occur} in the training split too{_UP_TO}")


def _contradicting(split: Split) -> int:
    labels: dict[tuple[str, str], set[object]] = {}
    for *pair, label in zip(split.text_a, split.text_b, split.labels, strict=True):
        labels.setdefault(tuple(pair), set()).add(label)
    return sum(len(found) > 1 for found in labels.values())
