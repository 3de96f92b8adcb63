"""RE2 in NumPy float64 as its TensorFlow code computes it, with the variable names of that code.

It is as naive as reference_re2.py: one sentence at a time, no padding, no masks.
"""

import math

import numpy as np
from reference_re2 import gelu, softmax


def _weight(variables, scope):
    weight = variables[f"{scope}/weight"].astype(np.float64)
    norms = np.sqrt((weight**2).sum(axis=tuple(range(weight.ndim - 1)), keepdims=True))
    return weight / norms * variables[f"{scope}/weight_g"].astype(np.float64)


def _dense(variables, scope, x):
    return x @ _weight(variables, scope) + variables[f"{scope}/bias"].astype(np.float64)


def _convolution(variables, scope, x):
    """Computes the ReLU of a sum of shifted products."""
    weight = _weight(variables, scope)
    reach = len(weight) // 2
    padded = np.pad(x, ((reach, reach), (0, 0)))
    summed = sum(padded[offset : offset + len(x)] @ weight[offset] for offset in range(len(weight)))
    return np.maximum(summed + variables[f"{scope}/bias"].astype(np.float64), 0)


def _connected(variables, settings, number, x, previous):
    """Returns the input of a block. `x` is the output of the block before it, and `previous` is the input of that
    block.
    """
    kind, hidden = settings["connection"], settings["hidden_size"]
    if number == 0 or kind == "none":
        return x
    if kind == "residual":
        if x.shape[-1] != previous.shape[-1]:
            x = _dense(variables, f"block-{number}/residual_projection", x)
        return (x + previous) * math.sqrt(0.5)
    if number == 1:
        return np.concatenate([previous, x], axis=-1)
    return np.concatenate([previous[:, :-hidden], (previous[:, -hidden:] + x) * math.sqrt(0.5)], axis=-1)


def _fused(variables, settings, scope, x, aligned):
    def beside(name, other):
        return gelu(_dense(variables, f"{scope}/{name}", np.concatenate([x, other], axis=-1)))

    if settings["fusion"] == "simple":
        return beside("dense", aligned)
    compared = [beside("orig", aligned), beside("sub", x - aligned), beside("mul", x * aligned)]
    return gelu(_dense(variables, f"{scope}/proj", np.concatenate(compared, axis=-1)))


def _pair(variables, settings, ids_a, ids_b):
    table = variables["embedding/embedding_matrix"].astype(np.float64)
    sides = [table[ids_a], table[ids_b]]
    previous = list(sides)
    for number in range(settings["blocks"]):
        scope = f"block-{number}"
        sides = [_connected(variables, settings, number, x, before) for x, before in zip(sides, previous, strict=True)]
        previous = list(sides)
        for which, encoded in enumerate(list(sides)):
            for layer in range(settings["enc_layers"]):
                encoded = _convolution(variables, f"{scope}/encoder/cnn_{layer}", encoded)
            sides[which] = np.concatenate([sides[which], encoded], axis=-1)
        compared = sides
        if settings["alignment"] == "linear":
            compared = [gelu(_dense(variables, f"{scope}/alignment/proj/dense", x)) for x in sides]
        scores = compared[0] @ compared[1].T * float(variables[f"{scope}/alignment/temperature"])
        aligned = [softmax(scores, axis=1) @ sides[1], softmax(scores, axis=0).T @ sides[0]]
        sides = [
            _fused(variables, settings, f"{scope}/align", x, other) for x, other in zip(sides, aligned, strict=True)
        ]
    a, b = (x.max(axis=0) for x in sides)
    extra = {"full": [a * b, a - b], "symmetric": [a * b, abs(a - b)], "simple": []}[settings["prediction"]]
    hidden = gelu(_dense(variables, "prediction/dense_1", np.concatenate([a, b, *extra])))
    return _dense(variables, "prediction/dense_2", hidden)


def logits(variables, settings, ids_a, ids_b):
    """Computes logits: <int>[batch, length_a], <int>[batch, length_b] (0 = padding, at the end) ->
    <float64>[batch, classes].
    """
    pairs = zip(ids_a, ids_b, strict=True)
    return np.stack([_pair(variables, settings, one[one > 0], other[other > 0]) for one, other in pairs])


def random_variables(settings, generator):
    """Returns random variables <float32>. No gain, bias or temperature has its initial value."""
    hidden, dimensions = settings["hidden_size"], settings["embedding_dim"]
    variables = {"embedding/embedding_matrix": generator.normal(size=(settings["num_vocab"], dimensions))}

    def add(scope, *shape):
        variables[f"{scope}/weight"] = generator.normal(size=shape)
        variables[f"{scope}/weight_g"] = generator.uniform(0.7, 1.5, size=(*[1] * (len(shape) - 1), shape[-1]))
        variables[f"{scope}/bias"] = 0.2 * generator.normal(size=shape[-1])

    for number in range(settings["blocks"]):
        scope, inputs = f"block-{number}", dimensions
        if number and settings["connection"] != "residual":
            inputs = hidden + (dimensions if settings["connection"] == "aug" else 0)
        for layer in range(settings["enc_layers"]):
            add(f"{scope}/encoder/cnn_{layer}", settings["kernel_size"], hidden if layer else inputs, hidden)
        variables[f"{scope}/alignment/temperature"] = np.asarray(generator.uniform(0.2, 0.6))
        if settings["alignment"] == "linear":
            add(f"{scope}/alignment/proj/dense", inputs + hidden, hidden)
        for name in ("orig", "sub", "mul") if settings["fusion"] == "full" else ("dense",):
            add(f"{scope}/align/{name}", 2 * (inputs + hidden), hidden)
        if settings["fusion"] == "full":
            add(f"{scope}/align/proj", 3 * hidden, hidden)
        if number and settings["connection"] == "residual" and hidden != dimensions:
            add(f"{scope}/residual_projection", hidden, dimensions)
    add("prediction/dense_1", {"full": 4, "symmetric": 4, "simple": 2}[settings["prediction"]] * hidden, hidden)
    add("prediction/dense_2", hidden, settings["num_classes"])
    return {name: np.asarray(value, np.float32) for name, value in variables.items()}
