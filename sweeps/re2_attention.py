"""The attention case study, RE2's Figure 3: which words attend to each other in each block, in both directions.

    jaxmatch sweep sweeps/re2_attention.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/attention
    jaxmatch sweep sweeps/re2_attention.py --first "A man sleeps." --second "Nobody is awake." --data-directory DATA ...

The figures are saved in `runs/attention/figures`, one for each seed. Without `--first` and `--second`, the pair is that
of the paper. Another pair in the same folder needs no further training. `--dataset`: snli, as in the paper, scitail,
quora, wikiqa or sick. `--setting` as in re2_main.py. `jaxmatch inspect` does the same for any run. `--smoke` tries it
without data files.
"""

from jaxmatch import InputError, Sweep, TableLayout, load_config, with_overrides
from jaxmatch.papers import re2


def get_sweep(dataset: str = "snli", setting: str = re2.CONFIGURED, first: str = "", second: str = "") -> Sweep:
    if bool(first.strip()) != bool(second.strip()):
        raise InputError("one text is no pair", remedy="give both --first and --second, or neither")
    data = re2.data_set(dataset)
    config = re2.with_setting(dataset, load_config(data.config), setting)
    config = with_overrides(config, {"model.blocks": re2.ANALYSED_BLOCKS})
    name_suffix, title_suffix = re2.name_and_title_suffix(setting)
    return Sweep(
        name=f"re2-attention-{dataset}{name_suffix}",
        config=config,
        grid={},
        seeds=tuple(range(re2.ANALYSED_SEEDS)),
        table=TableLayout(
            title=f"RE2 on {data.title}{title_suffix}, the runs of the case study",
            rows=(),
            scores=data.scores,
            notes=re2.setting_notes(config, setting),
        ),
        analyses={"inspect": {"pair": [first, second]} if first.strip() else {}},
    )
