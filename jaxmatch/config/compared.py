"""The settings of the models that the models of the papers are compared with."""

import dataclasses
import math
import typing

from jaxmatch.config.fields import HeadInputs, features, layers, setting
from jaxmatch.config.models import ModelConfig, hidden_size_problem


@dataclasses.dataclass(frozen=True)
class BiMPMConfig(ModelConfig):
    """BiMPM (Wang et al., 2017)."""

    name: typing.ClassVar[str] = "bimpm"
    title: typing.ClassVar[str] = "BiMPM"

    character_features: int = features(50, "size of the output of model.characters; section 4.1")
    hidden_size: int = features(100, "size of each direction of both LSTMs; section 4.1")
    perspectives: int = features(20, "number of perspectives of a matching, l; section 4.1")
    full_matching: bool = setting(True, "match with the other sentence's last state; False: w/o Full-Matching")
    maxpooling_matching: bool = setting(
        True, "keep the best match among the other sentence's states; False: w/o Maxpooling-Matching"
    )
    attentive_matching: bool = setting(
        True, "match with the mean of the other sentence's states; False: w/o Attentive-Matching"
    )
    max_attentive_matching: bool = setting(
        True, "match with the most similar state of the other sentence; False: w/o MaxAttentive-Matching"
    )
    head_size: int = features(200, "size of the hidden prediction layer; half of its inputs in the authors' code")
    forget_bias: float = setting(
        0.0, "initial bias of an LSTM's forget gate; 1 in the authors' first code, 0 in their later one, by cuDNN"
    )


@dataclasses.dataclass(frozen=True)
class DecAttConfig(ModelConfig):
    """DecAtt (Parikh et al., 2016)."""

    name: typing.ClassVar[str] = "decatt"
    title: typing.ClassVar[str] = "DecAtt"

    hidden_size: int = features(200, "size of the projected words and of every layer; section 5.1")
    intra_attention: bool = setting(
        False, "also give each token the vector of self-attention; section 3.4; True: the paper's better model"
    )
    prediction: HeadInputs = setting("simple", "inputs of H, section 3.3; simple: the paper; the others as in RE2")


@dataclasses.dataclass(frozen=True)
class SiameseConfig(ModelConfig):
    """A siamese BiLSTM (InferSent; Conneau et al., 2017)."""

    name: typing.ClassVar[str] = "siamese"
    title: typing.ClassVar[str] = "Siamese BiLSTM"

    encoder_layers: int = layers(1, "number of LSTM layers; 1 in the paper")
    hidden_size: int = features(300, "size of each direction of the LSTM; 2048 in the paper")
    prediction: HeadInputs = setting("symmetric", "inputs of the prediction layers; symmetric: the paper, figure 1")
    head_size: int = features(512, "size of the hidden prediction layer; 512 in the paper's code")
    forget_bias: float = setting(0.0, "initial bias of an LSTM's forget gate; the papers do not say, and cuDNN has 0")


@dataclasses.dataclass(frozen=True)
class ESIMConfig(ModelConfig):
    """ESIM (Chen et al., 2017), the sequential model."""

    name: typing.ClassVar[str] = "esim"
    title: typing.ClassVar[str] = "ESIM"

    hidden_size: int = features(300, "size of each direction of the LSTMs, and of every layer; section 4")
    prediction: HeadInputs = setting("simple", "inputs of the prediction layers; simple: v of Eq. 20")
    forget_bias: float = setting(0.0, "initial bias of an LSTM's forget gate; the papers do not say, and cuDNN has 0")


@dataclasses.dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """A small transformer encoder over both sentences."""

    name: typing.ClassVar[str] = "transformer"
    title: typing.ClassVar[str] = "Transformer"

    encoder_layers: int = layers(3, "number of transformer layers")
    heads: int = features(4, "number of attention heads; they share hidden_size")
    hidden_size: int = features(256, "model dimension; even, and a multiple of heads")
    feed_forward_size: int = features(1024, "size of the hidden layer of each feed-forward network")
    prediction: HeadInputs = setting("full", "inputs of the prediction layers, as in RE2")

    @property
    def problem(self) -> tuple[str, str] | None:
        """The problem of a hidden size that the heads cannot share equally, or that is odd.

        Half of the position encoding is sines, and the other half is cosines.
        """
        return hidden_size_problem(self.hidden_size, math.lcm(2, self.heads), f"{self.heads} attention heads")


@dataclasses.dataclass(frozen=True)
class DIINConfig(ModelConfig):
    """DIIN (Gong et al., 2018)."""

    name: typing.ClassVar[str] = "diin"
    title: typing.ClassVar[str] = "DIIN"

    tag_features: int = features(47, "size of a tag's embedding; the paper has a one-hot vector of 47")
    grid_length: int = features(48, "tokens of each sentence that are kept; the rest is cut")
    highway_layers: int = layers(2, "number of highway layers in the encoder")
    shared_encoder: bool = setting(
        False, "use the same self-attention and fuse gate for both sentences; False: the paper"
    )
    first_scale: float = setting(
        0.3, "channels of the first convolution, as a share of those of the interaction", least=0, most=1
    )
    dense_blocks: int = layers(3, "number of dense blocks, each of which halves the grid")
    block_layers: int = layers(8, "number of convolutions in a dense block")
    growth_rate: int = features(20, "channels that each convolution of a dense block adds")
    transition_scale: float = setting(
        0.5, "channels kept after a dense block, as a share of those at its end", least=0, most=1
    )

    @property
    def least_layers(self) -> int:
        return self.highway_layers + self.dense_blocks * self.block_layers
