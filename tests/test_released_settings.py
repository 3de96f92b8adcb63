"""The settings of the RE2 paper and of its authors' two implementations, field by field."""

from pathlib import Path

import numpy as np
import pytest

from jaxmatch import load_config
from jaxmatch.config.settings import flatten, with_overrides
from jaxmatch.data import catalog
from jaxmatch.data.catalog import CATALOG
from jaxmatch.data.vectors import read_vectors
from jaxmatch.papers import re2
from jaxmatch.sweep import launch
from jaxmatch.training import step

SWEEPS = Path(__file__).parent.parent / "sweeps"

# configs/default.json5 and data/*.json5 of both codes, which have the same values. The names are those of the PyTorch
# code. The TensorFlow code calls `dropout` and `kernel_sizes` `dropout_keep_prob` and `kernel_size`, and has no
# `fix_embeddings`, `encoder` and `weight_decay`.
RELEASED_DEFAULT = (
    dict(hidden_size=150, dropout=0.2, blocks=2, enc_layers=2, kernel_sizes=[3], encoder="cnn", fix_embeddings=True)
    | dict(alignment="linear", fusion="full", connection="aug", prediction="full", epochs=30, batch_size=128)
    | dict(grad_clipping=5, weight_decay=0, lr=1e-3, beta1=0.9, beta2=0.999, lr_decay_rate=0.95)
    | dict(lr_decay_samples=128000, min_lr=6e-5, lr_warmup_samples=0, metric="acc", eval_per_samples=6400)
    | dict(eval_per_samples_warmup=40000, eval_warmup_samples=0, min_samples=0, tolerance_samples=400000)
    | dict(eval_epoch=True, eval_file="dev", embedding_mode="freq", min_df=5, max_len=999, sort_by_len=False)
    | dict(lower_case=True)
)
LARGE = dict(eval_per_samples=12800, eval_per_samples_warmup=512000, min_samples=5120000, tolerance_samples=2560000)
RELEASED_FILES = {
    "snli": LARGE
    | dict(enc_layers=2, blocks=3, eval_warmup_samples=5120000, lr=0.002, min_lr=1e-4, lr_decay_samples=256000)
    | dict(lr_decay_rate=0.94, batch_size=512, lr_warmup_samples=2048000),
    "quora": LARGE
    | dict(enc_layers=2, blocks=2, prediction="symmetric", hidden_size=200, max_len=100, eval_warmup_samples=3584000)
    | dict(lr=0.0012, min_lr=6e-5, lr_decay_samples=256000, batch_size=512, lr_warmup_samples=0),
    "scitail": dict(alignment="identity", enc_layers=3, blocks=2, hidden_size=200, epochs=80, eval_per_samples=6400)
    | dict(lr=0.001, lr_warmup_samples=0, lr_decay_rate=1.0),
    "wikiqa": dict(metric="mrr", enc_layers=3, blocks=2, hidden_size=200, prediction="simple", eval_per_samples=1280)
    | dict(tolerance_samples=256000, eval_epoch=False, lr=0.001, lr_decay_rate=1.0, batch_size=128),
}


def decay_of_moments(settings):
    """Returns beta1 and beta2 of Adam, computed from the moments after a first gradient of 1."""
    adam = step.optimizer(step.stack([settings.to_dict()]), 1.0)
    parameters, gradient = {"w": np.zeros(1, np.float32)}, {"w": np.ones(1, np.float32)}
    _, (_, _, moments, _) = adam.update(gradient, adam.init(parameters), parameters)
    return 1 - float(moments.mu["w"][0]), 1 - float(moments.nu["w"][0])


def embedding_mode_of(folder, lowercase):
    """Returns the authors' embedding_mode: which vector we use for a word that has two vectors in a file."""
    (folder / "v.txt").write_text("Dog 1 1\ndog 3 3\n")
    found, _ = read_vectors(folder / "v.txt", {"dog": 0}, lowercase=lowercase)
    return {1: "freq", 2: "avg", 3: "last"}[found["dog"][0]]


