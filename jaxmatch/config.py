"""All settings: one dataclass for each model, and one each for data, training, optimizer and execution.

They are the only place of a setting's default, bounds, choices and meaning. A config file's `ConfigDict` is made from
them (`default_config`), values are held to them (`check`), and a model's modules are given the dataclass itself.
"""

import dataclasses
import typing
from typing import Any, Literal

MOST = 2**31 - 1  # what a device holds a number in: samples, ids, sizes
MOST_LAYERS, _MOST_FEATURES, WIDEST = 1000, 1 << 21, 999  # beyond any model, and within what can be traced

Precision = Literal["float32", "highest", "tensorfloat32", "bfloat16"]
Seen = Literal["full", "symmetric", "simple"]


def setting(
    default: Any, help: str, *, least: float | None = None, most: float | None = None, below: float | None = None
) -> Any:
    """A field of the dataclasses below: `least <= value <= most`, and `value < below`."""
    return dataclasses.field(default=default, metadata={"help": help, "least": least, "most": most, "below": below})


def layers(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=MOST_LAYERS)


def features(default: int, help: str, least: int = 1) -> Any:
    return setting(default, help, least=least, most=_MOST_FEATURES)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """What all models can be set to: what they are given of each word, and the precision of products."""

    name: typing.ClassVar[str]
    title: typing.ClassVar[str]  # in tables
    weight_normalization: typing.ClassVar[str] = "none"

    precision: Precision = setting(
        "float32", "precision of matrix products; bfloat16: also of activations, while parameters stay float32"
    )
    characters: Literal["none", "cnn", "bilstm"] = setting(
        "none", "network over the first 16 characters of a word; needs data.minimum_count = 1"
    )
    character_features: int = features(100, "size of the output of model.characters; 100 in ESAN, section 2.1")
    known_characters: int = features(128, "number of known characters, including padding", least=2)
    tags: bool = setting(False, "give each word its part of speech, by NLTK's tagger")
    tag_features: int = features(10, "size of a tag's embedding; 10 in CSRAN's released run")
    known_tags: int = features(50, "number of known tags, including padding", least=2)
    exact_match: bool = setting(False, "mark each word that also occurs in the other sentence, in any case")

    @property
    def least_layers(self) -> int:
        """How many layers it has at least, each of which has parameters of its own."""
        counts = (getattr(self, field.name) for field in dataclasses.fields(self) if field.name.endswith("_layers"))
        return sum(count for count in counts if isinstance(count, int))


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
    temperature: Literal["learned", "none"] = setting(
        "learned", "scale of the alignment's scores: one number a block, as released, or none, as in Eq. 2"
    )
    fusion: Literal["full", "simple"] = setting(
        "full", "fusion of a block; full: Eq. 4; simple: an ablation of Table 6"
    )
    connection: Literal[
        "augmented", "augmented_running_sum", "vanilla", "vanilla_running_sum", "vanilla_projected", "none"
    ] = setting("augmented", "connection of the blocks; augmented: Eq. 1; layers/connection.py describes the others")
    prediction: Seen = setting("full", "inputs of H; full: Eq. 5; symmetric: Eq. 6; simple: Eq. 7")
    encoder_input: bool = setting(
        True, "give the encoder's input to alignment and fusion; False: the ablation w/o enc-in"
    )
    parallel_blocks: bool = setting(
        False, "the ablation in which every block gets the embeddings and the outputs are summed"
    )
    # Released: the embeddings, what an encoder makes, and the inputs of all layers but a block's first convolution and
    # the first networks of a fusion. The paper (section 3.2): the input of "every fully-connected or convolutional
    # layer".
    dropout_placement: Literal["released", "every_layer"] = setting(
        "released", "places of dropout; every_layer: before every dense or convolution layer, as in the paper"
    )
    weight_normalization: Literal["he", "unit", "none"] = setting(
        "he", "initial gain; he: the norm of its direction; unit: 1; none: no weight normalization"
    )

    @property
    def least_layers(self) -> int:
        return self.blocks * self.encoder_layers * len(self.kernel_sizes)

    @property
    def kernel_sizes(self) -> tuple[int, ...]:
        """The widths of a layer's convolutions, side by side."""
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
    prediction: Seen = setting("full", "inputs of Eq. 11; full: the paper; the others as in RE2")
    forget_bias: float = setting(0.0, "initial bias of an LSTM's forget gate; the papers do not say, and cuDNN has 0")


