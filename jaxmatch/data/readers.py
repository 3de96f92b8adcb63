"""A reader for each public corpus: from an official file to a `Split`.

Quotation marks are ordinary characters in all of these files. A damaged file or line raises one `InputError`, which
names the file and the line.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

from jaxmatch.data.pairs import Split, collect, number_of, read_columns, read_lines, read_objects, read_table, text_of
from jaxmatch.errors import InputError, shown

BINARY = ("0", "1")
INFERENCE = ("entailment", "neutral", "contradiction")
SCITAIL = ("neutral", "entails")
RTE = ("not_entailment", "entailment")
# Reasons for which pairs are dropped.
UNDECIDED = "3 of 6 votes"
ONE_KIND = "the question has not both right and wrong answers"
UBUNTU_CANDIDATES = 10
_VOTES = re.compile(r"\(([0-6]),6\)")
_TREC_QUESTION = re.compile(r"<QApairs id='([^']*)'>")
_TREC_LABEL = {"positive": "1", "negative": "0"}
_TREC_BLOCKS = {f"<{name}>": name for name in ("question", *_TREC_LABEL)}


def read_snli(path: Path) -> Split:
    """Reads SNLI (Bowman et al., 2015) or MultiNLI (Williams et al., 2018), `.jsonl`.

    A pair without a majority label carries the label "-". The authors of the corpora ask users to leave such pairs out,
    so they are dropped and counted.
    """

    def pair_of(record: dict) -> tuple | str:
        label, *texts = (text_of(record, name) for name in ("gold_label", "sentence1", "sentence2"))
        return 'label "-"' if label == "-" else (*texts, label)

    return collect(path, read_objects(path, ("gold_label", "sentence1", "sentence2")), pair_of, INFERENCE)


def read_scitail(path: Path) -> Split:
    """Reads SciTail 1.1 (Khot et al., 2018), `tsv_format/scitail_1.0_*.tsv`: premise, hypothesis, label; no header."""
    return collect(path, read_columns(path, 3, "premise, hypothesis, label"), tuple, SCITAIL)


def read_quora(path: Path) -> Split:
    """Reads Quora question pairs in the split of Wang et al. (2017): label, question, question, id; no header."""
    return collect(path, read_columns(path, 4, "label, question, question, id"), itemgetter(1, 2, 0), BINARY)


def read_sick(path: Path) -> Split:
    """Reads the judgments of SICK (Marelli et al., 2014), in lowercase, from the files of SemEval 2014 task 1."""
    columns = ("sentence_A", "sentence_B", "entailment_judgment")
    lowered = lambda row: (row["sentence_A"], row["sentence_B"], row["entailment_judgment"].lower())
    return collect(path, read_table(path, columns), lowered, INFERENCE)


def read_sick_relatedness(path: Path) -> Split:
    """Reads the relatedness, from 1 to 5, of the pairs of SICK, from the same files as `read_sick`."""
    name = "relatedness_score"
    scored = lambda row: (row["sentence_A"], row["sentence_B"], number_of(row[name], name, 1, 5))
    return collect(path, read_table(path, ("sentence_A", "sentence_B", name)), scored)


def read_mrpc(path: Path) -> Split:
    """Reads MRPC, the Microsoft Research Paraphrase Corpus (Dolan and Brockett, 2005): tabs, with a header."""
    columns = ("#1 String", "#2 String", "Quality")
    return collect(path, read_table(path, columns), itemgetter(*columns), BINARY)


def read_rte(path: Path) -> Split:
    """Reads RTE, recognizing textual entailment, in the layout of GLUE (Wang et al., 2019): tabs, with a header."""
    columns = ("sentence1", "sentence2", "label")
    return collect(path, read_table(path, columns), itemgetter(*columns), RTE)


def read_stsb(path: Path) -> Split:
    """Reads the STS benchmark (Cer et al., 2017), `sts-*.csv`, whose scores are similarities from 0 to 5; no header.

    In spite of their names, tabs separate the columns. Up to two columns with the sources of the sentences may follow.
    """
    rows = read_columns(path, 7, "genre, file, year, number, score, sentence, sentence", most=9)
    return collect(path, rows, lambda row: (row[5], row[6], number_of(row[4], "score", 0, 5)))


def read_twitter_url(path: Path) -> Split:
    """Reads Twitter-URL (Lan et al., 2017): headline or tweet, tweet, votes, address; no header.

    The votes "(n,6)" give the number of annotators out of six who judged the pair a paraphrase. As the authors of the
    corpus prescribe, a pair with 4 to 6 votes is a paraphrase and a pair with 0 to 2 votes is not. Pairs with 3 votes
    are dropped and counted.
    """

    def pair_of(row: list[str]) -> tuple | str:
        found = _VOTES.fullmatch(row[2].strip(" "))
        if not found:
            raise InputError(f"votes {shown(row[2])} are not of the form (n,6) with n from 0 to 6")
        positive = int(found[1])
        return UNDECIDED if positive == 3 else (row[0], row[1], "1" if positive > 3 else "0")

    return collect(path, read_columns(path, 4, "sentence, sentence, votes, address"), pair_of, BINARY)


def read_wikiqa(path: Path) -> Split:
    """Reads WikiQA (Yang et al., 2015): the tokenized `WikiQA-*.txt`, and the TREC file `WikiQA-*.ref` next to it.

    The first holds question, sentence and label, separated by tabs. The second holds
    `question-id 0 document-id label` for the same pairs in the same order. trec_eval groups by the question ids and
    breaks ties by the document ids.
    """
    reference = path.with_suffix(".ref")
    judged = [text.split() for _, text in read_lines(reference) if text.strip()]
    rows = list(read_columns(path, 3, "question, sentence, label"))
    if [fields[3:] for fields in judged] != [[label] for _, (_, _, label) in rows]:
        remedy = f"{path.name} and {reference.name} must be of the same release, unchanged"
        raise InputError(f"its lines do not have the labels of {path.name}", path=reference, remedy=remedy)
    joined = ((line, (*row, fields[0], fields[2])) for (line, row), fields in zip(rows, judged, strict=True))
    return collect(path, joined, tuple, BINARY)


def read_trecqa(path: Path) -> Split:
    """Reads TrecQA (Wang et al., 2007) as distributed by Yao et al. (2013) in the jacana package, in pseudo-XML.

    A block of lines between `<question>`, `<positive>` or `<negative>` and its closing tag holds a sentence on its
    first line, with tabs between the tokens. The lines below hold tags, dependencies and the like, which are not read.
    No XML parser can read these files: characters are not escaped, and sentences may begin with "<num>".

    Questions without any answer give no pairs. The groups are the question ids. Answers have no official names, so a
    ranking puts wrong answers before right answers of equal score.
    """
    return collect(path, _answers(path), tuple, BINARY)


def _answers(path: Path) -> Iterator[tuple[int, tuple[str, str, str, str]]]:
    """Yields (line, (question, answer, label, question id))."""
    group = question = kind = ""
    for line, text in ((line, text.strip(" ")) for line, text in read_lines(path)):
        if kind:
            sentence, block, kind = " ".join(token for token in text.split("\t") if token.strip()), kind, ""
            if block == "question":
                question = sentence
            else:
                yield line, (question, sentence, _TREC_LABEL[block], group)
        elif found := _TREC_QUESTION.fullmatch(text):
            group, question = found[1], ""
        elif text == "</QApairs>":
            group = ""
        else:
            kind = _TREC_BLOCKS.get(text, "")
    if group:
        raise InputError(f"the file ends inside of question {shown(group)}", path=path, remedy="copy it again")


def read_trecqa_clean(path: Path) -> Split:
    """Reads the clean dev or test set of TrecQA (Rao et al., 2016), which leaves out the questions that have only right
    or only wrong answers. Their pairs are counted as dropped.
    """
    whole = read_trecqa(path)
    kinds = Counter(group for group, _ in set(zip(whole.groups, whole.labels, strict=True)))
    kept = [row for row, group in enumerate(whole.groups) if kinds[group] == len(BINARY)]
    if not kept:
        raise InputError("no question has both right and wrong answers", path=path)
    left_out = len(whole) - len(kept)
    return whole.part(kept, {ONE_KIND: left_out} if left_out else {})


def read_ubuntu_train(path: Path) -> Split:
    """Reads `train.txt` of the Ubuntu dialogue corpus v1 (Lowe et al., 2015) as prepared by Xu et al. (2016): label,
    context, response; no header.

    The utterances of a context are joined by the marks `__eou__` (end of an utterance) and `__eot__` (end of a turn),
    which stay in the text. If a file gives each utterance a column of its own, they are joined by `__eot__`.
    Consecutive lines with the same context form a group of at most ten lines. Groups are numbered from 1.
    """

    def grouped() -> Iterator[tuple[int, tuple]]:
        context, group, size = "", 0, 0
        for line, (label, *utterances, response) in read_columns(path, 3, "label, context, response", most=math.inf):
            text = " __eot__ ".join(utterances)
            if text != context or size == UBUNTU_CANDIDATES:
                # All lines of a group share one string, so that memory holds each of a million contexts only once.
                context, group, size = text, group + 1, 0
            yield line, (context, response, label, str(group))
            size += 1

    return collect(path, grouped(), tuple, BINARY)


def read_ubuntu(path: Path) -> Split:
    """Reads `{valid,test}.txt` of the Ubuntu dialogue corpus, in which every context has ten candidates.

    Candidates have no official names, so a ranking puts the right candidate after wrong ones of equal score.
    """
    whole = read_ubuntu_train(path)
    if wrong := [group for group, size in Counter(whole.groups).items() if size != UBUNTU_CANDIDATES]:
        problem = f"context {wrong[0]} has not {UBUNTU_CANDIDATES} candidates"
        raise InputError(problem, path=path, remedy="copy the file again")
    return whole
