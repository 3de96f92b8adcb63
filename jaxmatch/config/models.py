"""The settings of the models: one dataclass for each, with the default, bounds and meaning of every setting."""

import dataclasses
import math
from collections.abc import Collection
from typing import Any, ClassVar, Literal

from jaxmatch.errors import InputError

MOST = 2**31 - 1  # the maximum of int32, in which a device holds numbers of samples, ids and sizes
_MOST_LAYERS, _MOST_FEATURES = 1000, 1 << 21  # larger than any model needs, and still possible to trace

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
    """Returns a field of a dataclass of settings: its default, its meaning, its bounds `least <= value <= most` and
    `value < below`, and the allowed values besides the default, unless the type of the field states them.
    """
    bounds = {"least": least, "most": most, "below": below, "choices": choices}
    return dataclasses.field(default=default, metadata={"help": help, **bounds})


def layers(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=_MOST_LAYERS)


def features(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=_MOST_FEATURES)


def lstm_forget_bias(more: str = "the papers do not say, and cuDNN has 0") -> Any:
    return setting(0.0, f"initial bias of an LSTM's forget gate; {more}")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The settings that all models have: the features of each word, and the precision of products.

    A subclass has a `name`, and a `title` for tables. If its values do not fit together, its construction raises an
    InputError.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    weight_normalization: ClassVar[str] = "none"

    precision: Precision = setting("float32", "of matrix products; bfloat16: also of activations, not of parameters")
    words: Literal["fixed", "trained"] = setting(
        "fixed", "word vectors; trained: a parameter that starts at them, at random numbers for words without a vector"
    )
    characters: Literal["none", "cnn", "bilstm"] = setting(
        "none", "network over the first 16 characters of a word; words that data.minimum_count drops share one input"
    )
    character_features: int = features(100, "size of the output of model.characters; 100 in ESAN, section 3")
    known_characters: int = features(128, "number of known characters, with padding; at least 128 if used", least=2)
    tags: bool = setting(False, "give each word its part of speech, by NLTK's tagger")
    tag_features: int = features(10, "size of a tag's embedding; 10 in CSRAN's released run")
    known_tags: int = features(50, "number of known tags, including padding; at least 47 if used", least=2)
    exact_match: bool = setting(False, "mark each word that also occurs in the other sentence, in any case")


def _require_multiple(size: int, divisor: int, parts: str) -> None:
    if size % divisor:
        raise InputError(f"model.hidden_size {size} does not fit {parts}", remedy=f"give a multiple of {divisor}")


@dataclasses.dataclass(frozen=True)
class RE2Config(ModelConfig):
    """RE2 (Yang et al., 2019), as released: 2 blocks of 2 convolutions, hidden size 150."""

    name, title = "re2", "RE2"

    blocks: int = layers(2, "number of blocks, N; tuned from 1 to 3 in the paper")
    encoder_layers: int = layers(2, "number of convolutions in a block's encoder; tuned from 1 to 3 in the paper")
    hidden_size: int = features(150, "size of every layer's output; section 3.2; some released settings use 200")
    kernel_size: int | tuple[int, ...] = setting(3, "width of a convolution, or several widths side by side; odd")
    encoder_activation: Literal["gelu", "relu"] = setting("gelu", "of convolutions; section 3.2; relu: TensorFlow code")
    alignment: Literal["linear", "identity"] = setting("linear", "F of Eq. 2; linear: a dense layer with GeLU")
    score_scale: Literal["learned", "none"] = setting("learned", "scale of a block's scores, as released; none: Eq. 2")
    fusion: Literal["full", "simple"] = setting("full", "fusion of a block; full: Eq. 4; simple: ablation of Table 6")
    connection: Literal[
        "augmented", "augmented_running_sum", "vanilla", "vanilla_running_sum", "vanilla_projected", "none"
    ] = setting("augmented", "connection of the blocks; augmented: Eq. 1; models/re2.py describes the others")
    prediction: HeadInputs = setting("full", "inputs of H; full: Eq. 5; symmetric: Eq. 6; simple: Eq. 7")
    encoder_input: bool = setting(True, "give the encoder's input to alignment and fusion; False: w/o enc-in")
    parallel_blocks: bool = setting(False, "the ablation in which every block gets the embeddings; outputs are summed")
    # The released code applies dropout to the embeddings, to the output of an encoder, and to the inputs of all layers
    # except a block's first convolution and the first networks of a fusion. The paper (section 3.2) applies it to the
    # input of "every fully-connected or convolutional layer".
    dropout_placement: Literal["released", "every_layer"] = setting(
        "released", "every_layer: before every dense or convolution layer but the projection of a vanilla connection"
    )
    weight_normalization: Literal["he", "unit", "none"] = setting(  # pyright: ignore[reportIncompatibleVariableOverride]
        "he", "initial gain; he: the norm of its direction; unit: 1; none: no weight normalization"
    )

    def __post_init__(self):
        count = len(self.kernel_sizes)
        _require_multiple(self.hidden_size, count, f"{count} kernel sizes")

    @property
    def kernel_sizes(self) -> tuple[int, ...]:
        """The widths of the convolutions of a layer, which are side by side."""
        return self.kernel_size if isinstance(self.kernel_size, tuple) else (self.kernel_size,)


