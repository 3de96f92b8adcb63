"""Clauses, their wording and their meaning."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxmatch.data.synthetic.lexicon import LIVING, NUMBERS, PERSON, Word
from jaxmatch.data.synthetic.semantics import UNBOUNDED, Box, Claim, Meaning, universe

THE, SOME, ALL, NONE, NOT_ALL, AT_LEAST, AT_MOST, EXACTLY = range(8)
COUNTING = (AT_LEAST, AT_MOST, EXACTLY)

# quantifier -> its wordings: (words before the noun, whether the noun is plural).
_DETERMINERS = {
    THE: (("the", False),),
    SOME: (("some", True), ("a", False)),
    ALL: (("all", True), ("every", False), ("each", False)),
    NONE: (("no", True), ("no", False)),
    NOT_ALL: (("not all", True), ("not every", False)),
}
# Counting quantifier -> its wordings: (words, the number to add to the bound to get the number in the sentence).
_COUNTERS = {
    AT_LEAST: (("at least", 0), ("more than", -1)),
    AT_MOST: (("at most", 0), ("fewer than", 1)),
    EXACTLY: (("exactly", 0),),
}


class Clause(NamedTuple):
    """A clause: a quantifier, a noun with at most one adjective, and a predicate.

    Attributes:
      quantifier: THE, SOME, ...
      number: the bound of a counting quantifier; 0 for the other quantifiers.
      adjective, noun: the things that the clause is about. THE takes only nouns for which no narrower noun exists.
      predicate: an adjective, a verb, a position or a deed; a position and a deed have a landmark.
      negated: whether the predicate is negated; only with THE and SOME, where the scope of the negation is clear.
      landmark, landmark_adjective: the other thing of a position or deed, always with "the".
      inverted: whether the landmark is the subject of the sentence ("the house is behind the car", "the boy is loved
        by the girl"), which does not change the meaning; only with THE.
      style: the wording of the quantifier, one of several with the same meaning.
    """

    quantifier: int
    number: int
    adjective: Word | None
    noun: Word
    predicate: Word
    negated: bool = False
    landmark: Word | None = None
    landmark_adjective: Word | None = None
    inverted: bool = False
    style: int = 0


def fits_landmark(noun: Word, predicate: Word, landmark: Word) -> bool:
    """Returns whether `landmark` can be the landmark of a clause with this noun and predicate.

    Realms are ordered: the landmark of a position is of a later realm than the noun, so that the position is always a
    property of the same one of the two things. Deeds are restricted too: animals pursue persons, and persons like
    persons or animals.
    """
    if not landmark.lowest or landmark.mask == noun.mask:
        return False
    if predicate.part == "position":
        return landmark.realm > noun.realm and landmark.realm not in LIVING
    return landmark.realm in LIVING if predicate.dimension == "attitude" else landmark.realm == PERSON


def well_formed(clause: Clause) -> bool:
    """Returns whether the clause obeys the rules of `Clause`."""
    noun, predicate, landmark = clause.noun, clause.predicate, clause.landmark
    if noun.realm not in predicate.realms or (
        clause.adjective is not None and noun.realm not in clause.adjective.realms
    ):
        return False
    if clause.quantifier == THE and not noun.lowest:
        return False
    if clause.adjective is not None and clause.adjective.dimension == predicate.dimension:
        return False
    if clause.negated and clause.quantifier not in (THE, SOME):
        return False
    if clause.inverted and (clause.quantifier != THE or landmark is None):
        return False
    if clause.quantifier in COUNTING and clause.number not in range(2, 7):
        return False
    if (landmark is not None) != (predicate.part in ("position", "deed")):
        return False
    if landmark is None:
        return clause.landmark_adjective is None
    if clause.landmark_adjective is not None and landmark.realm not in clause.landmark_adjective.realms:
        return False
    return fits_landmark(noun, predicate, landmark)


def _box(*words: Word | None) -> Box:
    return tuple([(word.dimension, word.mask) for word in words if word is not None])


def meaning(clause: Clause) -> Meaning:
    """Returns the claims that the clause presupposes and the claims that it asserts."""
    subject = _box(clause.adjective, clause.noun)
    dimension = clause.predicate.dimension
    if clause.landmark is not None:
        dimension = f"{dimension}:{clause.landmark.mask}"
    mask = clause.predicate.mask
    rest = universe(dimension) & ~mask
    if clause.negated:
        mask, rest = rest, mask
    yes, no = (*subject, (dimension, mask)), (*subject, (dimension, rest))
    if clause.quantifier == THE:
        presupposed, asserted = (Claim(_box(clause.noun), 1, 1),), (Claim(yes, 1),)
    elif clause.quantifier in (ALL, NONE, NOT_ALL):
        presupposed = (Claim(subject, 1),)
        asserted = ({ALL: Claim(no, 0, 0), NONE: Claim(yes, 0, 0), NOT_ALL: Claim(no, 1)}[clause.quantifier],)
    elif clause.quantifier == SOME:
        presupposed, asserted = (), (Claim(yes, 1),)
    else:
        low = 0 if clause.quantifier == AT_MOST else clause.number
        high = UNBOUNDED if clause.quantifier == AT_LEAST else clause.number
        presupposed, asserted = (), (Claim(yes, low, high),)
    if clause.landmark is not None:
        presupposed += (Claim(_box(clause.landmark), 1, 1),)
        if clause.landmark_adjective is not None:
            asserted += (Claim(_box(clause.landmark_adjective, clause.landmark), 1),)
    return Meaning(presupposed, asserted)


def joint_meaning(clauses: Sequence[Clause]) -> Meaning:
    """Returns the meaning of clauses joined by "and"."""
    meanings = [meaning(clause) for clause in clauses]
    return Meaning(
        tuple(claim for each in meanings for claim in each.presupposed),
        tuple(claim for each in meanings for claim in each.asserted),
    )


def styles(quantifier: int, number: int) -> int:
    """Returns the number of wordings of a quantifier."""
    if quantifier == AT_LEAST and number == 2:
        return 1  # "more than one" would need a singular noun
    return len(_COUNTERS[quantifier] if quantifier in COUNTING else _DETERMINERS[quantifier])


def noun_phrase(words: str, adjective: Word | None, noun: Word, plural: bool) -> str:
    """Joins determiner, adjective and noun; "a" becomes "an" before a vowel."""
    phrase = f"{adjective.forms[0]} " if adjective is not None else ""
    phrase += noun.forms[plural]
    if words == "a" and phrase[0] in "aeiou":
        words = "an"
    return f"{words} {phrase}".lstrip()


def subject(clause: Clause) -> tuple[str, bool]:
    """Returns the words of the subject of a clause that is not inverted, and whether it is plural."""
    if clause.quantifier in COUNTING:
        words, shift = _COUNTERS[clause.quantifier][clause.style % styles(clause.quantifier, clause.number)]
        words, plural = f"{words} {NUMBERS[clause.number + shift]}", True
    else:
        choices = _DETERMINERS[clause.quantifier]
        words, plural = choices[clause.style % len(choices)]
    return noun_phrase(words, clause.adjective, clause.noun, plural), plural


def landmark(clause: Clause) -> str:
    """Returns the words of the landmark of a clause."""
    return noun_phrase("the", clause.landmark_adjective, clause.landmark, False)


def auxiliary(clause: Clause, plural: bool) -> str:
    """Returns the auxiliary verb that a negation or a question of the clause needs."""
    if clause.predicate.part in ("adjective", "position") or (clause.inverted and clause.predicate.part == "deed"):
        return "are" if plural else "is"
    return "do" if plural else "does"


def remainder(clause: Clause) -> str:
    """Returns the words that follow an auxiliary: "left of the house", "run", "loved by the girl"."""
    predicate = clause.predicate
    if predicate.part == "position":
        if clause.inverted:
            return f"{predicate.forms[1]} {noun_phrase('the', clause.adjective, clause.noun, False)}"
        return f"{predicate.forms[0]} {landmark(clause)}"
    if predicate.part == "deed":
        if clause.inverted:
            return f"{predicate.forms[2]} by {noun_phrase('the', clause.adjective, clause.noun, False)}"
        return f"{predicate.forms[0]} {landmark(clause)}"
    return predicate.forms[0]


def verb_phrase(clause: Clause, plural: bool) -> str:
    """Returns the words that follow the subject, in the plural if the subject is plural."""
    helper = auxiliary(clause, plural)
    if clause.negated:
        return f"{helper} not {remainder(clause)}"
    if helper in ("is", "are"):
        return f"{helper} {remainder(clause)}"
    _, _, objects = remainder(clause).partition(" ")
    return " ".join(filter(None, (clause.predicate.forms[not plural], objects)))


def text_of(clause: Clause) -> str:
    """Returns the clause in words, in lowercase and without punctuation."""
    if clause.inverted:
        return f"{landmark(clause)} {verb_phrase(clause, False)}"
    words, plural = subject(clause)
    return f"{words} {verb_phrase(clause, plural)}"


def joined_text(clauses: Sequence[Clause], longest: int = 14) -> str | None:
    """Returns the clauses joined by "and".

    The result is None if the text has fewer than four words or more than `longest`, or repeats a clause.
    """
    texts = [text_of(clause) for clause in clauses]
    text = " and ".join(texts)
    return text if 4 <= text.count(" ") + 1 <= longest and len(set(texts)) == len(texts) else None


FUNCTION_WORDS = tuple(
    "the some a an all every each no not at least most more fewer than exactly is are do does and by to of in front "
    "next left right "
    "which who what how many".split()
)
