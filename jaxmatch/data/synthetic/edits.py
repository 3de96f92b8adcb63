"""Clauses drawn at random, and small edits of a clause, from which pairs of sentences are generated.

An edit does not depend on a label. `semantics` decides the relation of the edited sentence to the original.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

from jaxmatch.data.synthetic.draws import Draws
from jaxmatch.data.synthetic.grammar import (
    ALL,
    AT_LEAST,
    AT_MOST,
    COUNTING,
    NONE,
    NOT_ALL,
    SOME,
    THE,
    Clause,
    fits_landmark,
    styles,
    well_formed,
)
from jaxmatch.data.synthetic.lexicon import ANIMAL, FITTING, LIVING, NEIGHBOURS, NOUNS_OF, PERSON, THINGS, Word

_REALMS = (PERSON, PERSON, PERSON, ANIMAL, ANIMAL, ANIMAL, *THINGS)
_LANDMARKS = tuple(noun for realm in LIVING + THINGS for noun in NOUNS_OF[realm] if noun.lowest)
# The quantifiers to draw from. Those that are to be drawn more often are repeated.
_QUANTIFIERS = (*[THE] * 16, *[SOME] * 3, *[ALL] * 3, *[NONE] * 3, AT_LEAST, AT_MOST)
_PARTS = (*["verb"] * 3, *["adjective"] * 2, "position", "deed")


def draw_adjective(draws: Draws, noun: Word, predicate: Word | None = None) -> Word | None:
    """Draws an adjective that fits the noun and is not of the predicate's dimension; None about half of the time."""
    if draws.chance(0.45):
        return None
    adjective = draws.one_of(FITTING[noun.realm]["adjective"])
    return None if predicate is not None and adjective.dimension == predicate.dimension else adjective


def draw_clause(draws: Draws) -> Clause:
    """Draws a well-formed clause."""
    while True:
        noun = draws.one_of(NOUNS_OF[draws.one_of(_REALMS)])
        predicates = FITTING[noun.realm][draws.one_of(_PARTS)]
        if not predicates:
            continue
        predicate = draws.one_of(predicates)
        landmark = landmark_adjective = None
        if predicate.part in ("position", "deed"):
            landmark = draws.one_of(_LANDMARKS)
            if not fits_landmark(noun, predicate, landmark):
                continue
            landmark_adjective = draw_adjective(draws, landmark)
        quantifier = draws.one_of(_QUANTIFIERS)
        number = 2 + draws.below(5) if quantifier in COUNTING else 0
        clause = Clause(
            quantifier,
            number,
            draw_adjective(draws, noun, predicate),
            noun,
            predicate,
            quantifier in (THE, SOME) and draws.chance(0.15),
            landmark,
            landmark_adjective,
            quantifier == THE and landmark is not None and draws.chance(0.3),
            draws.below(2),
        )
        if well_formed(clause):
            return clause


def _other_noun(draws: Draws, clause: Clause) -> Clause:
    choice = NEIGHBOURS[clause.noun].disjoint
    return clause._replace(noun=draws.one_of(choice)) if choice else clause


def _change_strength(draws: Draws, clause: Clause, stronger: bool) -> Clause:
    """Returns a clause that says more (`stronger`) or less than `clause`.

    A word becomes wider or narrower, the number changes, or an adjective is added or removed. Whether a wider or a
    narrower word says more depends on the quantifier. The clause is returned unchanged if no such change is found.
    """
    # In "some dogs run", a narrower noun and a narrower verb each say more. In "all dogs run", only a narrower verb
    # does. In "no dogs run", neither does.
    narrower_subject = (clause.quantifier in (THE, SOME, AT_LEAST)) == stronger
    narrower_predicate = (clause.quantifier in (NONE, NOT_ALL, AT_MOST)) == (clause.negated == stronger)
    if clause.quantifier in COUNTING and draws.chance(0.4):
        up = (clause.quantifier == AT_LEAST) == stronger
        return clause._replace(number=clause.number + (1 + draws.below(2)) * (1 if up else -1))
    near = NEIGHBOURS[clause.predicate]
    choice = near.narrower if narrower_predicate else near.wider
    if choice and draws.chance(0.5):
        return clause._replace(predicate=draws.one_of(choice))
    near = NEIGHBOURS[clause.noun]
    choice = near.narrower if narrower_subject else near.wider
    if choice and draws.chance(0.5):
        return clause._replace(noun=draws.one_of(choice))
    if narrower_subject != (clause.adjective is None):
        return clause
    return clause._replace(adjective=draw_adjective(draws, clause.noun, clause.predicate) if narrower_subject else None)


def _other_adjective(draws: Draws, clause: Clause) -> Clause:
    if clause.adjective is None:
        return clause._replace(adjective=draw_adjective(draws, clause.noun, clause.predicate))
    near = NEIGHBOURS[clause.adjective]
    choice = draws.one_of((near.disjoint, near.disjoint, (None,)))
    return clause._replace(adjective=draws.one_of(choice)) if choice else clause


def _other_predicate(draws: Draws, clause: Clause) -> Clause:
    choice = NEIGHBOURS[clause.predicate].disjoint
    return clause._replace(predicate=draws.one_of(choice)) if choice else clause


def _new_predicate(draws: Draws, clause: Clause) -> Clause:
    if clause.landmark is not None:
        return clause
    return clause._replace(predicate=draws.one_of(FITTING[clause.noun.realm][clause.predicate.part]))


