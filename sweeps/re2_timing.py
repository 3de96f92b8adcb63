"""RE2's inference time, the paper's Table 5: one to three blocks with three encoder layers, 100 batches of 8 pairs of
20 tokens.

    jaxmatch timing sweeps/re2_timing.py --dataset snli --data-directory DATA --workdir runs/timing

Beside it, how many pairs of the data set's real test split are answered in a second. `--dataset`: snli, scitail, quora,
wikiqa or sick; the rest of the structure is that of its released setting. `--split none` needs no data files,
`--run RUN` adds a trained model, `--smoke` tries it in seconds.
"""

from pathlib import Path

from jaxmatch import load_config, with_overrides
from jaxmatch.papers import data_sets, re2
from jaxmatch.sweep.inference_times import Timing

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


def get_timing(dataset: str = "snli") -> Timing:
    data = re2.data_set(dataset)
    return Timing(
        name=f"re2-timing-{dataset}",
        title="Inference time of RE2",
        config=with_overrides(load_config(CONFIGS / f"{data.config}.py"), {"model.encoder_layers": re2.TIMED_LAYERS}),
        models=data_sets.settings(re2.timed()),
        batches=re2.TIMED_BATCHES,
        published=re2.published_times(),
        notes=(
            f"Structure: the released setting for {data.title} with {re2.TIMED_LAYERS} encoder layers",
            "CAFE, DIIN and CSRAN were given parts of speech there, which their times leave out",
        ),
    )
