"""Launchers of the papers' tables, run end to end with `--smoke`. All others are planned in test_papers.py."""

import re
from pathlib import Path

import pytest

from jaxmatch.cli.main import main

SWEEPS = Path(__file__).parent.parent / "sweeps"
# Command -> rows of its table; main tables also have rows of baselines.
LAUNCHERS = {
    "re2_main --dataset wikiqa --config.model.blocks=1": 5,
    "re2_ablation --dataset wikiqa --config.model.blocks=1": 2,
    # With characters it takes twice as long; csran_main has them.
    "esan_ablation --dataset quora --features none --config.model.alignment_layers=1": 2,
    "csran_main --dataset scitail --config.model.stacked_layers=1": 4,
    "comparison --dataset sick --models siamese,decatt": 2,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Encoded data and compiled programs, shared by the smoke runs."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize(("launcher", "rows"), LAUNCHERS.items(), ids=[words.split()[0] for words in LAUNCHERS])
def test_a_smoke_run_prints_the_whole_table(launcher, rows, cache, few_pairs, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("JAXMATCH_DATA", raising=False)
    sweep, *options = launcher.split()
    size = ("--smoke", "--seeds", "1")
    words = ["sweep", str(SWEEPS / f"{sweep}.py"), *options, *size, "--workdir", str(tmp_path / "work")]
    assert main([*words, f"--config.execution.cache_directory={cache}"]) == 0
    text = capsys.readouterr().out
    assert ": smoke run" in text and "its scores mean nothing" in text and "Yang" not in text
    body = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert len(body) == rows
    assert all(re.search(r"\d\.\d", line) for line in body)


@pytest.mark.slow
def test_smoke_runs_include_the_analyses_of_the_trained_models(cache, few_pairs, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("JAXMATCH_DATA", raising=False)

    def launched(sweep, *options):
        words = ["sweep", str(SWEEPS / f"{sweep}.py"), "--smoke", "--workdir", str(tmp_path / sweep), *options]
        words.append("--config.model.blocks=1")
        assert main([*words, f"--config.execution.cache_directory={cache}"]) == 0
        return capsys.readouterr().out

    text = launched("re2_ensemble")
    assert "**Runs together.** embedded_inference test, 120 pairs." in text and "DRCN" not in text
    text = launched("re2_occlusion")
    assert "**Occlusion sensitivity, as configured.**" in text and "over 2 seeds (0, 1)" in text
    assert (tmp_path / "re2_occlusion" / "figures" / "occlusion.png").read_bytes().startswith(b"\x89PNG")
    text = launched("re2_attention", "--seeds", "1", "--first", "A man sleeps.", "--second", "Nobody is awake.")
    assert text.count("first:  A man sleeps.") == 1 and "block 1, second over first" in text
    names = sorted(file.name for file in (tmp_path / "re2_attention" / "figures").iterdir())
    assert names == [f"attention-seed0.{ending}" for ending in ("json", "png", "svg")]
