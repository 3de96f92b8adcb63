"""Commands import what they need and no more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SWEEP = ROOT / "results" / "sick_ablation"


def run_python(code: str, **variables: str) -> str:
    """Runs a program in a process of its own, and returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(*words: str) -> set[str]:
    """Returns the top-level modules, and those of scipy, that a command has imported when it ends."""
    code = (
        "import sys; from jaxmatch.cli.main import main\n"
        f"try: main({list(words)})\nexcept SystemExit: pass\n"
        "print('\\n', *(name for name in sys.modules if '.' not in name or name.startswith('scipy.')))"
    )
    return set(run_python(code).splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["sweep", "--help"], ["predict", "--help"]])
def test_help_imports_nothing_heavy(words):
    assert not modules_after(*words) & {"jax", "numpy", "scipy", "nltk", "rich", "ml_collections", "flax"}


def test_help_of_one_subcommand_imports_no_other():
    code = (
        "import sys; from jaxmatch.cli.main import main\n"
        "try: main(['table', '--help'])\nexcept SystemExit: pass\n"
        "print('\\n', *(name for name in sys.modules if name.startswith('jaxmatch.cli.')))"
    )
    loaded = run_python(code).splitlines()[-1].split()
    assert "jaxmatch.cli.results" in loaded and "jaxmatch.cli.models" not in loaded


@pytest.mark.parametrize("format", ["markdown", "latex", "csv", "json"])
def test_table_needs_scipy_but_not_jax(format):
    loaded = modules_after("table", str(SWEEP), "--format", format)
    assert "scipy.special" in loaded  # for intervals and p values
    assert not loaded & {"jax", "flax", "optax", "orbax", "nltk", "rich", "ml_collections", "scipy.stats"}


@pytest.mark.parametrize(
    ("tokenizer", "text", "tokens"),
    [
        ("NLTKWordTokenizer", 'He said: "I can\'t."', "He said : `` I ca n't . ''"),
        ("TweetTokenizer", "@you #yes :-) it's", "@you #yes :-) it's"),
    ],
)
def test_nltk_tokenizer_is_loaded_without_the_rest_of_nltk(tokenizer, text, tokens):
    code = f"""
import sys
from jaxmatch.data.text import nltk_tokenizer
print(*nltk_tokenizer({tokenizer!r}).tokenize({text!r}))
print("scipy" in sys.modules, [name for name in sys.modules if name.startswith("nltk")])
import nltk  # the full package can still be imported
print(*nltk.{tokenizer}().tokenize({text!r}))
from nltk.tag import PerceptronTagger
"""
    assert run_python(code).splitlines() == [tokens, "False []", tokens]
