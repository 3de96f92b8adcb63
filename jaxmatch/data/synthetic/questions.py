"""The ranking set: which of five sentences answer the question?

There are three kinds of question:

- "which dogs run", "who loves the girl": a sentence answers the question if it entails that such things exist;
- "how many dogs run": a sentence answers the question if it determines the number;
- "do all dogs run": a sentence answers the question if it entails or contradicts that they do.
"""

from jaxmatch.data.pairs import DataSet, Split
from jaxmatch.data.synthetic import edits, grammar, semantics
from jaxmatch.data.synthetic.balance import Balance, shallow_features
from jaxmatch.data.synthetic.draws import Draws
from jaxmatch.data.synthetic.grammar import COUNTING, EXACTLY, NONE, SOME, THE, Clause
from jaxmatch.data.synthetic.lexicon import PERSON

LABELS = ("0", "1")
SIZES = {"train": 1200, "dev": 200, "test": 200}  # questions
CANDIDATES = 5
_LONGEST = 11  # words of a question
_SEED = 20_190_803
WHICH, HOW_MANY, WHETHER = range(3)
_RIGHT = ("stronger", "stronger", "wording", "wording")
_WRONG = (
    "weaker",
    "noun",
    "adjective",
    "swapped adjectives",
    "landmark",
    "landmark adjective",
    "new predicate",
    "swapped roles",
)
_WRONG += ("predicate", "negation", "opposite quantifier")


def ask(kind: int, clause: Clause) -> str:
    """Returns a question in words.

    Arguments:
      kind: the kind of question; WHICH and HOW_MANY ask for the subject of the clause, WHETHER for its truth.
      clause: the clause that the question is about.
    """
    if kind == WHETHER:
        words, plural = (grammar.landmark(clause), False) if clause.inverted else grammar.subject(clause)
        return f"{grammar.auxiliary(clause, plural)} {words} {grammar.remainder(clause)}"
    if kind == WHICH and clause.noun.realm == PERSON and not clause.noun.lowest and clause.adjective is None:
        return f"who {grammar.verb_phrase(clause, False)}"
    subject = grammar.noun_phrase("which" if kind == WHICH else "how many", clause.adjective, clause.noun, True)
    return f"{subject} {grammar.verb_phrase(clause, True)}"


def answers(kind: int, clause: Clause, candidate: semantics.Meaning) -> bool | None:
    """Returns whether a candidate answers a question; None if it contradicts a presupposition of the question."""
    if kind == HOW_MANY:
        none = semantics.relation(candidate, grammar.meaning(clause._replace(quantifier=NONE)))
        if none is None:
            return None
        # A candidate that leaves open whether such things exist cannot determine their number.
        counts = (clause._replace(quantifier=EXACTLY, number=number) for number in range(2, 7))
        return none == semantics.ENTAILMENT or (
            none == semantics.CONTRADICTION
            and any(semantics.relation(candidate, grammar.meaning(count)) == semantics.ENTAILMENT for count in counts)
        )
    relation = semantics.relation(candidate, grammar.meaning(clause))
    if relation is None:
        return None
    return relation == semantics.ENTAILMENT or (kind == WHETHER and relation == semantics.CONTRADICTION)


def _question(draws: Draws) -> tuple[int, Clause]:
    while True:
        clause = edits.draw_clause(draws)
        kind = draws.one_of((WHICH, WHICH, HOW_MANY, WHETHER))
        if kind != WHETHER:
            clause = clause._replace(quantifier=SOME, number=0, negated=False, inverted=False, style=0)
        elif clause.negated:
            continue
        if kind == WHICH and clause.noun.realm == PERSON and clause.noun.forms[0] not in ("person", "child", "adult"):
            wider = [noun for noun in edits.NEIGHBOURS[clause.noun].wider if noun.forms[0] == "person"]
            if wider and draws.chance(0.5):
                clause = clause._replace(noun=wider[0], adjective=None)
        if grammar.well_formed(clause):
            return kind, clause


def _statement(draws: Draws, kind: int, clause: Clause, right: bool) -> tuple[Clause, ...]:
    if kind == HOW_MANY:
        counted = draws.chance(0.75) if right else draws.chance(0.4)
        quantifier = draws.one_of((EXACTLY, EXACTLY, NONE)) if counted else draws.one_of((*COUNTING[:2], SOME))
        clause = clause._replace(quantifier=quantifier, number=2 + draws.below(5) if quantifier in COUNTING else 0)
    elif kind == WHICH:
        quantifier = (
            THE if clause.noun.lowest and draws.chance(0.6) else draws.one_of((SOME, grammar.ALL, NONE, *COUNTING))
        )
        narrower = edits.NEIGHBOURS[clause.noun].narrower
        lowest = [noun for noun in narrower if noun.lowest]
        if lowest and draws.chance(0.7):
            clause, quantifier = clause._replace(noun=draws.one_of(lowest)), draws.one_of((THE, THE, quantifier))
        clause = clause._replace(quantifier=quantifier, number=2 + draws.below(5) if quantifier in COUNTING else 0)
    clause = clause._replace(style=draws.below(2))
    for _ in range(1 + draws.below(2)):
        clause = edits.edited(draws, clause, _RIGHT if right else _WRONG)
    if not draws.chance(0.4):
        return (clause,)
    disjoint = edits.NEIGHBOURS[clause.noun].disjoint
    other = clause._replace(noun=draws.one_of(disjoint)) if disjoint else clause
    other = edits.edited(draws, other, _WRONG) if grammar.well_formed(other) else edits.draw_clause(draws)
    return tuple(draws.shuffled((clause, other)))


def _draw_candidates(draws: Draws, kind: int, clause: Clause, question: str, rights: int) -> tuple[dict, dict]:
    """Returns wrong and right candidates, each as text -> shallow features, with spare ones to choose from."""
    found: tuple[dict, dict] = ({}, {})
    for attempt in range(24):
        statement = _statement(draws, kind, clause, bool(attempt & 1))
        if not all(grammar.well_formed(each) for each in statement):
            continue
        text = grammar.joined_text(statement)
        if text is None or text in found[0] or text in found[1]:
            continue
        right = answers(kind, clause, grammar.joint_meaning(statement))
        if right is not None:
            found[right][text] = shallow_features(text, question)
        if len(found[0]) > CANDIDATES - rights and len(found[1]) > rights:
            break
    return found


def generate() -> DataSet:
    """Generates the ranking set; see `jaxmatch.data.synthetic.generate`."""
    draws = Draws(_SEED)
    balance = Balance(len(LABELS))
    questions: set[str] = set()
    splits = {}
    for name, size in SIZES.items():
        rows = []
        for number in range(size):
            while True:
                kind, clause = _question(draws)
                question = ask(kind, clause)
                if question in questions or not 4 <= question.count(" ") + 1 <= _LONGEST:
                    continue
                rights = 1 + draws.below(3)
                found = _draw_candidates(draws, kind, clause, question, rights)
                if len(found[1]) >= rights and len(found[0]) >= CANDIDATES - rights:
                    break
            questions.add(question)
            chosen = []
            for label, wanted in ((1, rights), (0, CANDIDATES - rights)):
                texts = list(found[label])
                for _ in range(wanted):
                    best = balance.choose([found[label][text] for text in texts], label)
                    chosen.append((question, texts.pop(best), LABELS[label]))
            group = f"{name}-q{number + 1}"
            rows += [(*row, group, f"{group}-d{place}") for place, row in enumerate(draws.shuffled(chosen), 1)]
        splits[name] = Split(*zip(*rows, strict=True))
    return DataSet("embedded_ranking", "ranking", LABELS, splits)