def as_released_fields(config, folder):
    """Converts one of our configs to the fields of the authors' config files."""
    model, data, training, optimizer = config.model, config.data, config.training, config.optimizer
    selection = training.selection or catalog.selection(data.name, CATALOG[data.name].task)
    betas = decay_of_moments(optimizer)
    late = training.evaluate_every_samples_late
    return {
        "hidden_size": model.hidden_size,
        "dropout": optimizer.dropout_rate,
        "blocks": model.blocks,
        "enc_layers": model.encoder_layers,
        "kernel_sizes": [model.kernel_size],
        "encoder": {"re2": "cnn"}[model.name],
        "fix_embeddings": model.words == "fixed",
        "alignment": model.alignment,
        "fusion": model.fusion,
        "prediction": model.prediction,
        "connection": {"augmented_running_sum": "aug"}[model.connection],
        "epochs": training.epochs,
        "batch_size": training.batch_size,
        "grad_clipping": optimizer.gradient_clip,
        "weight_decay": optimizer.l2_penalty,
        "lr": optimizer.learning_rate,
        "beta1": pytest.approx(betas[0], abs=1e-6),
        "beta2": pytest.approx(betas[1], abs=1e-6),
        "lr_decay_rate": optimizer.decay_rate,
        "lr_decay_samples": optimizer.decay_samples,
        "min_lr": optimizer.learning_rate_floor,
        "lr_warmup_samples": optimizer.warmup_samples,
        "metric": {"accuracy": "acc"}.get(selection, selection),
        "eval_per_samples": late or training.evaluate_every_samples,
        "eval_per_samples_warmup": training.evaluate_every_samples if late else 40000,
        "eval_warmup_samples": training.late_from_samples,
        "min_samples": training.minimum_samples,
        "tolerance_samples": training.patience_samples,
        "eval_epoch": training.evaluate_each_epoch,
        # We select checkpoints on dev. Scores of the checkpoint selected on test are in separate columns.
        "eval_file": "test" if training.best_on_test else "dev",
        "embedding_mode": embedding_mode_of(folder, data.lowercase),
        "min_df": data.minimum_count,
        # Texts are cut to this many tokens, and training pairs with a text of this many are left out.
        "max_len": {(0, 0): 999, (100, 100): 100}[data.maximum_length, data.drop_from_length],
        "sort_by_len": not training.mix_lengths,
        "lower_case": data.lowercase,
    }


# The sweeps of Tables 1 to 4, 6 and 7 -> what main.json5, ablation.json5 and robustness.json5 change in all rows.
SWEEP_FILES = {"re2_main": {"eval_file": "test"}, "re2_ablation": {}, "re2_robustness": {}}


@pytest.mark.parametrize("sweep", SWEEP_FILES)
@pytest.mark.parametrize("dataset", sorted(RELEASED_FILES))
@pytest.mark.parametrize("setting", ["released_pytorch", "released_tensorflow"])
def test_released_settings_equal_the_authors_config_files(dataset, setting, sweep, tmp_path):
    planned = launch.resolve(SWEEPS / f"{sweep}.py", options={"dataset": dataset, "setting": setting})
    config = planned.config
    assert as_released_fields(config, tmp_path) == RELEASED_DEFAULT | RELEASED_FILES[dataset] | SWEEP_FILES[sweep]
    main = "authors' configuration of Tables 1 to 4 test scores do both"
    assert (main in " ".join(planned.table.notes)) == (SWEEP_FILES[sweep].get("eval_file") == "test")
    assert (config.model.encoder_activation, config.model.weight_normalization) == (
        ("relu", "unit") if setting == "released_tensorflow" else ("gelu", "he")
    )
    assert config.model.score_scale == "learned" and config.model.dropout_placement == "released"
    # The released codes split preprocessed files at whitespace. The preprocessed SNLI file, which has no punctuation,
    # is no longer available.
    assert config.data.remove_punctuation == (dataset == "snli")
    assert config.data.tokenizer == {"snli": "word", "scitail": "tweet_split"}.get(dataset, "whitespace")


