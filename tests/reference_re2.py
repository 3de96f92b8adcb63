"""RE2 in NumPy float64, written from the paper's equations and the parameter names of the released state dicts.

It is deliberately naive: it takes one sentence pair at a time, without padding, and loops over the positions of a
convolution. It therefore cannot share a mistake about masks, shapes or batching with the model that it checks.
"""

import math

import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _weight(state, name):
    """Returns the weights [out, ...] of a layer from its direction and gain."""
    direction = state[f"{name}.weight_v"].astype(np.float64)
    norms = np.sqrt((direction.reshape(len(direction), -1) ** 2).sum(axis=1))
    return (direction.T / norms * state[f"{name}.weight_g"].astype(np.float64).reshape(-1)).T


def _dense(state, name, x, activated=True):
    y = x @ _weight(state, name).T + state[f"{name}.bias"].astype(np.float64)
    return gelu(y) if activated else y


def _convolution(state, name, x):
    weight, bias = _weight(state, name), state[f"{name}.bias"].astype(np.float64)
    reach = weight.shape[2] // 2
    rows = []
    for position in range(len(x)):
        row = bias.copy()
        for offset in range(-reach, reach + 1):
            if 0 <= position + offset < len(x):
                row += weight[:, :, offset + reach] @ x[position + offset]
        rows.append(row)
    return gelu(np.stack(rows))


def _block(state, settings, number, a, b):
    prefix = f"blocks.{number}"

    def encode(x):
        encoded = x
        for layer in range(settings["enc_layers"]):
            encoded = _convolution(state, f"{prefix}.encoder.encoders.{layer}.model.0.0", encoded)
        seen = np.concatenate([x, encoded], axis=-1)
        seen[:, settings.get("occluded", {}).get(number, slice(0))] = 0  # "occluded": block -> columns
        return seen

    def project(x):
        return _dense(state, f"{prefix}.alignment.projection.1.model.0", x) if settings["alignment"] == "linear" else x

    def fuse(x, aligned):
        if settings["fusion"] == "simple":
            return _dense(state, f"{prefix}.fusion.fusion.model.0", np.concatenate([x, aligned], axis=-1))
        compared = [
            _dense(state, f"{prefix}.fusion.fusion{which}.model.0", np.concatenate([x, other], axis=-1))
            for which, other in ((1, aligned), (2, x - aligned), (3, x * aligned))
        ]
        return _dense(state, f"{prefix}.fusion.fusion.model.0", np.concatenate(compared, axis=-1))

    a, b = encode(a), encode(b)
    scores = project(a) @ project(b).T * float(state[f"{prefix}.alignment.temperature"])
    aligned_a, aligned_b = softmax(scores, axis=1) @ b, softmax(scores, axis=0).T @ a
    return fuse(a, aligned_a), fuse(b, aligned_b)


def _connect(state, settings, embedded, previous_input, outputs):
    kind = settings["connection"]
    if kind == "none":
        return outputs[-1]
    if kind == "residual":
        if len(outputs) == 1:
            previous_input = _dense(state, "connection.linear.model.0", previous_input, activated=False)
        return (outputs[-1] + previous_input) / math.sqrt(2)
    if len(outputs) == 1:
        return np.concatenate([outputs[0], embedded], axis=-1)
    if kind == "eq1":  # the paper's equation; `aug` is the running sum of the released code
        earlier = outputs[-2]
    else:
        earlier = previous_input[:, : settings["hidden_size"]]
    return np.concatenate([(outputs[-1] + earlier) / math.sqrt(2), embedded], axis=-1)


def _pair(state, settings, ids_a, ids_b):
    table = state["embedding.embedding.weight"].astype(np.float64)
    embedded_a, embedded_b = table[ids_a], table[ids_b]
    a, b = embedded_a, embedded_b
    outputs_a, outputs_b = [], []
    for number in range(settings["blocks"]):
        if number:
            a = _connect(state, settings, embedded_a, a, outputs_a)
            b = _connect(state, settings, embedded_b, b, outputs_b)
        output_a, output_b = _block(state, settings, number, a, b)
        outputs_a.append(output_a)
        outputs_b.append(output_b)
    a, b = outputs_a[-1].max(axis=0), outputs_b[-1].max(axis=0)
    extra = {"full": [a - b, a * b], "symmetric": [abs(a - b), a * b], "simple": []}[settings["prediction"]]
    hidden = _dense(state, "prediction.dense.1.model.0", np.concatenate([a, b, *extra]))
    return _dense(state, "prediction.dense.3.model.0", hidden, activated=False)


def logits(state, settings, ids_a, ids_b):
    """Computes logits: <int>[batch, length_a], <int>[batch, length_b] (0 = padding, at the end) ->
    <float64>[batch, classes].
    """
    pairs = zip(ids_a, ids_b, strict=True)
    return np.stack([_pair(state, settings, one[one > 0], other[other > 0]) for one, other in pairs])


def random_state(settings, generator):
    """Returns a random state dict <float32> in the released layout. No gain, bias or temperature has its initial
    value.
    """
    hidden, dimensions = settings["hidden_size"], settings["embedding_dim"]
    state = {"embedding.embedding.weight": generator.normal(size=(settings["num_vocab"], dimensions))}

    def add(name, *shape):
        state[f"{name}.weight_v"] = generator.normal(size=shape)
        state[f"{name}.weight_g"] = generator.uniform(0.7, 1.5, size=(shape[0], *[1] * (len(shape) - 1)))
        state[f"{name}.bias"] = 0.2 * generator.normal(size=shape[0])

    for number in range(settings["blocks"]):
        prefix = f"blocks.{number}"
        augmented = settings["connection"] in ("aug", "eq1")
        inputs = dimensions if number == 0 else hidden + (dimensions if augmented else 0)
        for layer in range(settings["enc_layers"]):
            add(f"{prefix}.encoder.encoders.{layer}.model.0.0", hidden, inputs if layer == 0 else hidden, 3)
        state[f"{prefix}.alignment.temperature"] = np.asarray(generator.uniform(0.2, 0.6))
        if settings["alignment"] == "linear":
            add(f"{prefix}.alignment.projection.1.model.0", hidden, inputs + hidden)
        for name in ("fusion1", "fusion2", "fusion3") if settings["fusion"] == "full" else ():
            add(f"{prefix}.fusion.{name}.model.0", hidden, 2 * (inputs + hidden))
        last = 3 * hidden if settings["fusion"] == "full" else 2 * (inputs + hidden)
        add(f"{prefix}.fusion.fusion.model.0", hidden, last)
    if settings["connection"] == "residual":
        add("connection.linear.model.0", hidden, dimensions)
    seen = {"full": 4, "symmetric": 4, "simple": 2}[settings["prediction"]]
    add("prediction.dense.1.model.0", hidden, seen * hidden)
    add("prediction.dense.3.model.0", settings["num_classes"], hidden)
    return {name: np.asarray(value, np.float32) for name, value in state.items()}
