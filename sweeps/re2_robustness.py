"""RE2's robustness to its structure, the paper's Table 7: one to five blocks, and one to five encoder layers, ten seeds
each.

    jaxmatch sweep sweeps/re2_robustness.py --dataset quora --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/robustness

`--dataset`: snli, quora, scitail; or wikiqa, for which the paper gives no figures, or sick, which is not in the paper.
`--setting` as in re2_main.py. `--smoke` tries it without data files.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.papers import published, re2


def get_sweep(dataset: str = "snli", setting: str = re2.CONFIGURED) -> Sweep:
    data = re2.data_set(dataset)
    config = re2.with_setting(dataset, load_config(data.config), setting)
    name_suffix, title_suffix = re2.name_and_title_suffix(setting)
    return Sweep(
        name=f"re2-robustness-{dataset}{name_suffix}",
        config=config,
        grid={},
        variants=published.variants(re2.distinct(re2.robustness(), config.model.to_dict())),
        seeds=tuple(range(re2.SEEDS)),
        table=TableLayout(
            title=f"Robustness of RE2 to blocks and encoder layers on {data.title}{title_suffix}",
            rows=("model.blocks", "model.encoder_layers"),
            scores=data.scores[:1],
            published=re2.published_robustness(dataset, config),
            notes=(
                *re2.setting_notes(config, setting, chosen_on_dev="Table 7"),
                "2 blocks with 2 encoder layers are in both series of the paper and are trained once",
            ),
        ),
    )
