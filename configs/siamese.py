"""A siamese BiLSTM (Conneau et al., 2017), which encodes each sentence independently of the other.

    jaxmatch train configs/siamese.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/siamese

The structure is InferSent's, at the size of the other models: 300 features in each direction, where the paper has
2,048. The paper's optimizer, SGD with a rate of 0.1, is not used: the optimizer is Adam with the default decay (0.95
every 128,000 pairs, down to 6e-5) and the default limit of the gradient's norm (5). Other data sets:
`sweeps/comparison.py --models siamese`. Runs that were trained here are in results/.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

_PAPER = {
    "model.hidden_size": 300,
    "data.tokenizer": "word",
    "data.remove_punctuation": False,
    "training.batch_size": 64,
}

DATA_SETS = {
    # 84.5 test accuracy in the paper (Table 3), with 2,048 features.
    "snli": _PAPER | {"training.patience_samples": 2_560_000},
    # Your own files: docs/how_to/own_data.md.
    "own": _PAPER | {"training.epochs": 20},
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("siamese"), of_data_set(DATA_SETS, dataset))
