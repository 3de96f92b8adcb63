"""CSRAN on SNLI (the paper reports 88.7 test accuracy, Table 2; the authors' saved log 88.5 dev, 88.7 test).

    jaxmatch train configs/csran_snli.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/snli

Layers, batch size, learning rate, L2 penalty and size of the clipped gradient are those of that log, and the decay: 0.96 every
1,280 steps, which it calls ten epochs. There each parameter's gradient is clipped by itself; unlike in the paper, the input
has one highway layer, the prediction layers see product and difference too (model.prediction = "full") and are highway layers
(model.head = "highway"), and the factorisation machines have 32 factors. Of each word it is given the vector and the
characters; the released run also gives the part of speech (model.tags). The exact match (model.exact_match), which the authors'
notes name, is not among the 438 inputs of that log: 300 + 128 + 10. Run time and score: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config("csran"),
        {
            "model.stacked_layers": 3,  # 2 to 5 in the paper
            "model.aggregation_layers": 2,  # 1 or 2
            "model.hidden_size": 200,  # of a direction; 64, 100, 200 or 300
            "model.highway_layers": 2,
            "model.head_layers": 3,  # with the last; 1 to 3
            "model.head_size": 300,  # 100, 200, 300 or 600
            "model.characters": "bilstm",
            "data.name": "snli",
            "data.tokenizer": "word",
            "data.minimum_count": 1,  # a word that the vocabulary lacks has no characters
            "training.batch_size": 128,
            "training.epochs": 20,  # it "converges in less than 20 epochs" (section 3.3.1)
            "training.patience_samples": 0,
            "optimizer.learning_rate": 0.001,  # 0.001, 0.0003 or 0.0004 in the paper
            "optimizer.learning_rate_floor": 0.0,
            "optimizer.decay_rate": 0.96,
            "optimizer.decay_samples": 163_840,  # 1,280 steps
            "optimizer.weight_decay": 1e-8,
            "optimizer.gradient_clip": 5.0,
        },
    )
