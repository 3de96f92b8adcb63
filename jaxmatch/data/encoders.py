"""Static word vectors from pretrained models: made with a sentence encoder, or read from a static model of model2vec.

A sentence encoder reads each word alone. The vector of the word is the mean of the encoder's outputs over all pieces of
the word, special ones included, before any normalization. The vectors are centered over the words, reduced by a
principal component analysis, and scaled to the mean norm of GloVe's.
"""

import contextlib
import functools
import hashlib
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxmatch.data.pairs import read_lines
from jaxmatch.data.text import Preprocessing
from jaxmatch.data.vectors import DIMENSIONS
from jaxmatch.errors import InputError, NotInstalled, first_line, require_plain_file
from jaxmatch.files import open_atomically

# The mean norm of the vectors of GloVe 840B, over 86,148 words of the public data sets.
GLOVE_NORM = 6.01
WORDS_AT_ONCE = 2048
MODEL2VEC = "model2vec:"
_HUB = "name a folder, or a model of huggingface.co if it can be reached"


def words_of_file(path: str | Path) -> list[str]:
    """Returns the distinct words of a text file, in order of first appearance, tokenized as data sets are by default.

    Raises:
      InputError: the file does not exist, or is not UTF-8.
    """
    require_plain_file(path)
    tokens = Preprocessing(remove_punctuation=False).tokens
    return list(dict.fromkeys(word for _, line in read_lines(Path(path)) for word in tokens(line)))


def encoder_vectors(encoder: str, words: Sequence[str], progress: Callable[[int], None] = lambda _: None) -> np.ndarray:
    """Returns the vectors of words, `<float32>[words, 300]`, or with fewer dimensions if the encoder has fewer.

    Arguments:
      encoder: a folder, or the name of a model of sentence-transformers on a hub.
      words: distinct words.
      progress: called with the number of words that have been encoded.

    Raises:
      InputError: sentence-transformers is not installed, or the encoder cannot be loaded.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise NotInstalled("vectors of a sentence encoder", "sentence-transformers", "vectors") from error
    model = _loaded(lambda: SentenceTransformer(encoder), encoder)
    rows = []
    for start in range(0, len(words), WORDS_AT_ONCE):
        some = list(words[start : start + WORDS_AT_ONCE])
        outputs = model.encode(some, output_value="token_embeddings", show_progress_bar=False)
        rows += [output.float().mean(0).cpu().numpy() for output in outputs]
        progress(len(rows))
    return scaled_components(np.stack(rows).astype(np.float64))


def scaled_components(rows: np.ndarray, dimensions: int = DIMENSIONS) -> np.ndarray:
    """Centers rows `<float64>[words, features]`, keeps their first principal components, and scales the mean norm to
    GloVe's. Returns `<float32>[words, dimensions]`.
    """
    from sklearn.decomposition import PCA  # sentence-transformers needs scikit-learn

    components = PCA(min(dimensions, *rows.shape), svd_solver="covariance_eigh").fit_transform(rows)
    norm = np.linalg.norm(components, axis=1).mean()
    return (components * (GLOVE_NORM / max(norm, np.finfo(np.float64).tiny))).astype(np.float32)


def write_vectors(path: str | Path, words: Iterable[str], vectors: np.ndarray) -> None:
    """Writes vectors in GloVe's layout, as text or, if the name ends in ".zip", in a zip archive, atomically."""
    path = Path(path)
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(open_atomically(path))
        if path.suffix.lower() == ".zip":
            archive = opened.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED))
            file = opened.enter_context(archive.open(f"{path.stem}.txt", "w"))
        for word, vector in zip(words, vectors, strict=True):
            file.write(f"{word} {' '.join(f'{number:.4f}' for number in vector)}\n".encode())


@functools.lru_cache(1)
def _static_model(name: str) -> Any:
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise NotInstalled(f"the vectors {MODEL2VEC}{name}", "model2vec", "vectors") from error
    return _loaded(lambda: StaticModel.from_pretrained(name), name)


def static_vectors(name: str, words: Sequence[str]) -> np.ndarray:
    """Returns the vectors that a static model of model2vec gives to distinct words, `<float32>[words, dimensions]`.

    The model is a folder, or the name of one on a hub. An `InputError` says that it, or model2vec, cannot be loaded.
    """
    return np.asarray(_static_model(name).encode(list(words)), np.float32)


def static_digest(name: str) -> str:
    """Returns a hash of what a static model computes vectors from."""
    model = _static_model(name)
    found = hashlib.sha256(repr((model.normalize, model.tokenizer.to_str())).encode())
    for part in (model.embedding, model.weights, model.token_mapping):
        found.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def _loaded(load: Callable[[], Any], name: str) -> Any:
    """Loads a model; what the libraries raise if they cannot has no common class."""
    try:
        return load()
    except Exception as error:
        raise InputError(f"the model {name!r} cannot be loaded ({first_line(error)[:200]})", remedy=_HUB) from error
