"""RE2 on your own pairs: a folder with train.tsv and dev.tsv (and test.tsv), or .jsonl, see docs/how_to/own_data.md.

    jaxmatch train configs/re2_own.py --data-directory FOLDER --vectors VECTORS --workdir runs/own

Run time and scores depend on your data.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "data.name": "own",
            "data.task": "classification",
            "training.batch_size": 64,
            "training.epochs": 20,
        },
    )
