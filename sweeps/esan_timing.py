"""ESAN's size and inference time, the paper's Table 5 and Figure 2, with RE2, CAFE and CSRAN: 1000 batches of 8
pairs.

    jaxmatch timing sweeps/esan_timing.py --dataset quora --data-directory DATA --workdir runs/timing

Sentences have 20 tokens. The table also shows how many pairs of the data set's real test split are predicted in a
second. `--dataset`: quora as in the paper, snli or multinli. `--models`: any of esan, esan3, re2, cafe and csran,
separated by commas. `--features none` leaves out the word features that the papers use besides the vector.
`--split none` needs no data files, `--smoke` tries it in seconds.
"""

from typing import Any

from jaxmatch import InputError, Sweep, TableLayout, load_config
from jaxmatch.errors import nearest
from jaxmatch.papers import published
from jaxmatch.papers.esan_csran import csran, esan
from jaxmatch.papers.timing import Timing
from jaxmatch.sweep.files import model_settings

# Name on the command line -> name of the row.
ROWS = {"esan": "ESAN", "esan3": "ESAN (3 alignment layers)", "re2": "RE2", "cafe": "CAFE", "csran": "CSRAN"}
INPUT_NOTES = {
    published.PAPER: "ESAN, CAFE and CSRAN are given what ESAN's and CSRAN's papers give, RE2 its vector alone",
    published.NONE: "all are given its vector alone",
}


def settings_of(row: str, dataset: str, features: str) -> dict[str, Any]:
    """Returns the structure of a row's model: that of its file in configs/ for the data set, or the model's own."""
    model = "esan" if row == "esan3" else row
    features_of_model = {"esan": esan.features(dataset), "csran": csran.FEATURES, "cafe": csran.FEATURES, "re2": {}}[
        model
    ]
    return {
        **model_settings(model, dataset),
        **published.feature_settings(features_of_model, features),
        **({"model.alignment_layers": 3} if row == "esan3" else {}),
    }


def get_timing(dataset: str = "quora", models: str = ",".join(ROWS), features: str = published.PAPER) -> Timing:
    data = esan.data_set(dataset)
    rows = list(dict.fromkeys(models.split(",")))
    for row in rows:
        if row not in ROWS:
            raise InputError(f'there is no model "{row}" in this timing', remedy=nearest(row, list(ROWS)))
    timed = {ROWS[row]: settings_of(row, dataset, features) for row in rows}
    return Timing(
        Sweep(
            name=f"esan-timing-{dataset}",
            config=load_config(data.config),
            variants=timed,
            table=TableLayout(
                title="Size and inference time of ESAN",
                rows=("variant",),
                scores=(),
                published=esan.rows("Table 5") + esan.rows("section 4.2"),
                notes=(f"Structures: those of configs/ for {data.title}; of each word, {INPUT_NOTES[features]}",),
            ),
        ),
        batches=1000,
    )