@dataclasses.dataclass(frozen=True)
class ESANConfig(ModelConfig):
    """ESAN (Hu et al., 2020)."""

    name, title = "esan", "ESAN"

    alignment_layers: int = layers(2, "number of enhanced alignment layers; 2 or 3 in the paper")
    encoder_layers: int = layers(1, "number of LSTM layers in the encoder; 1 or 2 in the paper")
    hidden_size: int = features(150, "size of the hidden layer of Eq. 12; 150 to 300 in the paper")
    augmentation: Literal["gated", "simple", "none"] = setting(
        "gated", "feature augmentation; gated: Eq. 1 to 3; simple: Eq. 4; none: the ablation w/o Feat. Augment."
    )
    word_features: bool = setting(True, "augment with word features; False: the ablation w/o Word Feat.")
    contextual_features: bool = setting(True, "augment with contextual features; False: w/o Contextual Feat.")
    prediction: HeadInputs = setting("full", "inputs of Eq. 11; full: the paper; the others as in RE2")
    forget_bias: float = lstm_forget_bias()


@dataclasses.dataclass(frozen=True)
class RefinementConfig(ModelConfig):
    """The settings of the CAFE block (CSRAN, section 2.3), which CSRAN and CAFE have."""

    factors: int = features(10, "number of factors of the factorization machines, k of Eq. 3")
    intra_projection: bool = setting(True, "project tokens before self-attention; False: CSRAN's published code")
    meta_factors: int = features(0, "factors of a machine over the six features of a block; 4 in CAFE's code", least=0)
    flow_intra: bool = setting(False, "also pass on the vector of self-attention; True: CAFE's code")


@dataclasses.dataclass(frozen=True)
class CSRANConfig(RefinementConfig):
    """CSRAN (Tay et al., 2018)."""

    name, title = "csran", "CSRAN"

    character_features: int = features(128, "size of the output of model.characters; twice 64 in the released run")
    stacked_layers: int = layers(3, "number of LSTM layers in the stacked encoder, k; 2 to 5 in the paper")
    aggregation_layers: int = layers(1, "number of LSTM layers over the comparisons, Eq. 6 and 7; 1 or 2 in the paper")
    hidden_size: int = features(200, "size of each direction of every LSTM, and of the highway network")
    highway_layers: int = layers(2, "number of highway layers of the input; 2 in the paper, 1 released", least=0)
    refinement: bool = setting(True, "multi-level attention refinement, section 2.3; False: the ablation w/o MAR")
    refinement_place: Literal["before", "after"] = setting(
        "before", "place of the CAFE blocks; before: before each LSTM, the code; after: between LSTMs, section 2.3"
    )
    co_stack: bool = setting(True, "co-stack affinity, Eq. 4; False: that of the last layer alone, w/o CSRA")
    aligned_layers: Literal["all", "last"] = setting("all", "what Eq. 5 aligns without co_stack; last: released code")
    prediction: HeadInputs = setting("simple", "inputs of prediction; simple: z of Eq. 8; full: the released code")
    head: Literal["dense", "highway"] = setting("dense", "kind of the hidden prediction layers; highway: released run")
    head_layers: int = layers(2, "number of prediction layers, including the last; 1 to 3 in the paper")
    head_size: int = features(300, "size of the hidden prediction layers")
    forget_bias: float = lstm_forget_bias()


@dataclasses.dataclass(frozen=True)
class CAFEConfig(RefinementConfig):
    """CAFE (Tay et al., 2018), as CSRAN's paper compares with it."""

    name, title = "cafe", "CAFE"

    character_features: int = features(128, "size of the output of model.characters; twice 64 in the released run")
    hidden_size: int = features(300, "size of each direction of the LSTM, and of the highway network")
    bidirectional: bool = setting(False, "use a bidirectional LSTM; the released code does not")
    highway_layers: int = layers(2, "number of highway layers in the input encoder", least=0)
    prediction: HeadInputs = setting("full", "inputs of the prediction layers")
    head: Literal["dense", "highway"] = setting("highway", "kind of the hidden prediction layers")
    head_layers: int = layers(3, "number of prediction layers, including the last")
    head_size: int = features(300, "size of the hidden prediction layers")
    forget_bias: float = lstm_forget_bias("1 in the LSTM that the authors name for CAFE, 0 in cuDNN's")


