"""Faults of layers and of the folder of a trained model."""

_LAYERS = "jaxmatch/layers/"
_FOLDER, _ARRAYS, _MATCHER = "jaxmatch/model_folder.py", "jaxmatch/stored_arrays.py", "jaxmatch/matcher.py"

MUTANTS = [
    (_LAYERS + "attention.py", "jnp.where(allowed, scores, lowest(scores.dtype)), axis=-1", "scores, axis=-1",
     ["tests/test_layers_alignment.py", "tests/test_layers_esan.py"]),
    (_LAYERS + "attention.py", "lowest(scores.dtype)), axis=-1)", "lowest(scores.dtype)), axis=-2)",
     ["tests/test_layers_alignment.py", "tests/test_layers_esan.py"]),
    (_LAYERS + "alignment.py", "scores * self.temperature", "scores", ["tests/test_layers_alignment.py"]),
    (_LAYERS + "fusion.py", "(network(name).weights(*sizes(own), *sizes(own)) for name in perspectives)",
     "(network(name).weights(*sizes(own), *sizes(own)) for name in reversed(perspectives))", ["tests/test_layers_fusion.py"]),
    (_LAYERS + "fusion.py", "tuple(a - other for a, other in zip(own", "tuple(other - a for a, other in zip(own", ["tests/test_layers_fusion.py"]),
    (_LAYERS + "pooling.py", "largest = jnp.max(", "largest = jnp.mean(", ["tests/test_layers_fusion.py"]),
    (_LAYERS + "pooling.py", "jnp.maximum(jnp.sum(mask, axis=1), 1)[:, None]", "mask.shape[1]", ["tests/test_layers_esan.py"]),
    (_LAYERS + "connection.py", "(outputs[-1] + outputs[-2]) * _HALF_VARIANCE", "(outputs[-1] + outputs[-2])",
     ["tests/test_layers_fusion.py"]),
    (_LAYERS + "prediction.py", "lambda a, b: [a, b, a - b, a * b]", "lambda a, b: [a, b, b - a, a * b]", ["tests/test_layers_fusion.py"]),
    (_LAYERS + "convolution.py", "jnp.where(same_sentence[..., None], _shifted(contributions[offset], distance), 0.0)",
     "_shifted(contributions[offset], distance)", ["tests/test_layers_convolution.py"]),
    (_LAYERS + "comparison.py", "(*own, *aligned, *differences, *products)", "(*own, *aligned, *products, *differences)",
     ["tests/test_layers_esan.py"]),
    (_LAYERS + "affinity.py", "functools.reduce(jnp.maximum, (", "functools.reduce(jnp.add, (", ["tests/test_layers_csran.py"]),
    (_FOLDER, "_check_finite(name, array, parameters)", "pass", ["tests/test_model_folder.py::test_numbers_that_are_not_finite_are_refused"]),
    (_FOLDER, "_check_finite(\"the table\", vectors, folder / _VECTORS)", "pass", ["tests/test_model_folder.py::test_numbers_that_are_not_finite_are_refused"]),
    (_FOLDER, "if wanted.get(name) != stored.get(name):", "if name in stored and wanted.get(name) != stored[name]:", ["tests/test_matcher.py"]),
    (_FOLDER, "if hashlib.sha256(content).hexdigest() != expected:", "if False:", ["tests/test_matcher.py"]),
    (_FOLDER, "if description[\"format\"] > 1 and", "if False and", ["tests/test_model_folder.py::test_a_description_is_held_to_its_own_checksum"]),
    (_ARRAYS, "if start + 4 * math.prod(shape) != size:", "if False:", ["tests/test_model_folder.py::test_a_declared_shape_is_held_to_the_size_of_the_file"]),
    (_ARRAYS, "_check_type(stored.get_dtype(), \"F32\", name)", "pass", ["tests/test_model_folder.py::test_weights_of_another_type_are_refused"]),
    (_ARRAYS, "\"F\" if found[2] == \"True\" else \"C\"", "\"C\"", ["tests/test_model_folder.py::test_arrays_in_fortran_order_answer_the_same"]),
    (_MATCHER, "powers / powers.sum(axis=1, keepdims=True)", "powers / powers.sum()", ["tests/test_matcher.py::test_probabilities_are_the_softmax_of_the_logits"]),
    (_MATCHER, "result[rows] = self.model.logits", "result[np.sort(rows)] = self.model.logits", ["tests/test_matcher.py::test_answers_keep_the_order_and_do_not_depend_on_companions"]),
    (_MATCHER, "if wrong.size:", "if False:", ["tests/test_model_folder.py::test_an_answer_that_is_not_finite_is_not_given"]),
    ("jaxmatch/models/bound.py", "[:batch]", "[-batch:]", ["tests/test_models.py::test_a_bound_model_answers_as_the_model_does[esan]"]),
]
