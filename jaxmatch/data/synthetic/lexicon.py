"""The words of the embedded sets: a small taxonomy written by hand.

Each noun, adjective, verb or relation describes a thing along one *dimension*, whose values exclude each other: its
kind, its color, its activity, its position relative to the house. The meaning of a word is a set of values of one
dimension, stored as the bits of an integer. One rule therefore gives all lexical relations: a wider set is a hypernym,
an equal set a synonym, a disjoint set an antonym or a co-hyponym. Every dimension except the kind has one value more
than its words name ("neither happy nor sad"), so that the negation of a word never equals its antonym.
"""

import dataclasses
from collections.abc import Iterator, Mapping

PERSON, ANIMAL, FRUIT, TOY, INSTRUMENT, VEHICLE, BUILDING = range(7)
LIVING = (PERSON, ANIMAL)
THINGS = (FRUIT, TOY, INSTRUMENT, VEHICLE, BUILDING)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Word:
    """An entry of the lexicon. Words are compared by identity.

    Attributes:
      part: "noun", "adjective", "verb", "position" or "deed" (a verb with an object).
      dimension: the dimension whose values the word names.
      mask: the values that the word covers, as bits.
      forms: the forms of the word. Noun: singular, plural; adjective: the adjective; verb: plural, singular; position:
        the position and its converse; deed: plural, singular, participle.
      realms: the realm of a noun; for other words, the realms of the things that the word can describe.
      lowest: whether no word is narrower.
    """

    part: str
    dimension: str
    mask: int
    forms: tuple[str, ...]
    realms: tuple[int, ...]
    lowest: bool

    @property
    def realm(self) -> int:
        return self.realms[0]


# A tree: name -> the names below it. A name is "form" or "form/other form/..."; "=" separates synonyms.
KINDS: Mapping[int, Mapping] = {
    PERSON: {
        "person/people": {
            "child/children=kid": {"boy=lad": {}, "girl": {}},
            "adult=grownup": {
                "man/men": {},
                "woman/women=lady/ladies": {},
                "worker=laborer": {"doctor=physician": {}, "nurse": {}, "farmer": {}, "baker": {}, "tailor": {}},
            },
        }
    },
    ANIMAL: {
        "animal=creature": {
            "dog=hound": {"poodle": {}, "beagle": {}, "terrier": {}},
            "bird": {"sparrow": {}, "eagle": {}, "owl": {}, "pigeon": {}},
            "insect=bug": {"bee": {}, "ant": {}, "beetle": {}},
            "cat": {},
            "rabbit=bunny/bunnies": {},
            "donkey": {},
        }
    },
    FRUIT: {"fruit": {"apple": {}, "pear": {}, "lemon": {}, "cherry/cherries": {}, "plum": {}}},
    TOY: {"toy=plaything": {"ball": {}, "doll": {}, "kite": {}, "puppet": {}}},
    INSTRUMENT: {"instrument": {"guitar": {}, "violin=fiddle": {}, "drum": {}, "flute": {}, "trumpet": {}}},
    VEHICLE: {
        "vehicle": {
            "car=automobile": {},
            "truck=lorry/lorries": {},
            "bus/buses": {},
            "wagon": {},
            "boat": {"ferry/ferries": {}, "canoe": {}, "yacht": {}},
        }
    },
    BUILDING: {
        "building": {
            "house": {"cottage": {}, "villa": {}, "mansion": {}},
            "tower": {},
            "barn": {},
            "church/churches": {},
            "school": {},
        }
    },
}

# dimension -> (realms, values); synonyms of one value are separated by "=".
ADJECTIVES: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "size": (LIVING + THINGS, ("big=large", "small=little")),
    "age": (LIVING, ("old=aged", "young=youthful")),
    "mood": (LIVING, ("happy=cheerful", "sad=gloomy")),
    "strength": (LIVING, ("strong=powerful", "weak=feeble")),
    "speed": (LIVING + (VEHICLE,), ("fast=quick", "slow=sluggish")),
    "wealth": ((PERSON,), ("rich=wealthy", "poor=needy")),
    "courage": (LIVING, ("brave=bold", "timid=fearful")),
    "cleanness": (LIVING + THINGS, ("clean=spotless", "dirty=filthy")),
    "colour": (THINGS, ("red", "blue", "green", "yellow", "black", "white", "brown", "gray")),
    "price": (THINGS, ("cheap=inexpensive", "expensive=costly")),
    "weight": ((FRUIT, TOY, INSTRUMENT), ("heavy", "light")),
    "material": ((TOY, INSTRUMENT), ("wooden", "plastic", "metal")),
    "height": ((PERSON, BUILDING), ("tall", "short")),
}

VERBS: Mapping[str, tuple[tuple[int, ...], Mapping]] = {
    "activity": (
        LIVING,
        {
            "move": {
                "run": {"sprint": {}, "jog": {}},
                "walk": {"stroll": {}, "march/marches": {}},
                "swim": {},
                "crawl": {},
            },
            "rest": {"sleep=slumber": {"nap=snooze": {}, "doze": {}}, "relax/relaxes": {}},
        },
    ),
    "voice": ((PERSON,), {"speak=talk": {"shout=yell": {}, "whisper=murmur": {}, "stammer": {}}}),
    "face": ((PERSON,), {"smile=grin": {}, "frown=scowl": {}}),
    "outcome": (LIVING, {"win=triumph": {}, "lose": {}}),
    "journey": (LIVING, {"arrive": {}, "leave=depart": {}}),
    "meal": (LIVING, {"eat": {"nibble": {}, "feast": {}}}),
}

