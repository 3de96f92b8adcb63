"""RE2 beside the paper's Tables 1 (SNLI), 2 (SciTail), 3 (Quora) and 4 (WikiQA): the released settings, ten seeds.

    jaxmatch sweep sweeps/re2_main.py --dataset scitail --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/scitail

`--dataset`: snli, scitail, quora, wikiqa, or sick, which is not in the paper. `--config.training.best_on_test=True` adds the
column "best on test", for comparison with results that were chosen on test. `--smoke` tries it in seconds, without data files.
"""

from pathlib import Path

from jaxmatch.experiments.configuration import load_config
from jaxmatch.experiments.papers import re2
from jaxmatch.experiments.sweep import Sweep
from jaxmatch.experiments.tables import TableLayout

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


def get_sweep(dataset: str = "snli") -> Sweep:
    data = re2.data_set(dataset)
    config = load_config(CONFIGS / f"{data.config}.py")
    return Sweep(
        name=f"re2-main-{dataset}",
        config=config,
        grid={},
        seeds=tuple(range(re2.SEEDS)),
        table=TableLayout(
            title=f"RE2 on {data.title}",
            rows=(),
            scores=data.scores,
            published=re2.published_main(dataset, config),
        ),
    )
