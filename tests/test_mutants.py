"""The command that applies mutants distinguishes caught and surviving ones."""

import pytest
from mutants import Mutant
from mutants.__main__ import verdict


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a + b", "a - b", "caught"),
        ("a * b", "a / b", "survived"),
        ("return a + b", "return (", "not run (pytest's exit status 2)"),
    ],
)
def test_verdict_is_caught_survived_or_not_run(tmp_path, before, after, expected):
    module = tmp_path / "sums.py"
    module.write_text("def plus(a, b):\n    return a + b\n\n\ndef times(a, b):\n    return a * b\n")
    (tmp_path / "test_sums.py").write_text("import sums\n\n\ndef test_plus():\n    assert sums.plus(1, 2) == 3\n")
    original = module.read_text()
    assert verdict(tmp_path, Mutant("sums.py", before, after, ("test_sums.py",))) == expected
    assert module.read_text() == original


def test_a_mutant_whose_text_occurs_twice_is_an_error(tmp_path):
    (tmp_path / "sums.py").write_text("a + b + a + b")
    with pytest.raises(ValueError, match="occurs 2 times"):
        Mutant("sums.py", "a + b", "a - b", ("test_sums.py",)).applied(tmp_path)
