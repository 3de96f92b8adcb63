"""Our config as settings of the public PyTorch RE2."""

from typing import Any

from jaxmatch.data.encoded import EncodedData

_CONNECTIONS = {"augmented": "aug", "augmented_running_sum": "aug", "vanilla_running_sum": "residual", "none": "none"}


def peer_settings(config: Any, data: EncodedData) -> dict[str, Any]:
    """Returns the same model, batch size and learning rate as settings for the peer's `build`."""
    model = config.model
    return {
        "blocks": model.blocks,
        "enc_layers": model.encoder_layers,
        "hidden_size": model.hidden_size,
        "alignment": model.alignment,
        "fusion": model.fusion,
        "connection": _CONNECTIONS[model.connection],
        "prediction": model.prediction,
        "embedding_dim": int(data.vectors.shape[1]),
        "dropout": config.optimizer.dropout_rate,
        "batch_size": config.training.batch_size,
        "lr": config.optimizer.learning_rate,
    }
