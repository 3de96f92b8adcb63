"""Word vectors: from files, made from the spelling of words, and from pretrained models.

A file is text in GloVe's layout or word2vec's binary format; plain, with gzip, or in a zip archive. Only the rows of
wanted words are held in memory.

As in fastText (Bojanowski et al., 2017, section 3.2), the hashed vector of a word is the sum of those of its character
n-grams and of the whole word. That of an n-gram is not trained: it consists of signs that come from the hash of the
n-gram (a random projection, Achlioptas, 2003). Words that share a stem have similar vectors.

A sentence encoder reads each word alone. The vector of the word is the mean of the encoder's outputs over all pieces of
the word, special ones included, before any normalization. The vectors are centered over the words, reduced by a
principal component analysis, and scaled to the mean norm of GloVe's. A static model of model2vec has a vector of each
word as it is.
"""

import codecs
import contextlib
import functools
import gzip
import hashlib
import io
import itertools
import os
import zipfile
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from jaxmatch.errors import InputError, NotInstalled, first_line, listed, require_plain_file, shown
from jaxmatch.files import open_atomically

# The values of `data.vectors` that are not files: hashed vectors, and none for a model that trains its own; and the
# start of one that names a static model of model2vec.
HASHED, NO_VECTORS, MODEL2VEC = "hashed", "none", "model2vec:"
REMEDY = "name a file of word vectors: text in GloVe's layout, also as .gz or .zip"
_BLOCK_BYTES, _LONGEST_WORD = 1 << 22, 1 << 12  # of a binary file: read at once, and in a word
_EXAMPLES = 5  # this many broken lines are described
_NUMBER_BYTES = b"0123456789+-.eE \t\r\n"
_NOT_FINITE = "a value that is not a finite number"