@dataclasses.dataclass(frozen=True)
class RefinementConfig(ModelConfig):
    """The CAFE block (CSRAN, section 2.3), which CSRAN and CAFE have."""

    factors: int = features(10, "number of factors of the factorization machines, k of Eq. 3")
    intra_projection: bool = setting(
        True, "project tokens before their attention to their own sentence; False: the authors' code"
    )
    meta_factors: int = features(
        0,
        "number of factors of a factorization machine over the six features of a block; 4 in the authors' code",
        least=0,
    )
    flow_intra: bool = setting(
        False, "hand on the vector that a token finds in its own sentence, too; True: the authors' code"
    )


@dataclasses.dataclass(frozen=True)
class CSRANConfig(RefinementConfig):
    """CSRAN (Tay et al., 2018)."""

    name: typing.ClassVar[str] = "csran"
    title: typing.ClassVar[str] = "CSRAN"

    character_features: int = features(
        128, "size of the output of model.characters; 64 in each direction in the released run"
    )
    stacked_layers: int = layers(3, "number of LSTM layers in the stacked encoder, k; 1 to 5 in the paper")
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
    prediction: Seen = setting("simple", "inputs of the prediction layers; simple: z of Eq. 8; full: the released code")
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
    prediction: Seen = setting("full", "inputs of the prediction layers")
    head: Literal["dense", "highway"] = setting("highway", "kind of the hidden prediction layers")
    head_layers: int = layers(3, "number of prediction layers, including the last")
    head_size: int = features(300, "size of the hidden prediction layers")
    forget_bias: float = setting(0.0, "initial bias of an LSTM's forget gate; the papers do not say, and cuDNN has 0")


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
        0.0, "initial bias of an LSTM's forget gate; cuDNN, which the authors' code has, has 0"
    )


@dataclasses.dataclass(frozen=True)
class DecAttConfig(ModelConfig):
    """DecAtt (Parikh et al., 2016)."""

    name: typing.ClassVar[str] = "decatt"
    title: typing.ClassVar[str] = "DecAtt"

    hidden_size: int = features(200, "size of the projected words and of every layer; section 5.1")
    intra_attention: bool = setting(
        False, "give each token what it finds in its own sentence, too; section 3.4; True: the paper's better model"
    )
    prediction: Seen = setting("simple", "inputs of H, section 3.3; simple: the paper; the others as in RE2")


@dataclasses.dataclass(frozen=True)
class SiameseConfig(ModelConfig):
    """A siamese BiLSTM (InferSent; Conneau et al., 2017)."""

    name: typing.ClassVar[str] = "siamese"
    title: typing.ClassVar[str] = "Siamese BiLSTM"

    encoder_layers: int = layers(1, "number of LSTM layers; 1 in the paper")
    hidden_size: int = features(300, "size of each direction of the LSTM; 2048 in the paper")
    prediction: Seen = setting("symmetric", "inputs of the prediction layers; symmetric: the paper, figure 1")
    head_size: int = features(512, "size of the hidden prediction layer; 512 in the paper's code")
    forget_bias: float = setting(0.0, "initial bias of an LSTM's forget gate; the papers do not say, and cuDNN has 0")


@dataclasses.dataclass(frozen=True)
class ESIMConfig(ModelConfig):
    """ESIM (Chen et al., 2017), the sequential model."""

    name: typing.ClassVar[str] = "esim"
    title: typing.ClassVar[str] = "ESIM"

    hidden_size: int = features(300, "size of each direction of the LSTMs, and of every layer; section 4")
    prediction: Seen = setting("simple", "inputs of the prediction layers; simple: v of Eq. 20")
    forget_bias: float = setting(0.0, "initial bias of an LSTM's forget gate; the papers do not say, and cuDNN has 0")


