"""The symmetric set: do two sentences have the same meaning?

A pair is a paraphrase if each sentence entails the other, so exchanging the sentences keeps the label. Every base
sentence occurs once with a paraphrase and once with a near miss: swapped adjectives, swapped roles, an antonym, a wider
word.
"""

from jaxmatch.data.pairs import DataSet, Split
from jaxmatch.data.synthetic import edits, grammar, semantics
from jaxmatch.data.synthetic.balance import Balance, shallow_features
from jaxmatch.data.synthetic.draws import Draws
from jaxmatch.data.synthetic.grammar import Clause

LABELS = ("0", "1")
SIZES = {"train": 3000, "dev": 500, "test": 500}  # base sentences; two pairs each
_SEED = 20_190_802
_NEAR_MISS_EDITS = ("predicate", "noun", "adjective", "swapped adjectives", "swapped roles", "negation", "landmark")
_NEAR_MISS_EDITS += ("opposite quantifier", "number", "stronger", "weaker", "landmark adjective")


def _reworded(draws: Draws, clauses: tuple[Clause, ...], times: int) -> tuple[Clause, ...]:
    changed = list(clauses)
    for _ in range(times):
        position = draws.below(len(changed))
        changed[position] = edits.edited(draws, changed[position], ("wording",))
    return tuple(draws.shuffled(changed))


def _near_miss(draws: Draws, clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    if len(clauses) == 2 and draws.chance(0.5):
        swapped = edits.exchanged(draws, *clauses)
        if swapped is not None:
            return swapped
    position = draws.below(len(clauses))
    changed = edits.edited(draws, clauses[position], _NEAR_MISS_EDITS)
    return (*clauses[:position], changed, *clauses[position + 1 :])


def same(first: semantics.Meaning, second: semantics.Meaning) -> bool | None:
    """Returns whether each sentence entails the other; None if a sentence contradicts itself or the common ground."""
    relation = semantics.relation(first, second)
    if relation != semantics.ENTAILMENT:
        return None if relation is None else False
    return semantics.relation(second, first) == semantics.ENTAILMENT


def _base(draws: Draws) -> tuple[Clause, ...]:
    first = edits.draw_clause(draws)
    if first.landmark is not None or draws.chance(0.3):
        return (first,)
    # The second clause is often about another thing of the same realm, so that the clauses can exchange predicates.
    disjoint = edits.NEIGHBOURS[first.noun].disjoint
    second = edits.draw_clause(draws)
    if disjoint and draws.chance(0.7):
        second = edits.edited(
            draws, first._replace(noun=draws.one_of(disjoint)), ("predicate", "adjective", "new predicate")
        )
    return (first, second) if grammar.well_formed(second) else (first,)


def _candidates(
    draws: Draws, base: tuple[Clause, ...], text: str, wanted: int = 2, attempts: int = 4
) -> tuple[dict, dict]:
    """Returns near misses and paraphrases of a base sentence, each as text -> shallow features.

    Arguments:
      draws: the source of random draws.
      base: the base sentence.
      text: the words of the base sentence.
      wanted: the number of sentences at which the search for a label ends.
      attempts: the greatest number of attempts for a label.
    """
    meaning = grammar.joint_meaning(base)
    found: tuple[dict, dict] = ({}, {})
    for kept in (0, 1):
        for _ in range(attempts):
            if len(found[kept]) == wanted:
                break
            other = _reworded(draws, base if kept else _near_miss(draws, base), 1 + draws.below(2) + kept)
            rewording = grammar.joined_text(other)
            if rewording is None or rewording == text:
                continue
            if same(meaning, grammar.joint_meaning(other)) is bool(kept):
                found[kept][rewording] = shallow_features(rewording, text)
        if not found[kept]:
            break
    return found


def generate() -> DataSet:
    """Generates the symmetric set; see `jaxmatch.data.synthetic.generate`."""
    draws = Draws(_SEED)
    balance = Balance(len(LABELS))
    used: set[str] = set()
    splits = {}
    for name, size in SIZES.items():
        pairs = []
        while len(pairs) < len(LABELS) * size:
            base = _base(draws)
            text = grammar.joined_text(base)
            if text is None or text in used:
                continue
            found = _candidates(draws, base, text)
            if not all(found) or any(other in used for others in found for other in others):
                continue
            used.add(text)
            for kept, label in enumerate(LABELS):
                others = list(found[kept])
                other = others[balance.choose([found[kept][other] for other in others], kept)]
                used.add(other)
                pairs.append((text, other, label) if draws.chance(0.5) else (other, text, label))
        splits[name] = Split(*zip(*draws.shuffled(pairs), strict=True))
    return DataSet("embedded_paraphrase", "classification", LABELS, splits)
