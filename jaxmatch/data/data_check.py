"""The text of `jaxmatch data check`: the contents of a data set, and its likely problems."""

from collections import Counter

import numpy as np

from jaxmatch.data import catalog
from jaxmatch.data.encoding import DataSettings, check_words, read_word_vectors, warnings_about
from jaxmatch.data.pairs import NO_LABEL, DataSet
from jaxmatch.data.text import UNKNOWN_WORD, Corpus, build_vocabulary, coverage
from jaxmatch.errors import aligned, count_text, printable

_QUANTILES = (0.5, 0.9, 0.99, 1.0)
# A vector coverage below the first share is a problem, and so is a label with the second share or more.
_LOW_COVERAGE, _MAX_LABEL_SHARE = 0.9, 0.95
_UP_TO = ", up to order, case and punctuation"


def check(settings: DataSettings) -> str:
    """Describes a data set: counts, labels, lengths, vocabulary coverage and problems. If `settings.vectors` is empty,
    coverage is reported for embedded data only.

    Raises:
      InputError: the data or the vectors cannot be read, or tokenization leaves no word in a split.
    """
    data = catalog.load(settings.name, settings.directory or None, task=settings.task, layout=settings.layout)
    corpus = Corpus(data, settings.preprocessing)
    check_words(data, corpus)
    problems = [str(catalog.missing_split(data.name, None, name)) for name in catalog.SPLITS if name not in data.splits]
    problems += warnings_about(data, corpus, settings.task)
    positive = f" ({data.labels[1]} is positive)" if data.task == "classification" and len(data.labels) == 2 else ""
    sections = [
        f"{data.name}: {data.task}" + (f", labels {', '.join(data.labels)}{positive}" if data.labels else ""),
        _pairs(data, problems),
        *(f"{name}: {text}" for name, text in catalog.about(data.name).items() if name in data.splits),
        (_scores if data.task == "regression" else _labels)(data, problems),
        *([_groups(data, problems)] if data.task == "ranking" else []),
        _lengths(data, corpus, problems),
        _words(settings, corpus, problems),
    ]
    _look_for_repetition(data, problems)
    sections.append("\n".join(["problems", *(f"  - {problem}" for problem in problems)]) if problems else "no problems")
    return "\n\n".join(sections)


def _pairs(data: DataSet, problems: list[str]) -> str:
    rows = []
    for name, split in data.splits.items():
        dropped = ", ".join(f"{count:,} ({reason})" for reason, count in split.dropped.items() if count) or "0"
        distinct = len(set(zip(split.text_a, split.text_b, strict=True)))
        rows.append((name, f"{len(split):,}", f"{distinct:,}", dropped))
        if name == "train" and (unlabeled := split.dropped.get(NO_LABEL)):
            named = "" if data.task == "regression" else "; if -1 is a label, name it: --labels=-1=NAME"
            problems.append(f"train: {count_text(unlabeled, 'pair is', 'pairs are')} left out without a label{named}")
    return aligned([("split", "pairs", "distinct", "dropped"), *rows])


def _scores(data: DataSet, problems: list[str]) -> str:
    rows = []
    for name, split in data.splits.items():
        values = np.array(split.labels, np.float64)
        rows.append((name, *(f"{each:.3f}" for each in (values.min(), values.mean(), values.max(), values.std()))))
        if values.min() == values.max():
            problems.append(f"{name}: every pair has the score {values.min():g}")
    return aligned([("scores", "lowest", "mean", "highest", "deviation"), *rows])


def _labels(data: DataSet, problems: list[str]) -> str:
    rows = []
    for name, split in data.splits.items():
        counts = Counter(split.labels)
        shares = {label: counts[label] / len(split) for label in data.labels}
        rows.append((name, *(f"{counts[label]:,} ({share:.1%})" for label, share in shares.items())))
        for label, share in shares.items():
            if not share:
                problems.append(f"{name} has no pair labeled {label!r}")
            elif data.task == "classification" and share >= _MAX_LABEL_SHARE:
                problems.append(f"{name}: {share:.1%} of the pairs are labeled {label!r}")
    return aligned([("labels", *data.labels), *rows])


