"""Our encoded text in the format of the public PyTorch RE2, so that both train on the same tokens."""

from pathlib import Path

from jaxmatch.data.encoded import EncodedData


def write_peer_data(data: EncodedData, folder: Path) -> Path:
    """Writes `SPLIT.txt` for every split, and returns the folder. A line has both texts and the label, separated by
    tabs. Tokens are separated by spaces.

    Arguments:
      data: the data that we train on. A token that our vocabulary lacks becomes "<unknown>".
      folder: the folder to write to, which is created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = data.vocabulary.words
    for name, split in data.splits.items():
        ends = zip(
            split.offsets_a, split.offsets_a[1:], split.offsets_b, split.offsets_b[1:], split.labels, strict=False
        )
        with open(folder / f"{name}.txt", "w", encoding="utf-8") as file:
            for start_a, end_a, start_b, end_b, label in ends:
                text_a = " ".join(words[token] for token in split.tokens_a[start_a:end_a])
                text_b = " ".join(words[token] for token in split.tokens_b[start_b:end_b])
                file.write(f"{text_a}\t{text_b}\t{data.labels[label]}\n")
    return folder