def _negate(draws: Draws, clause: Clause) -> Clause:
    return clause._replace(negated=not clause.negated)


def _other_quantifier(draws: Draws, clause: Clause) -> Clause:
    quantifier = draws.one_of(_QUANTIFIERS)
    return clause._replace(
        quantifier=quantifier,
        number=2 + draws.below(5) if quantifier in COUNTING else 0,
        negated=clause.negated and quantifier in (THE, SOME),
        inverted=False,
        style=draws.below(2),
    )


def _opposite_quantifier(draws: Draws, clause: Clause) -> Clause:
    opposite = {ALL: (NOT_ALL, NONE, NONE), NONE: (SOME, ALL), SOME: (NONE,), NOT_ALL: (ALL,)}.get(clause.quantifier)
    return clause._replace(quantifier=draws.one_of(opposite), negated=False) if opposite else _negate(draws, clause)


def _other_number(draws: Draws, clause: Clause) -> Clause:
    if clause.quantifier not in COUNTING:
        return _other_quantifier(draws, clause)
    return clause._replace(
        quantifier=draws.one_of(COUNTING) if draws.chance(0.5) else clause.quantifier, number=2 + draws.below(5)
    )


def _swap_adjectives(draws: Draws, clause: Clause) -> Clause:
    if clause.landmark is None:
        return _other_adjective(draws, clause)
    return clause._replace(adjective=clause.landmark_adjective, landmark_adjective=clause.adjective)


def _swap_roles(draws: Draws, clause: Clause) -> Clause:
    """Exchanges the two things of a relation together with their adjectives."""
    if clause.landmark is None or clause.quantifier != THE:
        return _other_predicate(draws, clause)
    if (
        fits_landmark(clause.landmark, clause.predicate, clause.noun)
        and clause.landmark.realm in clause.predicate.realms
    ):
        return clause._replace(
            noun=clause.landmark,
            landmark=clause.noun,
            adjective=clause.landmark_adjective,
            landmark_adjective=clause.adjective,
        )
    converse = [word for word in NEIGHBOURS[clause.predicate].disjoint if word.forms == clause.predicate.forms[::-1]]
    if not converse:
        return _other_predicate(draws, clause)
    return clause._replace(predicate=draws.one_of(converse), inverted=not clause.inverted)


def _other_landmark(draws: Draws, clause: Clause) -> Clause:
    if clause.landmark is None:
        return _other_predicate(draws, clause)
    choice = NEIGHBOURS[clause.landmark].disjoint
    return clause._replace(landmark=draws.one_of(choice)) if choice else clause


def _other_landmark_adjective(draws: Draws, clause: Clause) -> Clause:
    if clause.landmark is None:
        return _other_adjective(draws, clause)
    if clause.landmark_adjective is None:
        return clause._replace(landmark_adjective=draw_adjective(draws, clause.landmark))
    near = NEIGHBOURS[clause.landmark_adjective]
    choice = draws.one_of((near.disjoint, near.disjoint, (None,)))
    return clause._replace(landmark_adjective=draws.one_of(choice)) if choice else clause


def exchanged(draws: Draws, first: Clause, second: Clause) -> tuple[Clause, Clause] | None:
    """Exchanges the adjectives or the predicates of two clauses; None if that is impossible or changes nothing."""
    fields = ("adjective",) if draws.chance(0.5) else ("predicate", "negated", "landmark", "landmark_adjective")
    swapped = (
        first._replace(**{field: getattr(second, field) for field in fields}),
        second._replace(**{field: getattr(first, field) for field in fields}),
    )
    return swapped if swapped[0] != first and all(well_formed(clause) for clause in swapped) else None


def _reword(draws: Draws, clause: Clause) -> Clause:
    """Rewords the clause without a change of its meaning."""
    if clause.landmark is not None and clause.quantifier == THE and draws.chance(0.5):
        return clause._replace(inverted=not clause.inverted)
    if styles(clause.quantifier, clause.number) > 1 and draws.chance(0.4):
        return clause._replace(style=clause.style + 1 + draws.below(2))
    fields = [
        (field, NEIGHBOURS[word].same)
        for field in ("adjective", "noun", "predicate", "landmark", "landmark_adjective")
        if (word := getattr(clause, field)) is not None and NEIGHBOURS[word].same
    ]
    if not fields:
        return clause
    field, same = draws.one_of(fields)
    return clause._replace(**{field: draws.one_of(same)})


EDITS: Mapping[str, Callable[[Draws, Clause], Clause]] = {
    "noun": _other_noun,
    "stronger": functools.partial(_change_strength, stronger=True),
    "weaker": functools.partial(_change_strength, stronger=False),
    "adjective": _other_adjective,
    "predicate": _other_predicate,
    "new predicate": _new_predicate,
    "negation": _negate,
    "quantifier": _other_quantifier,
    "opposite quantifier": _opposite_quantifier,
    "number": _other_number,
    "swapped adjectives": _swap_adjectives,
    "swapped roles": _swap_roles,
    "landmark": _other_landmark,
    "landmark adjective": _other_landmark_adjective,
    "wording": _reword,
}


_ATTEMPTS = 6


def edited(draws: Draws, clause: Clause, names: Sequence[str]) -> Clause:
    """Returns the clause after one of the named edits, or the clause itself if no attempt gives a well-formed one."""
    for _ in range(_ATTEMPTS):
        changed = EDITS[draws.one_of(names)](draws, clause)
        if changed is not clause and well_formed(changed):
            return changed
    return clause
