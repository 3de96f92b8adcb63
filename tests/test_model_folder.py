"""A model folder with damaged files, or with wrong files under correct checksums, is refused quickly, in little memory,
and in one line that names the file.
"""

import contextlib
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
import safetensors.numpy
import saved_model
from refusals import soon_refused

import jaxmatch
from jaxmatch.errors import InputError
from jaxmatch.inference import vocabulary_file

PAIRS = [("a b c", "no d"), ("e d c b a", "new york")]
PARAMETERS = "parameters.safetensors"
BIAS = "prediction/output/bias"


@pytest.fixture
def model(run_copy):
    """A model folder that a test may damage."""
    return run_copy / "model"


@contextlib.contextmanager
def little_memory():
    """Checks that the code in its context takes less than 50 MB."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def change_arrays(model, **arrays):
    """Replaces arrays of a model and updates its checksums."""
    path = model / PARAMETERS
    path.write_bytes(safetensors.numpy.save({**safetensors.numpy.load_file(path), **arrays}))
    saved_model.edit(model)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_model_in_the_first_format_gives_the_same_logits(run, model, write):
    saved_model.to_first_format(model, write)
    np.testing.assert_array_equal(jaxmatch.load(model).logits(PAIRS), jaxmatch.load(run).logits(PAIRS))


def test_arrays_in_fortran_order_give_the_same_logits(run, model):
    def write(path, **arrays):
        np.savez(path, **{name: array.copy(order="F") for name, array in arrays.items()})

    saved_model.to_first_format(model, write)
    np.save(model / "vectors.npy", np.asfortranarray(saved_model.vectors()))
    saved_model.edit(model)
    np.testing.assert_array_equal(jaxmatch.load(model).logits(PAIRS), jaxmatch.load(run).logits(PAIRS))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_parameters_and_vectors_are_refused(model, value):
    before = (model / PARAMETERS).read_bytes()
    change_arrays(model, **{BIAS: np.array([0, value, 1], np.float32)})
    soon_refused(model, f"{PARAMETERS}: {BIAS} holds NaN or infinity")
    (model / PARAMETERS).write_bytes(before)
    vectors = saved_model.vectors()
    vectors[5, 2] = value
    np.save(model / "vectors.npy", vectors)
    saved_model.edit(model)
    soon_refused(model, "vectors.npy: the table holds NaN or infinity")


def test_non_finite_model_output_is_an_error(model):
    change_arrays(
        model, **{BIAS: np.array([0, 0, 3e38], np.float32), "prediction/output/gain": np.full(3, 3e38, np.float32)}
    )
    with pytest.raises(InputError, match="the model's output for pair 0 is not finite"):
        jaxmatch.load(model).predict(PAIRS)


@pytest.mark.parametrize("kind", ["int32", "float64", "float16", "complex64", "uint8"])
def test_weights_of_another_type_are_refused(model, kind):
    if kind != "complex64":
        change_arrays(model, **{BIAS: np.zeros(3, kind)})
        soon_refused(model, f"{PARAMETERS}: is damaged: {BIAS} holds numbers of type ")
        change_arrays(model, **{BIAS: np.zeros(3, np.float32)})
    saved_model.to_first_format(model, lambda path, **arrays: np.savez(path, **{**arrays, BIAS: np.zeros(3, kind)}))
    soon_refused(model, rf"parameters.npz: is damaged: .*{BIAS} holds numbers of type .{np.dtype(kind).str[1:]}")
    np.save(model / "vectors.npy", saved_model.vectors().astype(kind))
    saved_model.edit(model)
    soon_refused(model, "vectors.npy: is damaged: it holds numbers of type ")


@pytest.mark.parametrize(
    "value",
    [np.array(["a", "b", "c"]), np.zeros(3, [("x", "f4")]), np.array([b"a"]), np.zeros(3, bool)],
    ids=lambda value: str(value.dtype),
)
def test_arrays_of_non_numeric_dtype_are_refused(model, value):
    np.save(model / "vectors.npy", value)
    saved_model.edit(model)
    soon_refused(model, "vectors.npy: is damaged")
    np.save(model / "vectors.npy", saved_model.vectors())
    saved_model.to_first_format(model, lambda path, **arrays: np.savez(path, **{**arrays, BIAS: value}))
    soon_refused(model, "parameters.npz: is damaged: ")


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "shape",
    ["(12, 24000000000)", "(275000000000,)", "(12, 6, )", "(-12, 6)", "(" * 9000, "()", "(12, 5)", "(12, 7)"],
    ids=lambda shape: shape[:20],
)
def test_shape_that_does_not_match_the_file_size_is_refused(model, shape):
    (model / "vectors.npy").write_bytes(header(shape) + saved_model.vectors().tobytes())
    saved_model.edit(model)
    with little_memory():
        soon_refused(model, "vectors.npy: is damaged")


def test_archive_with_wrong_shapes_is_refused_without_unpacking(model):
    """The archive is small but unpacks to 200 MB."""
    saved_model.to_first_format(model)
    with zipfile.ZipFile(model / "parameters.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open(f"{BIAS}.npy", "w", force_zip64=True) as file:
            file.write(header("(50000000,)"))
            for _ in range(200):
                file.write(bytes(1_000_000))
    saved_model.edit(model)
    with little_memory():
        soon_refused(model, "parameters.npz: ")


def test_a_broken_archive_is_refused(model):
    saved_model.to_first_format(model, np.savez_compressed)
    path = model / "parameters.npz"
    content = path.read_bytes()
    endless = content[:-10] + b"\xff\xff\xff\x7f" + content[-6:]
    for damaged in (content[:-1], content + b"x", content[:100], b"", b"PK\5\6" + bytes(18), endless):
        path.write_bytes(damaged)
        saved_model.edit(model)
        soon_refused(model, "parameters.npz: ")


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 8, bytes(5) + b"\1\0\0{}", b"\2" + bytes(7) + b"[]", b"\2" + bytes(7) + b"{}"]
)
def test_a_broken_safetensors_file_is_refused(model, content):
    (model / PARAMETERS).write_bytes(content)
    saved_model.edit(model)
    soon_refused(model, f"{PARAMETERS}: ")


NAMES = [PARAMETERS, "vocabulary.txt", "vectors.npy", "model.json"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "loop", "nowhere"])
def test_files_that_are_not_regular_are_refused(model, name, kind):
    path = model / name
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "loop": path, "nowhere": "absent"}[kind])
    special = {"fifo": "a pipe", "folder": "a folder", "device": "a device"}
    problem = f"this is {special[kind]}, not a file" if kind in special else "cannot be read"
    soon_refused(model, "no model.json" if name == "model.json" else f"{name}: {problem}")


def test_a_link_to_a_regular_file_is_followed(model, tmp_path):
    for name in NAMES:
        os.rename(model / name, tmp_path / name)
        (model / name).symlink_to(tmp_path / name)
    assert jaxmatch.load(model).labels == saved_model.LABELS


@pytest.mark.parametrize("name", NAMES)
def test_huge_file_is_refused_in_little_memory(model, name):
    os.truncate(model / name, 10**12)  # a sparse file, which takes no disk space
    with little_memory():
        soon_refused(model, f"{name}: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("<unknown>", "<padding>", *saved_model.WORDS[2:]), "begins with <padding> and <unknown>"),
        (("x", *saved_model.WORDS[1:]), "begins with <padding> and <unknown>"),
        ((*saved_model.WORDS[:-1], "a"), "holds a word twice"),
        (saved_model.WORDS[:-1], "do not fit 11 words"),
    ],
)
def test_invalid_vocabulary_is_refused(model, words, message):
    (model / "vocabulary.txt").write_bytes(vocabulary_file.encode_words(words))
    saved_model.edit(model)
    soon_refused(model, message)


def test_a_vocabulary_that_ends_within_a_line_is_refused(model):
    path = model / "vocabulary.txt"
    path.write_bytes(path.read_bytes()[:-1])
    saved_model.edit(model)
    soon_refused(model, "vocabulary.txt:12: ends within a line")


def test_path_that_is_too_long_is_an_error(tmp_path):
    with pytest.raises(InputError, match="cannot be read \\(File name too long\\)"):
        jaxmatch.load(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["parameters.safetensors", "vocabulary.txt", "vectors.npy"])
def test_changed_byte_or_missing_file_is_an_error(run_copy, name):
    path = run_copy / "model" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: is damaged"):
        jaxmatch.load(run_copy)
    path.unlink()
    with pytest.raises(InputError, match=f"{name}: cannot be read"):
        jaxmatch.load(run_copy)


class _Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("name", ["parameters.npz", "vectors.npy"])
def test_loading_does_not_execute_pickles(run_copy, tmp_path, name):
    """Even with right checksums, an array that hides a pickle is refused before it is unpickled."""
    model, trap = run_copy / "model", tmp_path / "executed"
    saved_model.to_first_format(model)
    path = model / name
    array = np.empty(1, object)
    array[0] = _Payload(trap)
    with open(path, "wb") as file:
        np.savez(file, array) if name.endswith("npz") else np.save(file, array, allow_pickle=True)
    saved_model.edit(model)
    with pytest.raises(InputError, match=name):
        jaxmatch.load(run_copy)
    assert not trap.exists()
    pickle.loads(pickle.dumps(_Payload(trap))).close()  # the trap would have worked
    assert trap.exists()