# Hashed vectors.
DIMENSIONS = 300
HASHED_VERSION = 1  # increased when a change gives a word another vector
_GRAM_LENGTHS = range(3, 7)
_NORM = 6.0  # about the norm of GloVe's vectors
_DIGEST_BYTES = -(-DIMENSIONS // 8)
MOST_GRAMS = 1 << 17  # the signs of this many n-grams are held in memory (50 MB)

# Vectors of pretrained models.
GLOVE_NORM = 6.01  # the mean norm of the vectors of GloVe 840B, over 86,148 words of the public data sets
WORDS_AT_ONCE = 2048


@dataclass(frozen=True)
class VectorReport:
    """Statistics of a vector file. `broken` of its `lines` are not a word with `dimensions` finite numbers."""

    name: str  # of the file, without folder and suffixes
    dimensions: int
    lines: int
    broken: int = 0
    broken_examples: tuple[str, ...] = ()


def read_vectors(
    path: str | Path, words: Container[str], *, lowercase: bool = True
) -> tuple[dict[str, np.ndarray], VectorReport]:
    """Reads the vectors of the wanted words: word -> <float32>[dimensions].

    A first line of two whole numbers (count and dimensions, as word2vec writes) is skipped. A word may contain
    spaces, because the numbers are counted from the right. If the file holds a word twice, the first counts.

    Arguments:
      path: the file. One of a larger archive is named as if that were a folder: `glove.6B.zip/glove.6B.300d.txt`.
      words: the wanted words.
      lowercase: whether the words of the file are converted to lower case before they are looked up.

    Raises:
      InputError: the file cannot be read, or no line holds a vector.
    """
    path = Path(path)
    found: dict[str, np.ndarray] = {}
    broken, examples, count = 0, [], 0
    with _opened(path) as file:
        binary = b"\0" in file.peek()[: 1 << 16]  # text holds no zeros, and 64 KiB of 32-bit floats do
        first = file.readline().removeprefix(codecs.BOM_UTF8)
        fields = first.split()
        header = int(fields[1]) if len(fields) == 2 and all(map(bytes.isdigit, fields)) else 0
        dimensions = header or (0 if binary else len(fields) - 1)
        if dimensions < 1:
            raise InputError("this is not a file of word vectors", path=path, line=1, remedy=REMEDY)
        if binary:
            rows = _binary_rows(file, dimensions, path)
        else:
            lines = enumerate(file if header else itertools.chain([first], file), start=2 if header else 1)
            rows = ((number, *_fields(line, dimensions)) for number, line in lines if line.strip())
        for number, name, numbers, problem in rows:
            count += 1
            try:
                word = name.decode().lower() if lowercase else name.decode()
            except UnicodeDecodeError:
                word, problem = "", problem or "a word that is not UTF-8"
            if not problem and word in words and word not in found:
                row = np.frombuffer(numbers, "<f4").astype(np.float32) if binary else _parsed(numbers)
                if len(row) == dimensions and np.isfinite(row).all():
                    found[word] = row
                else:
                    problem = _NOT_FINITE
            if problem:
                broken += 1
                if len(examples) < _EXAMPLES:
                    examples.append(f"{'word' if binary else 'line'} {number}: {problem}")
    if broken == count:
        stated = f"the first line states {header} dimensions, and " if header and not binary else ""
        raise InputError(f"{stated}no line holds a word and {dimensions} numbers", path=path, remedy=REMEDY)
    return found, VectorReport(file_name(path), dimensions, count, broken, tuple(examples))


def _fields(line: bytes, dimensions: int) -> tuple[bytes, bytes, str]:
    """Splits a line into its word, its numbers, and a problem or ""."""
    problem = ""
    if line.count(b" ") == dimensions and line[:1] != b" ":  # almost all lines
        name, _, numbers = line.partition(b" ")
    else:
        name, *fields = line.strip().rsplit(None, dimensions)
        numbers = b" ".join(fields)
        if len(fields) < dimensions:
            problem = f"{len(fields)} numbers instead of {dimensions}"
        elif len(words := name.split()) > 1 and len(_parsed(words[-1])):
            problem = f"more than {dimensions} numbers"
    # Most words are not wanted. Their numbers are only checked for characters that do not occur in numbers.
    return name, numbers, problem or (_NOT_FINITE if numbers.translate(None, _NUMBER_BYTES) else "")


def _binary_rows(file: IO[bytes], dimensions: int, path: Path) -> Iterator[tuple[int, bytes, bytes, str]]:
    """Yields the rows of word2vec's binary format: a word, a space and its 32-bit floats.

    A line feed after the floats is skipped. word2vec itself writes one, other programs do not.
    """
    size, block, at = 4 * dimensions, b"", 0
    for number in itertools.count(1):
        if len(block) - at < _LONGEST_WORD + size:
            block, at = block[at:] + file.read(_BLOCK_BYTES + size), 0
        start = block.find(b" ", at) + 1
        if not start or start + size > len(block):
            if block[at:].strip():
                raise InputError(f"the file ends inside word {number}", path=path, remedy="fetch it again")
            return
        yield number, block[at : start - 1].lstrip(b"\n"), block[start : start + size], ""
        at = start + size


def file_and_member(path: str | Path) -> tuple[Path, str]:
    """Splits a path that may lead into a zip archive: the file on disk, and the name of a file inside it or ""."""
    path = Path(path)
    archives = () if os.path.exists(path) else path.parents
    file = next((each for each in archives if each.suffix.lower() == ".zip" and os.path.isfile(each)), path)
    require_plain_file(file, missing="there is no such vector file", remedy=REMEDY)
    return file, "" if file == path else path.relative_to(file).as_posix()


def file_name(path: str | Path) -> str:
    """Returns a short name for tables: 'glove.840B.300d' for '/data/glove.840B.300d.txt.gz'."""
    return functools.reduce(str.removesuffix, (".gz", ".zip", ".txt", ".bin"), Path(path).name)


def _parsed(numbers: bytes) -> np.ndarray:
    """Parses numbers as <float32>[numbers]. Returns an empty array if they are not numbers."""
    try:
        with np.errstate(over="ignore"):  # a number beyond the range of float32 becomes infinity, which is not finite
            return np.array(list(map(float, numbers.split()))).astype(np.float32)
    except ValueError:
        return np.zeros(0, np.float32)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file of word vectors. An error of the block that reads it becomes an InputError that names the file."""
    archive, member = file_and_member(path)
    try:
        with contextlib.ExitStack() as opened:
            if archive.suffix.lower() == ".zip":
                contents = opened.enter_context(zipfile.ZipFile(archive))
                stream = opened.enter_context(contents.open(_member(contents, archive, member)))
            else:
                stream = opened.enter_context((gzip.open if archive.suffix.lower() == ".gz" else open)(archive, "rb"))
            yield io.BufferedReader(stream, _BLOCK_BYTES)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # the errors of the decompressors have no common class
        reason = getattr(error, "strerror", None) or error
        remedy = "if the file is damaged, fetch it again"
        raise InputError(f"the word vectors cannot be read ({reason})", path=archive, remedy=remedy) from error


def _member(archive: zipfile.ZipFile, path: Path, wanted: str) -> str:
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    texts = [name for name in names if name.endswith(".txt")] or names
    found = [name for name in names if name == wanted] if wanted else texts
    if len(found) != 1:
        problem = f"the archive holds {listed(names) or 'no file'}" + (f", not {shown(wanted)}" if wanted else "")
        raise InputError(problem, path=path, remedy=f"name one of them behind the archive: {path.name}/NAME")
    return found[0]


def hashed_rule() -> dict[str, Any]:
    """Returns how hashed vectors are made, for programs without this package (docs/how_to/export.md)."""
    rule = {"version": HASHED_VERSION, "ngrams": list(_GRAM_LENGTHS), "hash": "blake2b", "digest_bytes": _DIGEST_BYTES}
    return {**rule, "dimensions": DIMENSIONS, "norm": _NORM}


def hashed_vectors(words: Collection[str]) -> np.ndarray:
    """Computes the hashed vectors of words, <float32>[words, 300]. They are the same on every machine."""
    signs = functools.lru_cache(MOST_GRAMS)(_signs)
    result = np.zeros((len(words), DIMENSIONS), np.float32)
    for row, word in enumerate(words):
        marked = f"<{word}>"
        places = ((start, start + length) for length in _GRAM_LENGTHS for start in range(len(marked) - length + 1))
        grams = {marked, *(marked[start:end] for start, end in places)}
        total = np.sum([signs(gram) for gram in grams], axis=0, dtype=np.int32)
        # In float64 this sum of whole numbers is exact, so that the result is the same on every machine.
        norm = np.sqrt(np.square(total, dtype=np.float64).sum())
        result[row] = _NORM * total / max(norm, 1.0)
    return result


def _signs(gram: str) -> np.ndarray:
    """Returns 300 numbers, 1 or -1, from the bits of the hash of an n-gram."""
    digest = hashlib.blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return 2 * np.unpackbits(np.frombuffer(digest, np.uint8), count=DIMENSIONS).astype(np.int8) - 1


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
        from huggingface_hub import HfApi, get_session
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise NotInstalled("vectors of a sentence encoder", "sentence-transformers", "vectors") from error
    without_hub = True  # in which case each file would be tried for long
    with contextlib.suppress(Exception):  # of a HTTP client, which depends on the version of huggingface_hub
        without_hub = get_session().head(HfApi().endpoint, timeout=5) is None
    model = _loaded(lambda: SentenceTransformer(encoder, local_files_only=without_hub), encoder)
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
        remedy = "name a folder, or a model of huggingface.co if it can be reached"
        raise InputError(f"the model {name!r} cannot be loaded ({first_line(error)[:200]})", remedy=remedy) from error