def _groups(data: DataSet, problems: list[str]) -> str:
    rows = []
    for name, split in data.splits.items():
        sizes = Counter(split.groups)
        labels = Counter(group for group, _ in set(zip(split.groups, split.labels, strict=True)))  # of each group
        scored = sum(number > 1 for number in labels.values())
        rows.append((name, f"{len(sizes):,}", f"{scored:,}", f"{len(split) / len(sizes):.1f}", max(sizes.values())))
        if not scored:
            problems.append(f"{name}: no group has both a right and a wrong candidate, so nothing can be ranked")
    return aligned([("groups", "all", "right and wrong", "mean size", "largest"), *rows])


def _lengths(data: DataSet, corpus: Corpus, problems: list[str]) -> str:
    rows = []
    empty = corpus.words.get(UNKNOWN_WORD, -1)
    for name, side in ((name, side) for name in data.splits for side in ("a", "b")):
        tokens, offsets = corpus.column(name, side)
        lengths = np.diff(offsets)
        quantiles = np.quantile(lengths, _QUANTILES, method="higher")
        rows.append((f"{name} {side}", f"{lengths.mean():.1f}", *quantiles.tolist()))
        if nothing := int(np.sum((tokens[offsets[:-1]] == empty) & (lengths == 1))):
            problems.append(f"{name} {side}: {count_text(nothing, 'text has', 'texts have')} no token left")
    return aligned([("tokens", "mean", *(f"{quantile:.0%}" for quantile in _QUANTILES)), *rows])


def _words(settings: DataSettings, corpus: Corpus, problems: list[str]) -> str:
    counts = dict(zip(corpus.words, corpus.counts.tolist(), strict=True))
    known = {word: count for word, count in counts.items() if word != UNKNOWN_WORD}
    lines = [f"words: {len(known):,} distinct, {sum(counts.values()):,} in all texts"]
    if not settings.vectors and settings.name not in catalog.EMBEDDED_TASKS:
        frequent = sum(count >= settings.minimum_count for count in known.values())
        lines += [f"  {frequent:,} occur {settings.minimum_count} times or more"]
        return "\n".join([*lines, "  no vectors were named, so their coverage is unknown"])
    found, report = read_word_vectors(settings, corpus.words)
    words, named = build_vocabulary(counts, found, settings.minimum_count), f"vectors {printable(report.name)}: "
    shares = coverage(counts, words, found)
    # Rounded down, so that 99.999% is not shown as 100.0%.
    percent = {name: f"{np.floor(share * 1000) / 10:.1f}%" for name, share in shares.items()}
    with_vector, broken = percent["tokens_with_vector"], count_text(report.broken, "broken line")
    lines += [
        f"  {named}{report.lines:,} words of {report.dimensions} dimensions, {broken}",
        f"  vocabulary: {len(words) - 2:,} words, {percent['words_with_vector']} of them with a vector",
        f"  {with_vector} of all tokens have a vector, {percent['tokens_in_vocabulary']} are in the vocabulary",
    ]
    if missing := sorted((word for word in known if word not in found), key=lambda word: (-counts[word], word)):
        frequent = ", ".join(f"{printable(word)} ({counts[word]})" for word in missing[:8])
        lines.append(f"  most frequent without a vector: {frequent}")
    if shares["tokens_with_vector"] < _LOW_COVERAGE:
        problems.append(f"only {with_vector} of all tokens have a vector")
    if report.broken:
        problems.append(f"{named}{broken} left out ({'; '.join(report.broken_examples)})")
    return "\n".join(lines)


def _look_for_repetition(data: DataSet, problems: list[str]) -> None:
    """Reports pairs that occur twice in a split, with different labels in a split, or in the training split too."""
    occur = lambda number: count_text(number, "pair occurs", "pairs occur")
    for name, split in data.splits.items():
        if repeated := len(split) - len(set(split.pair_keys())):
            problems.append(f"{name}: {count_text(repeated, 'pair repeats', 'pairs repeat')} an earlier one{_UP_TO}")
        labels = Counter((a, b) for a, b, _ in set(zip(split.text_a, split.text_b, split.labels, strict=True)))
        if contradicting := sum(number > 1 for number in labels.values()):
            problems.append(f"{name}: {occur(contradicting)} there with different labels")
    shared = {name: number for name, number in data.in_train().items() if number}
    problems += [f"{name}: {occur(number)} in the training split too{_UP_TO}" for name, number in shared.items()]
