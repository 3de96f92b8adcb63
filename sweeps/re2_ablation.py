"""RE2's ablation, the paper's Table 6: the released setting and six variants of it, ten seeds each, compared on dev.

    jaxmatch sweep sweeps/re2_ablation.py --dataset wikiqa --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/ablation

`--dataset`: snli, quora, scitail, wikiqa, or sick, which is not in the paper. The alternative of the alignment and of
the prediction layer is the one that the released setting of the data set does not use. `--setting` as in re2_main.py;
"residual conn." is the variant of the same source (jaxmatch/models/re2.py). `--rows "original,simple fusion"`: only
these rows. `--smoke` tries it without data files.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.papers import published, re2


def get_sweep(dataset: str = "snli", setting: str = re2.CONFIGURED, rows: str = "") -> Sweep:
    data = re2.data_set(dataset)
    config = re2.with_setting(dataset, load_config(data.config), setting)
    name_suffix, title_suffix = re2.name_and_title_suffix(setting)
    every = re2.ablations(config.model)
    variants = {row: every[row] for row in rows.split(",")} if rows else every
    return Sweep(
        name=f"re2-ablation-{dataset}{name_suffix}",
        config=config,
        grid={},
        variants=published.variants(variants),
        seeds=tuple(range(re2.SEEDS)),
        table=TableLayout(
            title=f"Ablation of RE2 on {data.title}{title_suffix}",
            rows=("variant",),
            scores=data.scores[:1],
            published=re2.published_ablation(dataset, config),
            order={"variant": tuple(variants)},
            original={"variant": re2.ORIGINAL},
            notes=re2.ablation_notes(config, setting),
        ),
    )
