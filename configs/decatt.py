"""DecAtt (Parikh et al., 2016), the decomposable attention model.

    jaxmatch train configs/decatt.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/decatt

Size and dropout are the paper's (section 5.1). Its batch size of 4 and its optimizer, Adagrad with a rate of 0.05, are
not used: the optimizer is Adam with the default decay (0.95 every 128,000 pairs, down to 6e-5) and the default limit of
the gradient's norm (5). Other data sets: `sweeps/comparison.py --models decatt`. Runs that were trained here are in
results/.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

_PAPER = {
    "model.hidden_size": 200,
    "data.tokenizer": "word",
    "data.remove_punctuation": False,
    "training.batch_size": 32,  # 4 in the paper
    "optimizer.learning_rate": 0.0005,
    "optimizer.dropout_rate": 0.2,
}

DATA_SETS = {
    # 86.3 test accuracy in the paper (Table 1), 86.8 with intra-sentence attention.
    "snli": _PAPER | {"training.patience_samples": 2_560_000},
    # Your own files: docs/how_to/own_data.md.
    "own": _PAPER | {"training.epochs": 20},
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("decatt"), of_data_set(DATA_SETS, dataset))