@dataclasses.dataclass(frozen=True)
class BiMPMConfig(ModelConfig):
    """BiMPM (Wang et al., 2017)."""

    name, title = "bimpm", "BiMPM"

    character_features: int = features(50, "size of the output of model.characters; section 4.1")
    hidden_size: int = features(100, "size of each direction of both LSTMs; section 4.1")
    perspectives: int = features(20, "number of perspectives of a matching, l; section 4.1")
    full_matching: bool = setting(True, "match with the other sentence's last state; False: w/o Full-Matching")
    maxpooling_matching: bool = setting(True, "best match with the other's states; False: w/o Maxpooling-Matching")
    attentive_matching: bool = setting(True, "match with their mean by attention; False: w/o Attentive-Matching")
    max_attentive_matching: bool = setting(True, "with the most similar; False: w/o MaxAttentive-Matching")
    head_size: int = features(200, "size of the hidden prediction layer; half of its inputs in the authors' code")
    forget_bias: float = lstm_forget_bias("1 in the authors' first code, 0 in their later one, by cuDNN")


@dataclasses.dataclass(frozen=True)
class DecAttConfig(ModelConfig):
    """DecAtt (Parikh et al., 2016)."""

    name, title = "decatt", "DecAtt"

    hidden_size: int = features(200, "size of the projected words and of every layer; section 5.1")
    intra_attention: bool = setting(False, "use self-attention, too; section 3.4; True: the paper's better model")
    prediction: HeadInputs = setting("simple", "inputs of H, section 3.3; simple: the paper; the others as in RE2")


@dataclasses.dataclass(frozen=True)
class SiameseConfig(ModelConfig):
    """A siamese BiLSTM (InferSent; Conneau et al., 2017)."""

    name, title = "siamese", "Siamese BiLSTM"

    encoder_layers: int = layers(1, "number of LSTM layers; 1 in the paper")
    hidden_size: int = features(300, "size of each direction of the LSTM; 2048 in the paper")
    prediction: HeadInputs = setting("symmetric", "inputs of the prediction layers; symmetric: the paper, figure 1")
    head_size: int = features(512, "size of the hidden prediction layer; 512 in the paper's code")
    forget_bias: float = lstm_forget_bias()


@dataclasses.dataclass(frozen=True)
class ESIMConfig(ModelConfig):
    """ESIM (Chen et al., 2017), the sequential model."""

    name, title = "esim", "ESIM"

    hidden_size: int = features(300, "size of each direction of the LSTMs, and of every layer; section 4")
    prediction: HeadInputs = setting("simple", "inputs of the prediction layers; simple: v of Eq. 20")
    forget_bias: float = lstm_forget_bias()


@dataclasses.dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """A small transformer encoder over both sentences."""

    name, title = "transformer", "Transformer"

    encoder_layers: int = layers(3, "number of transformer layers")
    heads: int = features(4, "number of attention heads; they share hidden_size")
    hidden_size: int = features(256, "model dimension; even, and a multiple of heads")
    feed_forward_size: int = features(1024, "size of the hidden layer of each feed-forward network")
    prediction: HeadInputs = setting("full", "inputs of the prediction layers, as in RE2")

    def __post_init__(self):
        # Half of the position encoding is sines, and the other half is cosines.
        _require_multiple(self.hidden_size, math.lcm(2, self.heads), f"{self.heads} attention heads")


@dataclasses.dataclass(frozen=True)
class DIINConfig(ModelConfig):
    """DIIN (Gong et al., 2018)."""

    name, title = "diin", "DIIN"

    tag_features: int = features(47, "size of a tag's embedding; the paper has a one-hot vector of 47")
    grid_length: int = features(48, "tokens of each sentence that are kept; the rest is cut")
    highway_layers: int = layers(2, "number of highway layers in the encoder")
    shared_encoder: bool = setting(False, "use the same self-attention and fuse gate for both sentences")
    first_scale: float = setting(0.3, "share of the interaction's channels that the first layer keeps", least=0, most=1)
    dense_blocks: int = layers(3, "number of dense blocks, each of which halves the grid")
    block_layers: int = layers(8, "number of convolutions in a dense block")
    growth_rate: int = features(20, "channels that each convolution of a dense block adds")
    transition_scale: float = setting(0.5, "share of channels kept after a dense block", least=0, most=1)


_OF_PAPERS = (RE2Config, ESANConfig, CSRANConfig)
_COMPARED = (CAFEConfig, BiMPMConfig, DIINConfig, DecAttConfig, ESIMConfig, SiameseConfig, TransformerConfig)
MODELS: dict[str, type[ModelConfig]] = {config.name: config for config in (*_OF_PAPERS, *_COMPARED)}
