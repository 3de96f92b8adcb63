"""RE2 on SNLI beside the paper's Table 1: the released settings, ten seeds, chosen on dev accuracy.

    jaxmatch sweep sweeps/re2_snli.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/snli
"""

from pathlib import Path

from jaxmatch.experiments.configuration import load_config
from jaxmatch.experiments.sweep import Sweep
from jaxmatch.experiments.tables import Published, TableLayout

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


def get_sweep() -> Sweep:
    return Sweep(
        name="re2-snli",
        config=load_config(CONFIGS / "re2_snli.py"),
        grid={},
        seeds=tuple(range(10)),
        table=TableLayout(
            title="RE2 on SNLI",
            rows=(),
            scores=("dev.accuracy", "test.accuracy"),
            published=(
                Published(
                    label="RE2 (paper, GloVe 840B, all 549,367 training pairs)",
                    scores={"test.accuracy": "88.9 ± 0.1"},
                    source="Yang et al. (2019), Table 1",
                    settings={"seeds": 10, "parameters": "2.8M"},
                    training_pairs=549_367,
                    chosen_on_test=True,
                ),
            ),
        ),
    )