@dataclasses.dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """A small transformer encoder over both sentences."""

    name: typing.ClassVar[str] = "transformer"
    title: typing.ClassVar[str] = "Transformer"

    encoder_layers: int = layers(3, "number of transformer layers")
    heads: int = features(4, "number of attention heads; they share hidden_size")
    hidden_size: int = features(256, "size of what the layers hand on; even, and a multiple of heads")
    feed_forward_size: int = features(1024, "size of the hidden layer of each feed-forward network")
    prediction: Seen = setting("full", "inputs of the prediction layers, as in RE2")


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
        0.3, "channels of the first convolution over those of the interaction", least=0, most=1
    )
    dense_blocks: int = layers(3, "number of dense blocks, each of which halves the grid")
    block_layers: int = layers(8, "number of convolutions in a dense block")
    growth_rate: int = features(20, "channels that each of them adds")
    transition_scale: float = setting(0.5, "channels after a dense block over those at its end", least=0, most=1)

    @property
    def least_layers(self) -> int:
        return self.highway_layers + self.dense_blocks * self.block_layers


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The data set, and how text becomes ids."""

    name: str = setting("embedded_inference", "name of the data set; own: a folder of your own")
    directory: str = setting("", "folder with the data files; empty: the environment variable JAXMATCH_DATA")
    task: Literal["", "classification", "regression", "ranking"] = setting(
        "", "task of your own data; empty: from its columns"
    )
    vectors: str = setting("", "file in GloVe's format (.txt, .txt.gz, .zip), as a path or below the data directory")
    tokenizer: Literal["word", "whitespace", "tweet", "tweet_split"] = setting(
        "word", "tokenizer; data/tokens.py describes them"
    )
    lowercase: bool = setting(True, "convert text to lower case")
    remove_punctuation: bool = setting(True, "drop tokens that are punctuation alone")
    minimum_count: int = setting(5, "how often a word without a vector must occur to be kept", least=0)
    maximum_length: int = setting(0, "most tokens of a text; 0: no limit, as in the paper", least=0)
    truncation_side: Literal["right", "left"] = setting("right", "side on which longer texts are cut")


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How long a run trains, and when it is scored. Times are counted in pairs, whatever the batch size."""

    batch_size: int = setting(128, "number of pairs in a training step", least=1)
    epochs: int = setting(30, "most passes over the training set", least=1)
    evaluate_every_samples: int = setting(0, "score dev each time after so many pairs; 0: after every epoch", least=0)
    evaluate_each_epoch: bool = setting(False, "with evaluate_every_samples: also score after every epoch")
    late_from_samples: int = setting(0, "number of pairs after which evaluate_every_samples_late applies", least=0)
    evaluate_every_samples_late: int = setting(
        0, "takes the place of evaluate_every_samples after late_from_samples; 0: does not", least=0
    )
    patience_samples: int = setting(
        400_000, "stop a run after so many pairs without a better dev score; 0: never", least=0
    )
    minimum_samples: int = setting(0, "number of pairs before which patience stops no run", least=0)
    selection: Literal[
        "accuracy",
        "f1",
        "macro_f1",
        "auc",
        "map",
        "mrr",
        "recall_at_1",
        "recall_at_2",
        "recall_at_5",
        "pearson",
        "spearman",
        "mse",
        "loss",
    ] = setting("accuracy", "dev score that chooses the checkpoint")
    best_on_test: bool = setting(False, "also record the best score on TEST, in a column of its own")
    maximum_buckets: int = setting(10, "most lengths that pairs are padded to; a program is compiled for each", least=1)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam and its schedule. All of these settings are traced: a grid over them compiles one program."""

    learning_rate: float = setting(1e-3, "learning rate of Adam, after warmup", least=0)
    learning_rate_floor: float = setting(6e-5, "learning rate at which warmup starts and decay ends", least=0)
    warmup_samples: int = setting(0, "number of pairs of linear warmup", least=0)
    decay_rate: float = setting(0.95, "factor by which the learning rate decays", least=0)
    decay_samples: int = setting(128_000, "number of pairs after which it decays once", least=0)
    dropout_rate: float = setting(0.2, "rate of every dropout", least=0, below=1)
    weight_decay: float = setting(0.0, "L2 penalty, added to the clipped gradient before Adam", least=0)
    gradient_clip: float = setting(5.0, "largest norm of all gradients together; 0: no limit", least=0)


@dataclasses.dataclass(frozen=True)
class ExecutionConfig:
    """How runs are executed. These settings do not change what a run computes, nor its name."""

    evaluation_batch_size: int = setting(
        0, "number of pairs predicted at once for scores; 0: 512, on a CPU 32", least=0
    )
    checkpoint_seconds: float = setting(60.0, "seconds between two checkpoints", least=0)
    maximum_replicas: int = setting(0, "most runs trained at once; 0: as many as the memory holds", least=0)
    steps_at_once: int = setting(0, "most training steps in one dispatch; 0: 64, on a CPU 1", least=0)
    restack: bool = setting(True, "shrink the program when half of its runs have stopped")
    cache_directory: str = setting(
        "", "folder of encoded data and compiled programs; empty: below the user's cache folder"
    )


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
