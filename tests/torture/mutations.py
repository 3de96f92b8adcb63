"""Ways to break the text of a small file; some must be refused, others may leave a file that is as good."""

import json
import random
from typing import Any

ODD = (None, True, -1, 0, 10**30, 1e308, float("nan"), float("inf"), 0.5, "9" * 5000)
ODD += ("", "x", "\u202e\x1b[31m", "a\nb", "../..", [], {}, [[]], {"x": 1}, ["a", 1])
ODD_TEXTS = (b"\x00", b"\t", b"\n", b"\r", b'"', b"\\", b"\x1b[2J", "\u202e".encode(), b"9" * 400)
ODD_TEXTS += (b"-1", b"nan", b"{", b"]", b"<", b"\xef\xbb\xbf", b"x" * 100_000)


def not_utf8(content: bytes, generator: random.Random) -> bytes:
    """Bytes in the first half that are no UTF-8."""
    place = generator.randrange(len(content) // 2 + 1)
    return content[:place] + generator.choice([b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80"]) + content[place:]


def truncated(content: bytes, generator: random.Random) -> bytes:
    return content[: generator.randrange(len(content))]


def flipped(content: bytes, generator: random.Random) -> bytes:
    """One bit is another."""
    changed = bytearray(content)
    changed[generator.randrange(len(changed))] ^= 1 << generator.randrange(8)
    return bytes(changed)


def inserted(content: bytes, generator: random.Random) -> bytes:
    """Something odd in between."""
    place = generator.randrange(len(content) + 1)
    return content[:place] + generator.choice(ODD_TEXTS) + content[place:]


def cut_out(content: bytes, generator: random.Random) -> bytes:
    """Without some bytes of the middle."""
    start = generator.randrange(len(content))
    return content[:start] + content[start + generator.randrange(1, 30) :]


def field_replaced(content: bytes, generator: random.Random) -> bytes:
    """A column of a line is something odd, or gone."""
    lines = content.split(b"\n")
    number = generator.randrange(len(lines))
    fields = lines[number].split(b"\t")
    place = generator.randrange(len(fields))
    fields[place : place + 1] = generator.choice([[], [b""], [b" "], [generator.choice(ODD_TEXTS)], [b"a", b"b"]])
    lines[number] = b"\t".join(fields)
    return b"\n".join(lines)


def lines_mixed(content: bytes, generator: random.Random) -> bytes:
    """Lines in another order, or twice."""
    lines = content.splitlines(keepends=True)
    return b"".join(generator.choices(lines, k=len(lines) + 1))


def binary(content: bytes, generator: random.Random) -> bytes:
    return generator.randbytes(generator.randrange(1, 400))


def line_ends(content: bytes, generator: random.Random) -> bytes:
    """Line ends of another system."""
    return content.replace(b"\n", generator.choice([b"\r\n", b"\r", b"\n\n", b"\x0b"]))


MUST_BE_REFUSED = (not_utf8,)
MAY_BE_GOOD = (truncated, flipped, inserted, cut_out, field_replaced, lines_mixed, binary, line_ends)


def _places(value: Any, path: tuple = ()) -> list[tuple]:
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, one in pairs for place in _places(one, (*path, key))]


def json_replaced(content: bytes, generator: random.Random) -> bytes:
    """A value of a JSON file is something odd, or gone."""
    value = json.loads(content)
    *way, last = generator.choice(_places(value))
    inner = value
    for key in way:
        inner = inner[key]
    if generator.random() < 0.25:
        del inner[last]
    else:
        inner[last] = generator.choice(ODD)
    return json.dumps(value).encode()
