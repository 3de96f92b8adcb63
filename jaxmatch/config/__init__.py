"""All settings: one dataclass for each model, and one each for data, training, optimizer and execution.

They are the only place of a setting's default, bounds, choices and meaning. A config file's `ConfigDict` is made from
them (`default_config`), values are held to them (`check`), and a model's modules are given the dataclass itself.
"""

from jaxmatch.config.compared import (
    BiMPMConfig,
    DecAttConfig,
    DIINConfig,
    ESIMConfig,
    SiameseConfig,
    TransformerConfig,
)
from jaxmatch.config.fields import MOST, MOST_LAYERS, WIDEST
from jaxmatch.config.models import CAFEConfig, CSRANConfig, ESANConfig, ModelConfig, RE2Config, RefinementConfig
from jaxmatch.config.sections import DataConfig, ExecutionConfig, OptimizerConfig, TrainingConfig

__all__ = [
    "ADDED_DEFAULTS",
    "MODELS",
    "MOST",
    "MOST_LAYERS",
    "SECTIONS",
    "WIDEST",
    "BiMPMConfig",
    "CAFEConfig",
    "CSRANConfig",
    "DIINConfig",
    "DataConfig",
    "DecAttConfig",
    "ESANConfig",
    "ESIMConfig",
    "ExecutionConfig",
    "ModelConfig",
    "OptimizerConfig",
    "RE2Config",
    "RefinementConfig",
    "SiameseConfig",
    "TrainingConfig",
    "TransformerConfig",
]

MODELS: dict[str, type[ModelConfig]] = {
    config.name: config
    for config in (
        RE2Config,
        ESANConfig,
        CSRANConfig,
        CAFEConfig,
        BiMPMConfig,
        DIINConfig,
        DecAttConfig,
        ESIMConfig,
        SiameseConfig,
        TransformerConfig,
    )
}
SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "training": TrainingConfig,
    "optimizer": OptimizerConfig,
    "execution": ExecutionConfig,
}
# Dotted name -> default of the settings that jaxmatch/extend.py added.
ADDED_DEFAULTS: dict[str, float] = {}
