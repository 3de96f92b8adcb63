"""RE2 on WikiQA beside the paper's Table 4: the released settings, ten seeds, chosen on dev MRR.

    jaxmatch sweep sweeps/re2_wikiqa.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/wikiqa
"""

from pathlib import Path

from jaxmatch.experiments.configuration import load_config
from jaxmatch.experiments.sweep import Sweep
from jaxmatch.experiments.tables import Published, TableLayout

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


def get_sweep() -> Sweep:
    return Sweep(
        name="re2-wikiqa",
        config=load_config(CONFIGS / "re2_wikiqa.py"),
        grid={},
        seeds=tuple(range(10)),
        table=TableLayout(
            title="RE2 on WikiQA",
            rows=(),
            scores=("dev.mrr", "test.map", "test.mrr"),
            published=(
                Published(
                    label="RE2 (paper, GloVe 840B)",
                    scores={"test.map": "0.7452 ± 0.0044", "test.mrr": "0.7618 ± 0.0040"},
                    source="Yang et al. (2019), Table 4",
                    settings={"seeds": 10},
                    training_pairs=20_360,
                    chosen_on_test=True,
                ),
            ),
        ),
    )