@pytest.mark.parametrize("dataset", sorted(re2.DATA_SETS))
def test_paper_setting_has_the_values_stated_in_the_paper(dataset):
    config = launch.resolve(SWEEPS / "re2_main.py", options={"dataset": dataset, "setting": "paper"}).config
    model, data, optimizer = config.model, config.data, config.optimizer
    assert (model.hidden_size, model.score_scale, model.dropout_placement) == (150, "none", "every_layer")
    assert (model.encoder_activation, model.weight_normalization, model.kernel_size) == ("gelu", "he", 3)
    assert data.remove_punctuation and data.lowercase and not data.maximum_length and data.tokenizer == "word"
    assert optimizer.decay_rate < 1 and optimizer.warmup_samples > 0 and optimizer.gradient_clip == 5
    assert 1e-4 <= optimizer.learning_rate <= 3e-3 and 64 <= config.training.batch_size <= 512
    assert optimizer.learning_rate_floor == 0 and optimizer.dropout_rate == 0.2
    assert 1 <= model.blocks <= 3 and 1 <= model.encoder_layers <= 3


# A field that the paper's setting fixes -> text in the caption if the field has another value.
STATED = {
    "model.hidden_size": "hidden size",
    "model.dropout_placement": "dropout is placed",
    "model.score_scale": "temperature",
    "data.maximum_length": "100 tokens",
    "data.tokenizer": "NLTK's tokenizer",
    "data.remove_punctuation": "punctuation is kept",
    "model.connection": "all earlier blocks",
}


PAIRS = [(dataset, setting) for dataset in re2.DATA_SETS for setting in re2.SETTINGS]


@pytest.mark.parametrize(
    ("dataset", "setting"), [pair for pair in PAIRS if pair[0] in RELEASED_FILES or not pair[1].startswith("released")]
)
def test_caption_states_differences_from_the_paper_setting(dataset, setting):
    file = load_config(re2.data_set(dataset).config)
    paper = re2.with_setting(dataset, file, "paper")
    config = re2.with_setting(dataset, file, setting)
    caption = " ".join(re2.setting_notes(config, setting))
    ours, paper_values = flatten(config), flatten(paper)
    for key, words in STATED.items():
        assert (words in caption) == (ours[key] != paper_values[key]), key
    stops = config.optimizer.learning_rate_floor > 0 and config.optimizer.decay_rate < 1
    assert ("decay stops" in caption) == stops and paper.optimizer.learning_rate_floor == 0
    assert ("no decay" in caption) == (config.optimizer.decay_rate == 1)
    assert ("no warmup" in caption) == (config.optimizer.warmup_samples == 0)
    assert paper.optimizer.decay_rate < 1 and paper.optimizer.warmup_samples > 0


@pytest.mark.parametrize("dataset", ["wikiqa", "scitail"])
def test_all_single_changes_combined_equal_the_tensorflow_code(dataset):
    planned = launch.resolve(SWEEPS / "re2_differences.py", options={"dataset": dataset})
    changes = {name: dict(change) for name, change in planned.variants.items()}
    whole = with_overrides(planned.config, changes.pop("TensorFlow code"))
    released = re2.with_setting(dataset, load_config("re2", dataset=dataset), "released_tensorflow")
    assert flatten(whole) == flatten(with_overrides(released, {"training.best_on_test": True}))
    assert changes.pop("TensorFlow code without mixed lengths")["training.epochs"] == released.training.epochs
    every = {name: value for each in changes.values() for name, value in each.items()}
    combined = flatten(with_overrides(planned.config, every))
    # With two blocks, the sum over all earlier blocks is the output of the one earlier block.
    assert {name for name, value in flatten(whole).items() if combined[name] != value} == {"model.connection"}
    assert planned.config.model.blocks == 2
