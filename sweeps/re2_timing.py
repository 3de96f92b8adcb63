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
from jaxmatch.errors import count_text, nearest
from jaxmatch.papers import published, re2
from jaxmatch.papers.timing import Timing
from jaxmatch.sweep.files import model_settings

LAYERS = 3  # "the number of encoder layers is set to 3", section 3.6
# Models of Table 5 that are also implemented here: name -> row, network over characters. (The row "DIIN with EM
# feature" includes the search for exact matches, which is not part of a model here. Parts of speech are left out,
# because the times of Table 5 leave out the tagging.)
BESIDE = {
    "bimpm": ("BiMPM (Wang et al., 2017)", "bilstm"),
    "cafe": ("CAFE (Tay et al., 2018b)", "bilstm"),
    "diin": ("DIIN (Gong et al., 2018)", "cnn"),
    "csran": ("CSRAN (Tay et al., 2018a)", "bilstm"),
}
MODELS = ("re2", *BESIDE)
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
            timed |= {f"RE2 ({count_text(count, 'block')})": {"model.blocks": count} for count in (1, 2, 3)}
        else:
            row, characters = BESIDE[model]
            taken = published.feature_settings({"characters": characters}, features)
            timed[row] = model_settings(model, dataset) | taken
    return Timing(
        Sweep(
            name=f"re2-timing-{dataset}",
            config=with_overrides(load_config(data.config), {"model.encoder_layers": LAYERS}),
            variants=timed,
            table=TableLayout(
                title="Inference time of RE2",
                rows=("variant",),
                scores=(),
                published=re2.PRINTED.rows("Table 5"),
                notes=(
                    f"Structure: of RE2 the released setting for {data.title} with {LAYERS} encoder layers",
                    "CAFE, DIIN and CSRAN were given parts of speech there, which their times leave out",
                    INPUT_NOTES[features],
                ),
            ),
        ),
        batches=100,
    )
