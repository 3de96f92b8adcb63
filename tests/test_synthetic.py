"""The embedded synthetic data sets: the meanings of sentences, and the labels that follow from them."""

import collections
import itertools

import pytest

from jaxmatch.data.synthetic import edits, grammar, lexicon, paraphrase, questions, semantics
from jaxmatch.data.synthetic.draws import Draws
from jaxmatch.data.synthetic.grammar import ALL, AT_LEAST, AT_MOST, EXACTLY, NONE, NOT_ALL, SOME, THE, Clause

WORDS = {(word.part, word.forms[0]): word for word in lexicon.WORDS}


def noun(name):
    return WORDS["noun", name]


def verb(name):
    return WORDS["verb", name]


def adjective(name):
    return WORDS["adjective", name]


def label(first, second):
    return semantics.relation(grammar.joint_meaning(first), grammar.joint_meaning(second))


def simple(quantifier, subject, predicate, *, described=None, number=0, negated=False):
    return Clause(quantifier, number, described and adjective(described), noun(subject), verb(predicate), negated)


# First sentence, second sentence, and their label according to logic.
KNOWN = [
    (simple(ALL, "dog", "run"), simple(ALL, "poodle", "move"), "entailment"),
    (simple(ALL, "poodle", "run"), simple(ALL, "dog", "run"), "neutral"),
    (simple(NONE, "dog", "move"), simple(NONE, "poodle", "run"), "entailment"),
    (simple(NONE, "dog", "run"), simple(NONE, "dog", "move"), "neutral"),
    (simple(SOME, "poodle", "sprint"), simple(SOME, "dog", "run"), "entailment"),
    (simple(SOME, "poodle", "run"), simple(NONE, "dog", "move"), "contradiction"),
    (simple(ALL, "dog", "run"), simple(ALL, "dog", "swim"), "contradiction"),
    (simple(ALL, "dog", "run"), simple(ALL, "dog", "eat"), "neutral"),
    (simple(ALL, "dog", "run"), simple(ALL, "dog", "run", described="old"), "entailment"),
    (simple(ALL, "dog", "run", described="old"), simple(ALL, "dog", "run"), "neutral"),
    (simple(ALL, "dog", "run"), simple(NOT_ALL, "dog", "run"), "contradiction"),
    (simple(NOT_ALL, "dog", "run"), simple(SOME, "dog", "run", negated=True), "entailment"),
    (simple(SOME, "dog", "run", negated=True), simple(NOT_ALL, "dog", "run"), "entailment"),
    (simple(THE, "poodle", "run", described="old"), simple(SOME, "dog", "move"), "entailment"),
    (simple(THE, "poodle", "run", described="old"), simple(THE, "poodle", "run", described="young"), "contradiction"),
    (simple(THE, "poodle", "run", negated=True), simple(THE, "poodle", "move", negated=True), "neutral"),
    (simple(THE, "poodle", "move", negated=True), simple(THE, "poodle", "run", negated=True), "entailment"),
    (simple(AT_LEAST, "dog", "run", number=4), simple(AT_LEAST, "animal", "run", number=3), "entailment"),
    (simple(AT_LEAST, "dog", "run", number=3), simple(AT_LEAST, "dog", "run", number=4), "neutral"),
    (simple(AT_LEAST, "dog", "run", number=4), simple(AT_MOST, "animal", "move", number=3), "contradiction"),
    (simple(AT_MOST, "animal", "move", number=3), simple(AT_MOST, "dog", "run", number=5), "entailment"),
    (simple(EXACTLY, "dog", "run", number=3), simple(AT_MOST, "dog", "run", number=3), "entailment"),
    (simple(EXACTLY, "dog", "run", number=3), simple(EXACTLY, "dog", "run", number=4), "contradiction"),
    (simple(NONE, "dog", "run"), simple(AT_MOST, "dog", "run", number=2), "entailment"),
    # Being sad is one way of not being happy, not the only one.
    (
        Clause(THE, 0, None, noun("cat"), adjective("sad")),
        Clause(THE, 0, None, noun("cat"), adjective("happy"), True),
        "entailment",
    ),
    (
        Clause(THE, 0, None, noun("cat"), adjective("happy"), True),
        Clause(THE, 0, None, noun("cat"), adjective("sad")),
        "neutral",
    ),
]


