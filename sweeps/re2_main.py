"""RE2, compared with the paper's Tables 1 (SNLI), 2 (SciTail), 3 (Quora) and 4 (WikiQA): the released settings, ten
seeds.

    jaxmatch sweep sweeps/re2_main.py --dataset scitail --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/scitail

`--dataset`: snli, scitail, quora, wikiqa, or sick, which is not in the paper. `--setting`: "configured" (the default)
has the released model and optimizer, treats text as the paper does, and evaluates on dev after every epoch; "paper",
"released_pytorch" and "released_tensorflow", which made the paper's numbers, follow one source each
(jaxmatch/papers/re2.py). The column "best on test" is there because the paper's checkpoints were chosen on
test; `--config.training.best_on_test=False` leaves it out. All simple baselines but TF-IDF are below the runs;
`--baselines all` adds TF-IDF, which needs scikit-learn. `--smoke` tries it in seconds, without data files.
"""

from jaxmatch import Sweep, TableLayout, load_config, with_overrides
from jaxmatch.baselines import WITHOUT_EXTRAS
from jaxmatch.papers import re2


def get_sweep(dataset: str = "snli", setting: str = re2.CONFIGURED) -> Sweep:
    data = re2.data_set(dataset)
    config = re2.with_setting(dataset, load_config(data.config), setting)
    name_suffix, title_suffix = re2.name_and_title_suffix(setting)
    return Sweep(
        name=f"re2-main-{dataset}{name_suffix}",
        config=with_overrides(config, {"training.best_on_test": True}),
        grid={},
        seeds=tuple(range(re2.SEEDS)),
        baselines=WITHOUT_EXTRAS,
        table=TableLayout(
            title=f"RE2 on {data.title}{title_suffix}",
            rows=(),
            scores=data.scores,
            published=re2.published_main(dataset, config),
            notes=re2.setting_notes(config, setting),
        ),
    )
