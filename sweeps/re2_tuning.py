"""The grid in which the paper tuned RE2 (sections 2 and 3): blocks, encoder layers, alignment, prediction layer, batch
size and learning rate.

    jaxmatch tune sweeps/re2_tuning.py --dataset wikiqa --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/tuning

`--dataset`: snli, scitail, quora, wikiqa, or sick, which is not in the paper. The paper gives ranges, not the values
tried within them. Everything else is as in the released setting. Axes are changed by name
(`--grid.training.batch_size=128,512`) or left out (`--grid.model.alignment=`), and `--dry-run` shows what a grid would
cost; learning rates share a program, the other axes do not. With `--halving`, settings that trail are dropped early,
and a quarter of the steps remains.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.papers import re2


def get_sweep(dataset: str = "wikiqa") -> Sweep:
    data = re2.data_set(dataset)
    config = load_config(data.config)
    grid = re2.tuning(dataset)
    return Sweep(
        name=f"re2-tuning-{dataset}",
        config=config,
        grid=grid,
        seeds=(0,),
        table=TableLayout(
            title=f"Tuning RE2 on {data.title}",
            rows=tuple(grid),
            scores=data.scores,
            published=re2.published_main(dataset, config)[:1],
            notes=re2.setting_notes(config),
        ),
    )
