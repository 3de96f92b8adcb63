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
    # Section 3.2: blocks and encoder layers "from 1 to 3", the learning rate "from 0.0001 to 0.003", batches "from 64
    # to 512". Sections 2.2 and 2.4: whether F is a layer and whether the prediction layer is the simplified one are
    # hyperparameters. Section 3.4: on Quora "we validate between two symmetric versions of the prediction layer".
    grid = {
        "model.blocks": (1, 2, 3),
        "model.encoder_layers": (1, 2, 3),
        "model.alignment": ("linear", "identity"),
        "model.prediction": ("symmetric" if dataset == "quora" else "full", "simple"),
        "training.batch_size": (64, 128, 256, 512),
        "optimizer.learning_rate": (1e-4, 3e-4, 1e-3, 2e-3, 3e-3),
    }
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