@pytest.mark.parametrize("first, second, expected", KNOWN)
def test_labels_follow_logic(first, second, expected):
    assert grammar.well_formed(first) and grammar.well_formed(second)
    assert label((first,), (second,)) == expected


def relation_clause(
    subject, predicate, landmark, described=None, landmark_described=None, part="position", inverted=False
):
    return Clause(
        THE,
        0,
        described and adjective(described),
        noun(subject),
        WORDS[part, predicate],
        False,
        noun(landmark),
        landmark_described and adjective(landmark_described),
        inverted,
    )


def test_swapped_attributes_contradict():
    first = relation_clause("car", "behind", "tower", "red", "blue")
    second = relation_clause("car", "behind", "tower", "blue", "red")
    assert grammar.text_of(first) == "the red car is behind the blue tower"
    assert label((first,), (second,)) == "contradiction"
    assert sorted(grammar.text_of(first).split()) == sorted(grammar.text_of(second).split())


def test_labels_of_spatial_relations_and_their_converses():
    left = relation_clause("car", "left of", "tower")
    right = relation_clause("car", "right of", "tower")
    assert grammar.text_of(left._replace(inverted=True)) == "the tower is right of the car"
    assert label((left,), (left._replace(inverted=True),)) == "entailment"
    assert label((left,), (relation_clause("car", "beside", "tower"),)) == "entailment"
    assert label((relation_clause("car", "beside", "tower"),), (left,)) == "neutral"
    # "the car is left of the tower", "the tower is left of the car"
    assert grammar.text_of(right._replace(inverted=True)) == "the tower is left of the car"
    assert label((left,), (right._replace(inverted=True),)) == "contradiction"


def test_labels_of_deeds_depend_on_their_direction():
    loves = relation_clause("boy", "love", "girl", part="deed")
    loved = relation_clause("girl", "love", "boy", part="deed")
    assert grammar.text_of(loves._replace(inverted=True)) == "the girl is loved by the boy"
    assert label((loves,), (loved,)) == "neutral"
    assert label((loves,), (relation_clause("boy", "like", "girl", part="deed", inverted=True),)) == "entailment"
    assert label((loves,), (relation_clause("boy", "hate", "girl", part="deed"),)) == "contradiction"


def test_adjectives_apply_only_to_their_own_clause():
    premise = (simple(ALL, "dog", "run", described="old"), simple(NONE, "cat", "run", described="young"))
    assert label(premise, (simple(NONE, "dog", "run", described="young"),)) == "neutral"
    assert label(premise, (simple(NONE, "cat", "run", described="young"),)) == "entailment"
    assert label(premise, (simple(SOME, "cat", "run", described="young"),)) == "contradiction"
    # All cats run, so no cat swims.
    both = (simple(ALL, "cat", "run"), simple(ALL, "dog", "run"))
    assert label(both, (simple(SOME, "cat", "swim"), simple(ALL, "dog", "run"))) == "contradiction"


def test_a_contradicted_presupposition_has_no_label():
    assert label((simple(EXACTLY, "poodle", "run", number=3),), (simple(THE, "poodle", "eat"),)) is None


def brute_force(first, second):
    """Returns the relation by enumerating all small worlds, or None if a presupposition is contradicted.

    Only for clauses about cats and adjectives.
    """
    cells = list(itertools.product([1, 2, 4], repeat=2))  # happy, sad, neither; big, small, neither
    cat = noun("cat").mask

    def count(world, box):
        allowed = dict(box)
        return sum(
            number
            for (mood, size), number in world.items()
            if allowed.get("kind", cat) & cat and allowed.get("mood", 7) & mood and allowed.get("size", 7) & size
        )

    def true(world, claims):
        return all(low <= count(world, box) <= high for box, low, high in claims)

    presupposed = first.presupposed + second.presupposed
    worlds = []
    for size in range(6):
        for things in itertools.combinations_with_replacement(cells, size):
            world = collections.Counter(things)
            if true(world, presupposed):
                worlds.append((true(world, first.asserted), true(world, second.asserted)))
    if not any(a for a, _ in worlds) or not any(b for _, b in worlds):
        return None
    if not any(a and b for a, b in worlds):
        return "contradiction"
    return "entailment" if all(b for a, b in worlds if a) else "neutral"


