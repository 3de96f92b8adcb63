"""A fake checkout of the public PyTorch RE2. It has the same calls, which sleep instead of computing.

The checkout also holds a fake `torch`, so that `benchmarks/peer_worker.py` runs with any Python.
"""

from pathlib import Path

FILES = {
    "torch.py": """
import os

__version__ = f"fake, {os.environ.get('GLIBC_TUNABLES')}"


class cuda:
    is_available = staticmethod(lambda: False)


class backends:
    class cuda:
        class matmul:
            allow_tf32 = False

    class cudnn:
        allow_tf32 = True


def get_num_threads():
    return 2


class randn:
    def __init__(self, *shape):
        pass

    def numpy(self):
        return None
""",
    "src/network.py": "",
    "src/utils/loader.py": """
import os


def load_data(folder, split):
    with open(os.path.join(folder, split + ".txt")) as lines:
        return [dict(zip(("text1", "text2", "target"), line.rstrip("\\n").split("\\t"))) for line in lines]
""",
    "src/interface.py": """
import random


class Interface:
    def __init__(self, args, log=None):
        self.args = args
        args.num_classes, args.num_vocab = 3, 10

    def pre_process(self, data, training=True):
        result = [{key: len(sample[key].split()) for key in ("text1", "text2")} for sample in data]
        if training:
            if not self.args.sort_by_len:
                return result
            result.sort(key=lambda sample: (sample["text1"], sample["text2"]))
        return self.batches(result)

    def shuffle_batch(self, data):
        data = random.sample(data, len(data))
        return data if self.args.sort_by_len else self.batches(data)

    def batches(self, samples):
        size = self.args.batch_size
        return [self.padded(samples[start : start + size]) for start in range(0, len(samples), size)]

    def padded(self, samples):
        return {key: [[1] * max(s[key] for s in samples)] * len(samples) for key in ("text1", "text2")}

    def post_process(self, output):
        return output
""",
    "src/model.py": '''
import time


class Model:
    """Takes 20 microseconds for a token, and in `predict` 64 ms more unless a batch may have 64 pairs."""

    def __init__(self, args):
        self.args = args

    def set_embeddings(self, vectors):
        pass

    def num_parameters(self, exclude_embed):
        return 7

    def update(self, batch):
        time.sleep(2e-5 * self.tokens(batch))

    def predict(self, batch):
        time.sleep(2e-5 * self.tokens(batch) + 1e-3 * abs(64 - self.args.batch_size))
        return [0] * len(batch["text1"])

    @staticmethod
    def tokens(batch):
        return len(batch["text1"]) * (len(batch["text1"][0]) + len(batch["text2"][0]))
''',
}


def checkout(folder: Path) -> str:
    """Writes the checkout into a folder and returns the path of the folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)
