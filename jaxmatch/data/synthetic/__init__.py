"""Data that comes with the project: sentence pairs made by rules, with word vectors of their own.

Labels follow from what the sentences mean (`semantics`), words from a small taxonomy (`lexicon`). A sentence alone
says nothing about its label, and the words of both say little: a model has to compare word with word in context.
"""

from jaxmatch.data.dataset import DataSet
from jaxmatch.data.synthetic import entailment, paraphrase, questions
from jaxmatch.data.synthetic.taxonomy_vectors import DIMENSIONS, word_vectors
from jaxmatch.errors import InputError, nearest
from jaxmatch.printable import shown

__all__ = ["DIMENSIONS", "KINDS", "VERSION", "generate", "word_vectors"]

# To be raised with every change of what is generated: cached encodings depend on it.
VERSION = "2"

KINDS = {
    "embedded_inference": entailment.generate,
    "embedded_paraphrase": paraphrase.generate,
    "embedded_ranking": questions.generate,
}


def generate(kind: str) -> DataSet:
    """Makes an embedded set; the same one everywhere and every time.

    Arguments:
      kind: "embedded_inference" (entailment, neutral, contradiction), "embedded_paraphrase" (symmetric) or
        "embedded_ranking" (five candidates a question, right and wrong ones).

    Raises:
      InputError: for any other kind.
    """
    if kind not in KINDS:
        raise InputError(f"there is no embedded set {shown(kind)}", remedy=nearest(kind, KINDS))
    return KINDS[kind]()
