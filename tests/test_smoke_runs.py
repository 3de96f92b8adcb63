"""Every launcher of a paper's table, from the file to the table, with `--smoke`."""

import re
from pathlib import Path

import pytest

from jaxmatch.cli.main import main
from jaxmatch.data.embedded import inference, paraphrase, ranking

SWEEPS = Path(__file__).parent.parent / "sweeps"
LAUNCHERS = {
    "re2_main --dataset wikiqa": 1,
    "re2_ablation --dataset wikiqa": 2,
    "re2_robustness --dataset quora": 2,
    "esan_main --dataset snli": 1,
    "esan_ablation --dataset quora": 2,
    "csran_main --dataset scitail": 1,
    "csran_ablation --dataset scitail": 2,
    "csran_depth --dataset scitail": 1,
    "comparison --dataset sick --models esan,cafe --features paper": 2,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Encoded data and compiled programs, shared by the smoke runs."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize(("launcher", "rows"), LAUNCHERS.items(), ids=[words.split()[0] for words in LAUNCHERS])
def test_a_smoke_run_goes_from_the_file_to_the_table(launcher, rows, cache, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("JAXMATCH_DATA", raising=False)
    for kind in (inference, paraphrase, ranking):  # a tenth of the pairs: without XLA's optimisations steps take long
        monkeypatch.setattr(kind, "SPLITS", {name: max(40, size // 10) for name, size in kind.SPLITS.items()})
    sweep, *options = launcher.split()
    words = ["sweep", str(SWEEPS / f"{sweep}.py"), *options, "--smoke", "--seeds", "1", "--workdir", str(tmp_path / "work")]
    assert main([*words, f"--config.execution.cache_directory={cache}"]) == 0
    text = capsys.readouterr().out
    assert ": smoke run" in text and "its scores mean nothing" in text and "Yang" not in text
    body = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert len(body) == rows
    assert all(re.search(r"\d\.\d", line) for line in body)