# The position of one thing relative to another: (phrase, its converse, values).
POSITIONS = (
    ("left of", "right of", 1),
    ("right of", "left of", 2),
    ("beside", "beside", 3),
    ("next to", "next to", 3),
    ("in front of", "behind", 4),
    ("behind", "in front of", 8),
    ("above", "below", 16),
    ("over", "under", 16),
    ("below", "above", 32),
    ("under", "over", 32),
)

# The deeds of one living thing to another: dimension -> (realms, (plural, singular, participle, values)...). The upper
# half of the values of "pursuit" are the same deeds done to the subject, so that chasing excludes being chased.
DEEDS = {
    "attitude": (
        (PERSON,),
        (
            ("love", "loves", "loved", 1),
            ("adore", "adores", "adored", 1),
            ("admire", "admires", "admired", 2),
            ("like", "likes", "liked", 3),
            ("hate", "hates", "hated", 4),
            ("detest", "detests", "detested", 4),
            ("despise", "despises", "despised", 8),
            ("dislike", "dislikes", "disliked", 12),
        ),
    ),
    "pursuit": (
        (ANIMAL,),
        (
            ("chase", "chases", "chased", 1),
            ("hunt", "hunts", "hunted", 1),
            ("track", "tracks", "tracked", 2),
            ("follow", "follows", "followed", 3),
        ),
    ),
}


def _inflect(entry: str) -> tuple[str, str]:
    form, _, other = entry.partition("/")
    return form, other or form + "s"


def _grow(tree: Mapping, first: int) -> Iterator[tuple[str, int, bool, int]]:
    """Yields (names, mask, lowest, next free bit) for every node of a tree; parents follow their children."""
    for names, below in tree.items():
        if not below:
            yield names, 1 << first, True, first + 1
            first += 1
            continue
        mask = 0
        for child in _grow(below, first):
            mask |= child[1]
            first = child[3]
            yield child
        # The parent has a bit of its own: some dogs have no narrower name here, and neither have some ways to move.
        yield names, mask | 1 << first, False, first + 1
        first += 1


def _nouns() -> Iterator[Word]:
    first = 0
    for realm, tree in KINDS.items():
        for names, mask, lowest, first in _grow(tree, first):  # noqa: B007, B020  where the next tree begins
            for name in names.split("="):
                yield Word("noun", "kind", mask, _inflect(name), (realm,), lowest)


def _adjectives() -> Iterator[Word]:
    for dimension, (realms, values) in ADJECTIVES.items():
        for bit, names in enumerate(values):
            for name in names.split("="):
                yield Word("adjective", dimension, 1 << bit, (name,), realms, True)


def _verbs() -> Iterator[Word]:
    for dimension, (realms, tree) in VERBS.items():
        for names, mask, lowest, _ in _grow(tree, 0):
            for name in names.split("="):
                yield Word("verb", dimension, mask, _inflect(name), realms, lowest)


def _deeds() -> Iterator[Word]:
    for dimension, (realms, entries) in DEEDS.items():
        for plural, singular, participle, mask in entries:
            yield Word("deed", dimension, mask, (plural, singular, participle), realms, mask & (mask - 1) == 0)


def _positions() -> Iterator[Word]:
    for phrase, converse, mask in POSITIONS:
        # In a position, a building can only be the landmark: see `grammar.fits_landmark`.
        yield Word("position", "position", mask, (phrase, converse), LIVING + THINGS[:-1], mask & (mask - 1) == 0)


NOUNS = tuple(_nouns())
PREDICATES = {
    "adjective": tuple(_adjectives()),
    "verb": tuple(_verbs()),
    "deed": tuple(_deeds()),
    "position": tuple(_positions()),
}
WORDS = NOUNS + tuple(word for words in PREDICATES.values() for word in words)

NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven"}


def _universes() -> dict[str, int]:
    universes: dict[str, int] = {}
    for word in WORDS:
        universes[word.dimension] = universes.get(word.dimension, 0) | word.mask
    universes["pursuit"] |= universes["pursuit"] << 2
    # Each dimension has one value that no word names. Kinds need no such value: the kind of an unnamed thing never
    # matters.
    return {name: mask if name == "kind" else mask << 1 | 1 for name, mask in universes.items()}


UNIVERSES: Mapping[str, int] = _universes()


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbours:
    """The words of the same dimension and part of speech as a word, by their relation to it."""

    same: tuple[Word, ...]
    wider: tuple[Word, ...]
    narrower: tuple[Word, ...]
    disjoint: tuple[Word, ...]


def _neighbours(word: Word) -> Neighbours:
    others = [
        other
        for other in WORDS
        if other is not word
        and other.part == word.part
        and other.dimension == word.dimension
        and word.realm in other.realms
    ]
    return Neighbours(
        same=tuple(other for other in others if other.mask == word.mask),
        wider=tuple(other for other in others if other.mask != word.mask and other.mask & word.mask == word.mask),
        narrower=tuple(other for other in others if other.mask != word.mask and other.mask & word.mask == other.mask),
        disjoint=tuple(other for other in others if other.mask & word.mask == 0),
    )


NEIGHBOURS: Mapping[Word, Neighbours] = {word: _neighbours(word) for word in WORDS}
# realm -> part of speech -> the words that can describe things of the realm.
FITTING: Mapping[int, Mapping[str, tuple[Word, ...]]] = {
    realm: {part: tuple(word for word in words if realm in word.realms) for part, words in PREDICATES.items()}
    for realm in LIVING + THINGS
}
NOUNS_OF: Mapping[int, tuple[Word, ...]] = {
    realm: tuple(noun for noun in NOUNS if noun.realm == realm) for realm in LIVING + THINGS
}