def test_relation_equals_brute_force_over_all_small_worlds():
    cat, draws = noun("cat"), Draws(5)
    quantifiers = (THE, SOME, ALL, NONE, NOT_ALL, AT_LEAST, AT_MOST, EXACTLY)

    def clause():
        quantifier = draws.one_of(quantifiers)
        described = draws.one_of((None, adjective("big"), adjective("small")))
        predicate = adjective(draws.one_of(("happy", "sad")))
        number = 2 if quantifier in grammar.COUNTING else 0
        return Clause(quantifier, number, described, cat, predicate, quantifier in (THE, SOME) and draws.chance(0.5))

    seen = collections.Counter()
    for _ in range(80):
        first, second = grammar.meaning(clause()), grammar.meaning(clause())
        expected = brute_force(first, second)
        seen[expected] += 1
        assert semantics.relation(first, second) == expected
    assert min(seen[name] for name in ("entailment", "neutral", "contradiction")) >= 3


def test_sentences_have_correct_articles_numbers_and_agreement():
    assert grammar.text_of(Clause(SOME, 0, adjective("old"), noun("cat"), verb("run"), style=1)) == "an old cat runs"
    assert grammar.text_of(Clause(SOME, 0, None, noun("woman"), verb("march"), style=0)) == "some women march"
    assert grammar.text_of(Clause(ALL, 0, None, noun("bus"), adjective("red"), style=1)) == "every bus is red"
    assert grammar.text_of(Clause(AT_LEAST, 4, None, noun("dog"), verb("run"), style=1)) == "more than three dogs run"
    assert grammar.text_of(Clause(AT_MOST, 4, None, noun("dog"), verb("run"), style=1)) == "fewer than five dogs run"
    assert grammar.text_of(Clause(THE, 0, None, noun("dog"), verb("run"), True)) == "the dog does not run"


def test_rewording_keeps_the_meaning():
    draws = Draws(3)
    for _ in range(300):
        clause = edits.draw_clause(draws)
        other = edits.edited(draws, clause, ("wording",))
        assert label((clause,), (other,)) == label((other,), (clause,)) == "entailment"


def test_questions_are_worded_and_matched_with_their_answers():
    runs = simple(SOME, "dog", "run")
    assert questions.ask(questions.WHICH, runs) == "which dogs run"
    assert questions.ask(questions.HOW_MANY, runs) == "how many dogs run"
    assert questions.ask(questions.WHETHER, simple(ALL, "dog", "run")) == "do all dogs run"
    assert questions.ask(questions.WHICH, simple(SOME, "person", "run")) == "who runs"
    exact, least, none = (simple(q, "dog", "run", number=n) for q, n in ((EXACTLY, 3), (AT_LEAST, 3), (NONE, 0)))
    assert [questions.answers(questions.HOW_MANY, runs, grammar.meaning(each)) for each in (exact, least, none)] == [
        True,
        False,
        True,
    ]
    assert [questions.answers(questions.WHICH, runs, grammar.meaning(each)) for each in (exact, least, none)] == [
        True,
        True,
        False,
    ]
    every = simple(ALL, "dog", "run")
    assert questions.answers(questions.WHETHER, every, grammar.meaning(simple(THE, "poodle", "swim"))) is True
    assert questions.answers(questions.WHETHER, every, grammar.meaning(simple(THE, "poodle", "run"))) is False


def test_paraphrase_is_symmetric():
    draws, both = Draws(9), collections.Counter()
    for _ in range(200):
        clause = edits.draw_clause(draws)
        other = edits.edited(draws, clause, ("wording", "stronger", "swapped roles", "predicate"))
        first, second = grammar.meaning(clause), grammar.meaning(other)
        assert paraphrase.same(first, second) == paraphrase.same(second, first)
        both[paraphrase.same(first, second)] += 1
    assert min(both.values()) > 20
