"""CSRAN with one to five stacked layers, the paper's Figures 2 (SciTail, with a plain stack) and 3 (Quora and SNLI),
on dev and test.

    jaxmatch sweep sweeps/csran_depth.py --dataset scitail --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/depth
    jaxmatch figure runs/depth --against model.stacked_layers --output figures

`--dataset`: scitail, quora or snli. The stacked model is CSRAN without attention refinement and co-stack affinity. The
paper draws its curves, and prints only two differences on SciTail as numbers. The figure is of dev scores, as the
paper's, or with `--score test.accuracy` of test scores. `--features none` leaves out the words' characters. `--smoke`
tries it in seconds.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.papers import published
from jaxmatch.papers.esan_csran import csran

DEPTHS = (1, 2, 3, 4, 5)
# Curves of Figures 2 (SciTail) and 3 (Quora, SNLI): data set -> curve -> what it changes.
CURVES = {
    "scitail": {"CSRAN": {}, "stacked model": csran.WITHOUT_BOTH},
    "quora": {"CSRAN": {}},
    "snli": {"CSRAN": {}},
}


def depth_note(name: str) -> str:
    """Returns the note about what the paper draws. It prints only two differences for these curves, on SciTail."""
    drawn = f"{csran.citation} draw this in Figure {2 if name == 'scitail' else 3}"
    if not (found := csran.rows("section 3.5", name)):
        return f"{drawn} and print no numbers"
    dev, test = (found[0].scores[score] for score in ("dev.accuracy", "test.accuracy"))
    stack = f"a stack has {dev} on dev and {test} on test over a single layer, and that 5 layers are best"
    return f"{drawn}; footnote 3 says that {stack}"


def get_sweep(dataset: str = "scitail", features: str = published.PAPER) -> Sweep:
    data = csran.data_set(dataset, tuple(CURVES))
    config = published.with_features(load_config(data.config), csran.FEATURES, features)
    curves = CURVES[dataset]
    return Sweep(
        name=f"csran-depth-{dataset}",
        config=config,
        grid={"model.stacked_layers": DEPTHS},
        variants=published.variants(curves),
        seeds=tuple(range(csran.SEEDS)),
        table=TableLayout(
            title=f"Depth of CSRAN's stack on {data.title}",
            rows=("variant", "model.stacked_layers"),
            scores=data.scores,
            order={"variant": tuple(curves)},
            notes=(
                *csran.setting_notes(config),
                depth_note(dataset),
                *([csran.ALIGNED_NOTE] if len(curves) > 1 else []),
            ),
        ),
    )
