"""RE2's inference time, the paper's Table 5: one to three blocks with three encoder layers, 100 batches of 8 pairs of
20 tokens, with BiMPM, CAFE, DIIN and CSRAN.

    jaxmatch timing sweeps/re2_timing.py --dataset snli --data-directory DATA --workdir runs/timing

The table also shows how many pairs of the data set's real test split are predicted in a second. `--dataset`: snli,
scitail, quora, wikiqa or sick; the rest of the structure is that of its released setting. `--models`: any of re2,
bimpm, cafe, diin and csran, separated by commas. `--features none` leaves out the characters that all but RE2 take.
`--split none` needs no data files, `--smoke` tries it in seconds.
"""

from jaxmatch import InputError, Sweep, TableLayout, load_config, with_overrides
from jaxmatch.data.text import LONGEST_WORD
from jaxmatch.errors import nearest
from jaxmatch.papers import published, re2
from jaxmatch.papers.timing import Timing
from jaxmatch.sweep.files import model_settings

MODELS = ("re2", *re2.TIMED_BESIDE)
INPUT_NOTES = {
    published.PAPER: f"Here all but RE2 are given up to {LONGEST_WORD} characters of a word besides its vector; in the "
    "paper up to 12",
    published.NONE: "Here all are given a word's vector alone",
}


def get_timing(dataset: str = "snli", models: str = ",".join(MODELS), features: str = published.PAPER) -> Timing:
    data = re2.data_set(dataset)
    timed = {}
    for model in dict.fromkeys(models.split(",")):
        if model not in MODELS:
            raise InputError(f'there is no model "{model}" in this timing', remedy=nearest(model, list(MODELS)))
        if model == "re2":
            timed |= published.variants(re2.timed())
        else:
            characters = published.feature_settings({"characters": re2.TIMED_CHARACTERS[model]}, features)
            timed[re2.TIMED_BESIDE[model]] = model_settings(model, dataset) | characters
    return Timing(
        Sweep(
            name=f"re2-timing-{dataset}",
            config=with_overrides(load_config(data.config), {"model.encoder_layers": re2.TIMED_LAYERS}),
            variants=timed,
            table=TableLayout(
                title="Inference time of RE2",
                rows=("variant",),
                scores=(),
                published=re2.published_times(),
                notes=(
                    f"Structure: of RE2 the released setting for {data.title} with {re2.TIMED_LAYERS} encoder layers",
                    "CAFE, DIIN and CSRAN were given parts of speech there, which their times leave out",
                    INPUT_NOTES[features],
                ),
            ),
        ),
        batches=re2.TIMED_BATCHES,
    )
