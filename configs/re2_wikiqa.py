"""RE2 on WikiQA, the released settings (the paper reports MAP 0.7452 ± 0.0044, MRR 0.7618 ± 0.0040 over 10 seeds, Table 4).

    jaxmatch train configs/re2_wikiqa.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/wikiqa

Punctuation is removed, as the paper says; the released code keeps it. Dev is scored after every epoch, there every 1,280 pairs
(training.evaluate_every_samples). Questions are scored as in the paper: those that have both a right and a wrong answer. What
it scored here: results/.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.encoder_layers": 3,
            "model.hidden_size": 200,
            "model.prediction": "simple",
            "data.name": "wikiqa",
            "data.tokenizer": "whitespace",
            "training.patience_samples": 256_000,
            "training.selection": "mrr",
            "optimizer.decay_rate": 1.0,
        },
    )
