"""TrecQA (Wang et al., 2007) as distributed by Yao et al. (2013) in the jacana package, in pseudo-XML.

A block of lines between `<question>`, `<positive>` or `<negative>` and its closing tag holds a sentence on its first
line, with tabs between the tokens. The lines below hold tags, dependencies and the like, which are not read. No XML
parser can read these files: characters are not escaped, and sentences may begin with "<num>". Only a line that consists
of a tag alone is read as a tag.

The clean dev and test sets (Rao et al., 2016) leave out the questions that have only right or only wrong answers.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers.lines import read_lines
from jaxmatch.data.readers.pairs import PairCollector
from jaxmatch.errors import InputError
from jaxmatch.printable import shown

LABELS = ("0", "1")
ONE_KIND = "the question has not both right and wrong answers"
_QUESTION = re.compile(r"<QApairs id='([^']*)'>")
_LABEL_OF = {"positive": "1", "negative": "0"}
_OPENING = {f"<{name}>": name for name in ("question", *_LABEL_OF)}
_CLOSING = {f"</{name}>": name for name in ("question", *_LABEL_OF)}
_END = "</QApairs>"
_REMEDY = "use the official file, unchanged"


def read(path: Path) -> Split:
    """Reads all pairs of `{train,train-all,dev,test}.xml`; questions without any answer give no pairs.

    The groups are the question ids. Answers have no official names, so a ranking puts wrong answers before right
    answers of equal score.

    Raises:
      InputError: the file or a line of it is damaged.
    """
    pairs = PairCollector(path, LABELS)
    lines = ((line, text.strip(" ")) for line, text in read_lines(path, keep_blank=True))
    group, question = "", ""
    known: dict[str, int] = {}
    for line, text in lines:
        if group and text in _OPENING:
            kind = _OPENING[text]
            sentence = _sentence(lines, path, line, kind)
            if kind == "question":
                question = sentence
            elif not question:
                raise InputError(
                    f"an answer before the question of {shown(group)}", path=path, line=line, remedy=_REMEDY
                )
            else:
                pairs.add(line + 1, question, sentence, _LABEL_OF[kind], group)
        elif group and text == _END:
            group, question = "", ""
        elif not group and (found := _QUESTION.fullmatch(text)):
            group = found[1]
            if known.setdefault(group, line) != line:
                raise InputError(
                    f"question {shown(group)} occurs here again, first on line {known[group]}", path=path, line=line
                )
            if not group:
                raise InputError("the question's id is empty", path=path, line=line)
        elif text.strip():
            expected = f"a tag of an answer or {_END}" if group else "<QApairs id='...'>"
            raise InputError(f"{shown(text)} where {expected} is expected", path=path, line=line, remedy=_REMEDY)
    if group:
        raise InputError(f"the file ends inside of question {shown(group)}", path=path, remedy=_REMEDY)
    return pairs.split()


def read_clean(path: Path) -> Split:
    """Reads `{dev,test}.xml` without the pairs of questions that have only right or only wrong answers.

    Those pairs are counted as dropped.

    Raises:
      InputError: no question is left; also as in `read`.
    """
    whole = read(path)
    kinds: dict[str, set[object]] = {}
    for group, label in zip(whole.groups or (), whole.labels, strict=True):
        kinds.setdefault(group, set()).add(label)
    kept = [row for row, group in enumerate(whole.groups or ()) if len(kinds[group]) == len(LABELS)]
    if not kept:
        raise InputError("no question has both right and wrong answers", path=path)
    left_out = len(whole) - len(kept)
    return whole.part(kept, {ONE_KIND: left_out} if left_out else {})


def _sentence(lines: Iterator[tuple[int, str]], path: Path, start: int, kind: str) -> str:
    """Reads a block up to its closing tag and returns its sentence with spaces between the tokens.

    Arguments:
      lines: the lines below the opening tag.
      path: the file, for error messages.
      start: the line number of the opening tag.
      kind: the name of the tag.

    Raises:
      InputError: the sentence has no words, another tag occurs in the block, or the closing tag is missing.
    """
    sentence, inside = "", f"the <{kind}> of line {start}"
    for line, text in lines:
        if text in _CLOSING:
            if _CLOSING[text] != kind:
                raise InputError(f"{text} inside of {inside}", path=path, line=line, remedy=_REMEDY)
            return sentence
        if text in _OPENING or text == _END or _QUESTION.fullmatch(text):
            raise InputError(f"{text} inside of {inside}", path=path, line=line, remedy=_REMEDY)
        if line == start + 1:
            sentence = " ".join(token for token in text.split("\t") if token.strip())
            if not sentence:
                raise InputError(f"{inside} has no words", path=path, line=line, remedy=_REMEDY)
    raise InputError(f"the file ends inside of {inside}", path=path, remedy=_REMEDY)
