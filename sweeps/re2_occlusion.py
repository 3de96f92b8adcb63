"""Occlusion sensitivity, RE2's Figure 2: a model of three blocks, each alignment feature of each block masked in turn,
on dev.

    jaxmatch sweep sweeps/re2_occlusion.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/occlusion

The figure lies in `runs/occlusion/figures`: the change of accuracy of each class, as mean over the seeds. `--dataset`:
snli, as in the paper, scitail, quora, wikiqa or sick. `jaxmatch occlusion` does the same for any run. `--smoke` tries
it without data files.
"""

from jaxmatch import Sweep, TableLayout, load_config, with_overrides
from jaxmatch.papers import re2, re2_settings


def get_sweep(dataset: str = "snli") -> Sweep:
    data = re2.data_set(dataset)
    config = with_overrides(load_config(data.config), {"model.blocks": re2.ANALYSED_BLOCKS})
    return Sweep(
        name=f"re2-occlusion-{dataset}",
        config=config,
        grid={},
        seeds=tuple(range(re2.ANALYSED_SEEDS)),
        table=TableLayout(
            title=f"RE2 on {data.title}, the runs of the occlusion",
            rows=(),
            scores=data.scores,
            notes=re2_settings.setting_notes(config),
        ),
        analyses={"occlusion": {}},
    )
