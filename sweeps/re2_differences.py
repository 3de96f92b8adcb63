"""RE2 from the setting of its file to that of the TensorFlow code that made the paper's numbers: a short training in
the file's setting, then with one change at a time, then in that code's whole setting; ten seeds each.

    jaxmatch sweep sweeps/re2_differences.py --dataset wikiqa --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/differences

`--dataset`: wikiqa or scitail. `--changes`: the rows to train, separated by commas, or all. Every row has scores of
checkpoints chosen on dev, and of checkpoints chosen on test, as the authors chose theirs. `--smoke` tries it without
data files.
"""

from jaxmatch import InputError, Sweep, TableLayout, load_config, with_overrides
from jaxmatch.errors import nearest
from jaxmatch.papers import re2

ALL = "all"


def get_sweep(dataset: str = "wikiqa", changes: str = ALL) -> Sweep:
    data = re2.data_set(dataset)
    config = load_config(data.config)
    short = re2.short_training(dataset)
    variants = re2.differences(dataset, config)
    chosen = list(variants) if changes == ALL else changes.split(",")
    for name in chosen:
        if name not in variants:
            raise InputError(f'there is no change "{name}"', remedy=nearest(name, variants))
    return Sweep(
        name=f"re2-differences-{dataset}",
        config=with_overrides(config, {"training.best_on_test": True, **short}),
        variants={name: variants[name] for name in chosen},
        seeds=tuple(range(re2.SEEDS)),
        table=TableLayout(
            title=f"RE2 on {data.title}: from the configured setting to the TensorFlow code",
            rows=("variant",),
            scores=data.scores,
            order={"variant": tuple(variants)},
            original={"variant": re2.ORIGINAL},
            paired=True,  # a seed draws the same parameters in every row, except for gains, and mostly the same batches
            notes=re2.setting_notes(config, of="Original row"),
        ),
    )
