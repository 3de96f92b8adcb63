"""The settings of the models: one dataclass for each, with the default, bounds and meaning of every setting."""

import dataclasses
import math
import typing
from collections.abc import Collection
from typing import Any, Literal

MOST = 2**31 - 1  # the maximum of int32, in which a device holds numbers of samples, ids and sizes
MOST_LAYERS, _MOST_FEATURES, WIDEST = 1000, 1 << 21, 999  # larger than any model needs, and still possible to trace

Precision = Literal["float32", "highest", "tensorfloat32", "bfloat16"]
# The inputs of the prediction layers, computed from the vectors of both sentences (models/re2.py).
HeadInputs = Literal["full", "symmetric", "simple"]


def setting(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: Collection[str] | None = None,
) -> Any:
    """Returns a field of a dataclass of settings.

    Arguments:
      default: the default of the setting.
      help: the meaning of the setting.
      least, most, below: bounds: `least <= value <= most` and `value < below`.
      choices: the allowed values besides the default, unless the type of the field states them.
    """
    bounds = {"least": least, "most": most, "below": below, "choices": choices}
    return dataclasses.field(default=default, metadata={"help": help, **bounds})


def layers(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=MOST_LAYERS)


def features(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=_MOST_FEATURES)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The settings that all models have: the features of each word, and the precision of products."""

    name: typing.ClassVar[str]
    title: typing.ClassVar[str]  # in tables
    weight_normalization: typing.ClassVar[str] = "none"

    precision: Precision = setting(
        "float32", "precision of matrix products; bfloat16: also of activations, while parameters stay float32"
    )
    words: Literal["fixed", "trained"] = setting(
        "fixed", "word vectors; trained: a parameter that starts at them, at random numbers for words without a vector"
    )
    characters: Literal["none", "cnn", "bilstm"] = setting(
        "none", "network over the first 16 characters of a word; words that data.minimum_count drops share one input"
    )
    character_features: int = features(100, "size of the output of model.characters; 100 in ESAN, section 3")
    known_characters: int = features(
        128, "number of known characters, including padding; at least 128 if used", least=2
    )
    tags: bool = setting(False, "give each word its part of speech, by NLTK's tagger")
    tag_features: int = features(10, "size of a tag's embedding; 10 in CSRAN's released run")
    known_tags: int = features(50, "number of known tags, including padding; at least 47 if used", least=2)
    exact_match: bool = setting(False, "mark each word that also occurs in the other sentence, in any case")

    @property
    def least_layers(self) -> int:
        """The minimum number of layers of the model that have parameters of their own."""
        counts = (getattr(self, field.name) for field in dataclasses.fields(self) if field.name.endswith("_layers"))
        return sum(count for count in counts if isinstance(count, int))

    @property
    def problem(self) -> tuple[str, str] | None:
        """The conflict between settings that are allowed by themselves, and a remedy; None: no conflict."""
        return None


def hidden_size_problem(size: int, divisor: int, parts: str) -> tuple[str, str] | None:
    """Returns `ModelConfig.problem` for a hidden size that must be a multiple of a divisor."""
    if size % divisor == 0:
        return None
    return f"model.hidden_size {size} does not fit {parts}", f"give a multiple of {divisor}"


@dataclasses.dataclass(frozen=True)
class RE2Config(ModelConfig):
    """RE2 (Yang et al., 2019), as released: 2 blocks of 2 convolutions, hidden size 150."""

    name: typing.ClassVar[str] = "re2"
    title: typing.ClassVar[str] = "RE2"

    blocks: int = layers(2, "number of blocks, N; tuned from 1 to 3 in the paper")
    encoder_layers: int = layers(2, "number of convolutions in a block's encoder; tuned from 1 to 3 in the paper")
    hidden_size: int = features(150, "size of every layer's output; section 3.2; some released settings use 200")
    kernel_size: int | tuple[int, ...] = setting(
        3, "width of a convolution, or several widths for convolutions side by side; odd"
    )
    encoder_activation: Literal["gelu", "relu"] = setting(
        "gelu", "activation of the convolutions; section 3.2; relu: the TensorFlow code"
    )
    alignment: Literal["linear", "identity"] = setting("linear", "F of Eq. 2; linear: a dense layer with GeLU")
    score_scale: Literal["learned", "none"] = setting(
        "learned", "scale of the alignment's scores: one number a block, as released, or none, as in Eq. 2"
    )
    fusion: Literal["full", "simple"] = setting(
        "full", "fusion of a block; full: Eq. 4; simple: an ablation of Table 6"
    )
    connection: Literal[
        "augmented", "augmented_running_sum", "vanilla", "vanilla_running_sum", "vanilla_projected", "none"
    ] = setting("augmented", "connection of the blocks; augmented: Eq. 1; models/re2.py describes the others")
    prediction: HeadInputs = setting("full", "inputs of H; full: Eq. 5; symmetric: Eq. 6; simple: Eq. 7")
    encoder_input: bool = setting(
        True, "give the encoder's input to alignment and fusion; False: the ablation w/o enc-in"
    )
    parallel_blocks: bool = setting(
        False, "the ablation in which every block gets the embeddings and the outputs are summed"
    )
    # The released code applies dropout to the embeddings, to the output of an encoder, and to the inputs of all layers
    # except a block's first convolution and the first networks of a fusion. The paper (section 3.2) applies it to the
    # input of "every fully-connected or convolutional layer".
    dropout_placement: Literal["released", "every_layer"] = setting(
        "released",
        "places of dropout; every_layer: before every dense or convolution layer, as in the paper, but for the "
        "projection of a vanilla connection",
    )
    weight_normalization: Literal["he", "unit", "none"] = setting(  # pyright: ignore[reportIncompatibleVariableOverride]
        "he", "initial gain; he: the norm of its direction; unit: 1; none: no weight normalization"
    )

    @property
    def least_layers(self) -> int:
        return self.blocks * self.encoder_layers * len(self.kernel_sizes)

    @property
    def problem(self) -> tuple[str, str] | None:
        """The problem of a hidden size that the widths of convolutions cannot share equally."""
        count = len(self.kernel_sizes)
        return hidden_size_problem(self.hidden_size, count, f"{count} kernel sizes")

    @property
    def kernel_sizes(self) -> tuple[int, ...]:
        """The widths of the convolutions of a layer, which are side by side."""
        return self.kernel_size if isinstance(self.kernel_size, tuple) else (self.kernel_size,)


@dataclasses.dataclass(frozen=True)
class ESANConfig(ModelConfig):
    """ESAN (Hu et al., 2020)."""

    name: typing.ClassVar[str] = "esan"
    title: typing.ClassVar[str] = "ESAN"

    alignment_layers: int = layers(2, "number of enhanced alignment layers; 2 or 3 in the paper")
    encoder_layers: int = layers(1, "number of LSTM layers in the encoder; 1 or 2 in the paper")
    hidden_size: int = features(150, "size of the hidden layer of Eq. 12; 150 to 300 in the paper")
    augmentation: Literal["gated", "simple", "none"] = setting(
        "gated", "feature augmentation; gated: Eq. 1 to 3; simple: Eq. 4; none: the ablation w/o Feat. Augment."
    )
    word_features: bool = setting(True, "augment with word features; False: the ablation w/o Word Feat.")
    contextual_features: bool = setting(
        True, "augment with contextual features; False: the ablation w/o Contextual Feat."
    )
    prediction: HeadInputs = setting("full", "inputs of Eq. 11; full: the paper; the others as in RE2")
    forget_bias: float = setting(0.0, "initial bias of an LSTM's forget gate; the papers do not say, and cuDNN has 0")


@dataclasses.dataclass(frozen=True)
class RefinementConfig(ModelConfig):
    """The settings of the CAFE block (CSRAN, section 2.3), which CSRAN and CAFE have."""

    factors: int = features(10, "number of factors of the factorization machines, k of Eq. 3")
    intra_projection: bool = setting(
        True,
        "project tokens before their attention to their own sentence; False: CSRAN's published code, whose saved run "
        "projected",
    )
    meta_factors: int = features(
        0,
        "number of factors of a factorization machine over the six features of a block; 4 in CAFE's code",
        least=0,
    )
    flow_intra: bool = setting(False, "also pass on the vector of self-attention; True: CAFE's code")


@dataclasses.dataclass(frozen=True)
class CSRANConfig(RefinementConfig):
    """CSRAN (Tay et al., 2018)."""

    name: typing.ClassVar[str] = "csran"
    title: typing.ClassVar[str] = "CSRAN"

    character_features: int = features(
        128, "size of the output of model.characters; 64 in each direction in the released run"
    )
    stacked_layers: int = layers(3, "number of LSTM layers in the stacked encoder, k; 2 to 5 in the paper")
    aggregation_layers: int = layers(1, "number of LSTM layers over the comparisons, Eq. 6 and 7; 1 or 2 in the paper")
    hidden_size: int = features(200, "size of each direction of every LSTM, and of the highway network")
    highway_layers: int = layers(
        2, "number of highway layers in the input encoder; 2 in the paper, 1 in the released run", least=0
    )
    refinement: bool = setting(True, "multi-level attention refinement, section 2.3; False: the ablation w/o MAR")
    refinement_place: Literal["before", "after"] = setting(
        "before",
        "place of the CAFE blocks; before: before each LSTM, the authors' code; after: between LSTMs, section 2.3",
    )
    co_stack: bool = setting(
        True, "co-stack affinity, Eq. 4; False: the affinity of the last layer alone, the ablation w/o CSRA"
    )
    aligned_layers: Literal["all", "last"] = setting(
        "all", "layers that Eq. 5 aligns without co_stack, section 3.5; last: the released code"
    )
    prediction: HeadInputs = setting(
        "simple", "inputs of the prediction layers; simple: z of Eq. 8; full: the released code"
    )
    head: Literal["dense", "highway"] = setting(
        "dense", "kind of the hidden prediction layers; highway: the released run"
    )
    head_layers: int = layers(2, "number of prediction layers, including the last; 1 to 3 in the paper")
    head_size: int = features(300, "size of the hidden prediction layers")
    forget_bias: float = setting(0.0, "initial bias of an LSTM's forget gate; the papers do not say, and cuDNN has 0")


@dataclasses.dataclass(frozen=True)
class CAFEConfig(RefinementConfig):
    """CAFE (Tay et al., 2018), as CSRAN's paper compares with it."""

    name: typing.ClassVar[str] = "cafe"
    title: typing.ClassVar[str] = "CAFE"

    character_features: int = features(
        128, "size of the output of model.characters; 64 in each direction in the released run"
    )
    hidden_size: int = features(300, "size of each direction of the LSTM, and of the highway network")
    bidirectional: bool = setting(False, "use a bidirectional LSTM; the released code does not")
    highway_layers: int = layers(2, "number of highway layers in the input encoder", least=0)
    prediction: HeadInputs = setting("full", "inputs of the prediction layers")
    head: Literal["dense", "highway"] = setting("highway", "kind of the hidden prediction layers")
    head_layers: int = layers(3, "number of prediction layers, including the last")
    head_size: int = features(300, "size of the hidden prediction layers")
    forget_bias: float = setting(
        0.0, "initial bias of an LSTM's forget gate; 1 in the LSTM that the authors name for CAFE, 0 in cuDNN's"
    )


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
