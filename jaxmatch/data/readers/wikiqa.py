"""WikiQA (Yang et al., 2015): the tokenized text, with question and document ids from the TREC file of the same split.

`WikiQA-dev.txt` holds question, sentence and label, separated by tabs. `WikiQA-dev.ref` holds
`question-id 0 document-id label` for the same pairs in the same order. trec_eval groups by the question ids and breaks
ties by the document ids.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_columns, read_lines
from jaxmatch.data.readers.pairs import PairCollector
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

LABELS = ("0", "1")
COMPANION_SUFFIX = ".ref"


def read(path: Path) -> Split:
    """Reads `WikiQA-{train,dev,test}.txt` and the `.ref` file next to it.

    Raises:
      InputError: one of the files or a line of it is damaged, or the two files do not describe the same pairs.
    """
    reference = path.with_suffix(COMPANION_SUFFIX)
    remedy = f"{path.name} and {reference.name} must be of the same release, unchanged"
    pairs = PairCollector(path, LABELS)
    questions: dict[str, tuple[str, int]] = {}
    seen: set[tuple[str, str]] = set()
    # Each file is read to its end before the pairs are compared, so that an error leaves no file open.
    text_rows, reference_rows = (
        list(read_columns(path, 3, "question, sentence, label")),
        list(_read_reference(reference)),
    )
    for text_row, reference_row in itertools.zip_longest(text_rows, reference_rows):
        if text_row is None:
            line = reference_row[0]
            raise InputError(
                f"the file ends before line {line} of {reference.name}", path=path, line=line, remedy=remedy
            )
        line, (question, sentence, label) = text_row
        if reference_row is None:
            raise InputError(
                f"the file ends before line {line} of {path.name}", path=reference, line=line, remedy=remedy
            )
        _, (group, document, judged) = reference_row
        pairs.add(line, question, sentence, label, group, document)
        if label != judged:
            raise InputError(
                f"label {shown(judged)} where {path.name} has {shown(label)}", path=reference, line=line, remedy=remedy
            )
        if (group, document) in seen:
            raise InputError(
                f"document {shown(document)} of question {shown(group)} occurs here twice", path=reference, line=line
            )
        seen.add((group, document))
        # Most labels are 0 and agree by accident even if one file is shifted. This check detects such a shift.
        first_text, first_line = questions.setdefault(group, (question, line))
        if question != first_text:
            raise InputError(
                f"question {shown(group)} has another text in {path.name} than on line {first_line}",
                path=reference,
                line=line,
                remedy=remedy,
            )
    return pairs.split()


def _read_reference(path: Path) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """Yields (line number, (question id, document id, label)) for each line of a TREC relevance file."""
    for number, line in read_lines(path):
        fields = line.split()
        if len(fields) != 4:
            raise InputError(
                f"{len(fields)} fields where 4 are expected (question id, 0, document id, label)",
                path=path,
                line=number,
            )
        yield number, (fields[0], fields[2], fields[3])
