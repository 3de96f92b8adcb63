"""All settings: one dataclass for each model, and one each for data, training, optimizer and execution.

The dataclasses are the only place that defines the default, bounds, choices and meaning of a setting. The `ConfigDict`
of a config file is made from them (`default_config`), values are checked against them (`check`), and the modules of a
model take the dataclass itself.
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
# Dotted name of a setting that jaxmatch/extend.py added -> its default.
ADDED_DEFAULTS: dict[str, float] = {}
