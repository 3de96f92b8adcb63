"""A free grid over block count x encoder depth x learning rate x seeds on any data set.

    jaxmatch sweep sweeps/grid.py --dataset wikiqa --data-directory DATA --vectors VECTORS --workdir runs/grid \\
        --grid.model.blocks=1,2,3 --grid.model.encoder_layers=1,2,3 --grid.optimizer.learning_rate=0.0005,0.001 \\
        --seeds 5

`--dataset` is a data set of configs/re2.py: snli, multinli, scitail, quora, wikiqa, trecqa_clean, sick, own, an
embedded set and more. Any other setting can be an axis too: --grid.NAME=VALUE,VALUE.
"""

from jaxmatch import InputError, Sweep, TableLayout, load_config
from jaxmatch.errors import nearest
from jaxmatch.sweep.files import data_title, known_data_sets


def get_sweep(dataset: str = "embedded_inference") -> Sweep:
    known = known_data_sets("re2")
    if dataset not in known:
        raise InputError(f'there is no data set "{dataset}"', remedy=nearest(dataset, known))
    return Sweep(
        name=f"grid-{dataset}",
        config=load_config("re2", dataset=dataset),
        grid={
            "model.blocks": (1, 2, 3),
            "model.encoder_layers": (1, 2),
            "optimizer.learning_rate": (5e-4, 1e-3, 2e-3),
        },
        seeds=(0, 1, 2, 3, 4),
        table=TableLayout(
            title=f"RE2 on {data_title(dataset)}",
            rows=("model.blocks", "model.encoder_layers", "optimizer.learning_rate"),
            scores=(),  # default: the score that chooses the checkpoint, which depends on the data
        ),
    )
