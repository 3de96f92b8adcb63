"""The three-class set: does the first sentence entail the second, contradict it, or neither?

Every second sentence occurs with three first sentences, one for each label, so it alone does not predict the label.
The first sentences are chosen so that their words and the overlap of the two sentences hardly predict it (`balance`).
"""

from jaxmatch.data.pairs import DataSet, Split
from jaxmatch.data.synthetic import edits, grammar, semantics
from jaxmatch.data.synthetic.balance import Balance, shallow_features
from jaxmatch.data.synthetic.draws import Draws
from jaxmatch.data.synthetic.grammar import Clause

LABELS = (semantics.ENTAILMENT, semantics.NEUTRAL, semantics.CONTRADICTION)
SIZES = {"train": 2000, "dev": 334, "test": 334}  # second sentences; three pairs each
_LONGEST = 11  # words of a second sentence
_SEED = 20_190_801
# Edits that often give a label. `semantics.relation` decides which label a pair has.
_LIKELY = {
    semantics.ENTAILMENT: ("stronger", "stronger", "stronger", "wording"),
    semantics.NEUTRAL: (
        "weaker",
        "weaker",
        "noun",
        "adjective",
        "landmark",
        "landmark adjective",
        "new predicate",
        "swapped roles",
    ),
    semantics.CONTRADICTION: ("predicate", "predicate", "opposite quantifier", "opposite quantifier", "swapped roles")
    + ("swapped adjectives", "negation", "number"),
}
_MORE = ("stronger", "wording", "wording", "weaker", "quantifier")
# Edits that make an irrelevant clause, which shares words with the sentence but is about other things.
_DISTRACTIONS = ("noun", "predicate", "swapped roles", "adjective", "opposite quantifier")


def _distraction(draws: Draws, clause: Clause) -> Clause:
    if draws.chance(0.4):
        return edits.draw_clause(draws)
    disjoint = edits.NEIGHBOURS[clause.noun].disjoint
    clause = clause._replace(noun=draws.one_of(disjoint)) if disjoint else clause
    if not grammar.well_formed(clause):
        clause = edits.draw_clause(draws)
    for _ in range(draws.below(2) + draws.below(2)):
        clause = edits.edited(draws, clause, _DISTRACTIONS)
    return clause


def _premise(draws: Draws, hypothesis: tuple[Clause, ...], aim: str) -> tuple[Clause, ...]:
    clauses = list(hypothesis)
    decisive = draws.below(len(clauses))
    for position, clause in enumerate(clauses):
        likely = _LIKELY[aim if position == decisive else semantics.ENTAILMENT]
        clauses[position] = edits.edited(draws, clause, likely)
        if draws.chance(0.25):
            clauses[position] = edits.edited(draws, clauses[position], _MORE)
    if len(clauses) == 1 and draws.chance(0.35):
        clauses.append(_distraction(draws, hypothesis[0]))
    return tuple(draws.shuffled(clauses))


def _candidates(
    draws: Draws, hypothesis: tuple[Clause, ...], text_b: str, used: set[str], wanted: int = 2, attempts: int = 3
):
    """Returns first sentences by label: text -> shallow features, at most `wanted` for each label."""
    meaning_b = grammar.joint_meaning(hypothesis)
    found = {label: {} for label in LABELS}
    for aim in LABELS:
        for _ in range(attempts):
            if len(found[aim]) == wanted:
                break
            premise = _premise(draws, hypothesis, aim)
            text_a = grammar.joined_text(premise)
            if text_a is None or text_a == text_b or text_a in used:
                continue
            label = semantics.relation(grammar.joint_meaning(premise), meaning_b)
            if label is not None and len(found[label]) < wanted:
                found[label][text_a] = shallow_features(text_a, text_b)
        if not found[aim]:
            break
    return found


def generate() -> DataSet:
    """Generates the three-class set; see `jaxmatch.data.synthetic.generate`."""
    draws = Draws(_SEED)
    balance = Balance(len(LABELS))
    used: set[str] = set()
    splits = {}
    for name, size in SIZES.items():
        pairs = []
        while len(pairs) < len(LABELS) * size:
            hypothesis = (edits.draw_clause(draws),)
            if draws.chance(0.05):
                hypothesis += (edits.draw_clause(draws),)
            text_b = grammar.joined_text(hypothesis, _LONGEST)
            if text_b is None or text_b in used:
                continue
            found = _candidates(draws, hypothesis, text_b, used)
            if not all(found.values()):
                continue
            used.add(text_b)
            for number, label in enumerate(LABELS):
                texts = list(found[label])
                chosen = balance.choose([found[label][text] for text in texts], number)
                used.add(texts[chosen])
                pairs.append((texts[chosen], text_b, label))
        columns = zip(*draws.shuffled(pairs), strict=True)
        splits[name] = Split(*columns)
    return DataSet("embedded_inference", "classification", LABELS, splits)
