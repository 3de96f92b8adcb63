"""Occlusion sensitivity, RE2's Figure 2: a model of three blocks, each alignment feature of each block masked in turn,
on dev.

    jaxmatch sweep sweeps/re2_occlusion.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/occlusion

The figure is saved in `runs/occlusion/figures`. It shows the change of each class's accuracy, averaged over the seeds.
`--dataset`: snli, as in the paper, scitail, quora, wikiqa or sick. `--setting` as in re2_main.py. `jaxmatch occlusion`
does the same for any run. `--smoke` tries it without data files.
"""

from jaxmatch import Sweep, TableLayout, load_config, with_overrides
from jaxmatch.papers import re2


def get_sweep(dataset: str = "snli", setting: str = re2.CONFIGURED) -> Sweep:
    data = re2.data_set(dataset)
    config = re2.with_setting(dataset, load_config(data.config), setting)
    config = with_overrides(config, {"model.blocks": re2.ANALYSED_BLOCKS})
    name_suffix, title_suffix = re2.name_and_title_suffix(setting)
    return Sweep(
        name=f"re2-occlusion-{dataset}{name_suffix}",
        config=config,
        grid={},
        seeds=tuple(range(re2.ANALYSED_SEEDS)),
        table=TableLayout(
            title=f"RE2 on {data.title}{title_suffix}, the runs of the occlusion",
            rows=(),
            scores=data.scores,
            notes=re2.setting_notes(config, setting),
        ),
        analyses={"occlusion": {}},
    )
