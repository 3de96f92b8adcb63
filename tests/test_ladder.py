"""Which settings are promoted from a rung, in any order of arrival: examples, and a naive recomputation."""

import math

from hypothesis import given
from hypothesis import strategies as st

from jaxmatch.sweep.asha import Ladder
from jaxmatch.sweep.halving import Standing


def test_promotions_of_four_settings_match_the_expected_sequence():
    """The better of the first two settings continues, then the third, which is better still, but not the fourth."""
    ladder = Ladder("abcd", 2, eta=2, score="accuracy")
    arrivals = [
        ("a", 0, 0.5, []),
        ("b", 0, 0.7, [("b", 0)]),
        ("b", 1, 0.8, []),  # no other setting has reached this rung
        ("c", 0, 0.9, [("c", 0)]),
        ("d", 0, 0.1, []),  # the first rung is complete, and two have continued
        ("c", 1, 0.85, [("c", 1)]),
    ]
    for setting, rung, score, going in arrivals:
        assert not ladder.complete()
        assert ladder.arrive(setting, rung, [Standing(score)]) == going
    assert ladder.complete() and ladder.dropped() == {"a": 0, "b": 1, "d": 0}


def test_a_promotion_is_not_revoked_by_better_later_arrivals():
    ladder = Ladder("abcd", 1, eta=2, score="loss")
    gone = [ladder.arrive(name, 0, [Standing(loss)]) for name, loss in zip("abcd", (0.9, 0.8, 0.5, 0.4), strict=True)]
    assert gone == [[], [("b", 0)], [("c", 0)], [("d", 0)]] and ladder.dropped() == {"a": 0}


def test_the_last_arrival_completes_the_rungs_above():
    """One setting of three continues once all have arrived. If all settings diverge, none continues."""
    ladder = Ladder("abc", 2, eta=3, score="accuracy")
    assert ladder.arrive("a", 0, [Standing(0.1)]) == ladder.arrive("b", 0, [Standing(0.2)]) == []
    assert ladder.arrive("c", 0, [Standing(0.0)]) == [("b", 0)]
    assert ladder.arrive("b", 1, [Standing(0.0)]) == [("b", 1)] and ladder.complete()
    ladder = Ladder("ab", 2, eta=2, score="accuracy")
    assert ladder.arrive("a", 0, [Standing(None, True)]) == ladder.arrive("b", 0, [Standing(None, True)]) == []
    assert ladder.complete() and ladder.dropped() == {"a": 0, "b": 0}


def naive_promotions(arrivals, settings, eta, count):
    """Applies the rule after each arrival to all arrivals so far. Returns the settings that continue from each rung."""
    gone = [set() for _ in range(count)]
    for moment in range(1, len(arrivals) + 1):
        below_complete, expected = True, len(settings)
        for rung in range(count):
            here = [(setting, score) for setting, at, score in arrivals[:moment] if at == rung]
            complete = below_complete and len(here) == expected
            most = len(here) // eta + (1 if complete and len(here) % eta else 0)
            # sorted() keeps the order of equal settings
            best = sorted((each for each in here if each[1] is not None), key=lambda each: -each[1])[:most]
            gone[rung].update(setting for setting, _ in best)
            below_complete, expected = complete, len(gone[rung])
    return gone


@given(st.data())
def test_promotions_in_any_order_of_arrival_equal_a_naive_recomputation(data):
    settings = [f"s{number}" for number in range(data.draw(st.integers(1, 12), label="settings"))]
    eta, count = data.draw(st.integers(2, 4), label="eta"), data.draw(st.integers(1, 3), label="rungs")
    ladder = Ladder(settings, count, eta, "accuracy")
    underway, arrivals, promotions = [(setting, 0) for setting in settings], [], []
    while underway:
        assert not ladder.complete()
        setting, rung = underway.pop(data.draw(st.integers(0, len(underway) - 1)))
        score = data.draw(st.sampled_from((None, 0.1, 0.2, 0.3, 0.4, 0.5)))  # None: the setting diverged
        arrivals.append((setting, rung, score))
        going = ladder.arrive(setting, rung, [Standing(score, diverged=score is None)])
        promotions += going
        underway += [(each, at + 1) for each, at in going if at + 1 < count]
        assert [set(promoted) for promoted in ladder.promoted] == naive_promotions(arrivals, settings, eta, count)
    assert ladder.complete() and len(promotions) == len(set(promotions))  # no setting continues twice
    for rung in range(count):
        sound = {name for name, standings in ladder.arrived[rung].items() if not standings[0].diverged}
        least = min(math.ceil(len(ladder.arrived[rung]) / eta), len(sound))
        # The best settings of the whole rung have continued.
        assert {name for name, _ in ladder.ranking(rung)[:least]} <= set(ladder.promoted[rung]) <= sound
    # Replaying the arrivals, as from a journal, gives the same decisions.
    again = Ladder(settings, count, eta, "accuracy")
    assert [
        going for name, rung, score in arrivals for going in again.arrive(name, rung, [Standing(score, score is None)])
    ] == promotions
