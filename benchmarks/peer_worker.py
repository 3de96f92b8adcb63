"""Runs the public PyTorch RE2 from its checkout. `peer.py` starts it with a Python that has torch, and with the
checkout on the path.

It reads a JSON object a line and answers with one. Everything that the checkout prints goes to standard error.

  build {settings, folder, tf32}
      Builds a model with these settings; with a folder that has train.txt, the checkout's own code reads and batches
      it. `tf32`: whether float32 products and convolutions on a GPU round their factors to TF32 -> parameters, and
      the values of `tf32` that are in effect.
  train {steps, sort_by_len}
      Makes updates on the next of its shuffled batches -> seconds, pairs, tokens (padding included), and epoch_tokens,
      the mean number of tokens of a pair in its epoch.
  ids {text1, text2, times}
      Predicts probabilities from lists of ids, several times -> the seconds of each time.
  texts {file, batch_size, sort_by_len}
      Predicts the labels of a file of tokenized pairs, in all its steps -> seconds, pairs.

`sort_by_len` is the checkout's own option: batches of pairs that are sorted by length.
"""

import argparse
import contextlib
import json
import os
import sys
import time

try:  # a missing module is reported before anything is measured
    with contextlib.redirect_stdout(sys.stderr):
        import torch
        from src.interface import Interface
        from src.model import Model
except ModuleNotFoundError as error:
    sys.exit(f"{sys.executable} has no module {error.name}")

# Settings of the checkout's default.json5 that its code reads outside of its command line.
DEFAULTS = dict(
    alignment="linear",
    fusion="full",
    connection="aug",
    prediction="full",
    blocks=2,
    enc_layers=2,
    hidden_size=150,
    embedding_dim=300,
    kernel_sizes=[3],
    dropout=0.2,
    fix_embeddings=True,
    multi_gpu=False,
    lr=1e-3,
    beta1=0.9,
    beta2=0.999,
    weight_decay=0,
    grad_clipping=5,
    min_lr=6e-5,
    lr_decay_rate=0.95,
    lr_decay_steps=1000,
    lr_warmup_steps=0,
    batch_size=128,
    max_len=999,
    min_len=1,
    min_df=5,
    max_vocab=999999,
    lower_case=True,
    sort_by_len=False,
    pretrained_embeddings="",
    padding=0,
    num_classes=3,
    num_vocab=10000,
    eval_subset=None,
    watch_metrics=[],
    metric="acc",
)


def tokens_of(batch):
    return len(batch["text1"]) * (len(batch["text1"][0]) + len(batch["text2"][0]))


class Worker:
    def __init__(self):
        self.cuda = torch.cuda.is_available()
        self.model = self.interface = self.arguments = None
        self.samples, self.batches = {}, {}  # by sort_by_len

    def about(self):
        device = torch.cuda.get_device_name() if self.cuda else f"cpu, {torch.get_num_threads()} threads"
        return {"torch": torch.__version__, "device": device}

    def build(self, settings, folder="", tf32=False):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self.arguments = arguments = argparse.Namespace(**{**DEFAULTS, **settings, "cuda": self.cuda})
        if folder:
            arguments.data_dir, arguments.output_dir = folder, os.path.join(folder, "output")
            os.makedirs(arguments.output_dir, exist_ok=True)
            self.interface = Interface(arguments, log=lambda *_: None)
        self.samples, self.batches = {}, {}
        self.model = Model(arguments)
        # The checkout's trainer sets the vectors last, which freezes them. Their values do not affect the times.
        self.model.set_embeddings(torch.randn(arguments.num_vocab, arguments.embedding_dim).numpy())
        allowed = [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32]
        return {"parameters": self.model.num_parameters(exclude_embed=True), "tf32": allowed}

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def train(self, steps, sort_by_len):
        self.arguments.sort_by_len = sort_by_len
        seconds = pairs = tokens = 0
        for _ in range(steps):
            if sort_by_len not in self.batches:
                self.batches[sort_by_len] = self.epoch(sort_by_len)
            batches, share, epoch_tokens = self.batches[sort_by_len]
            batch = batches.pop()
            if not batches:
                del self.batches[sort_by_len]
            start = time.perf_counter()
            self.model.update(batch)
            self.wait()
            seconds += time.perf_counter() - start + share
            pairs += len(batch["text1"])
            tokens += tokens_of(batch)
        return {"seconds": seconds, "pairs": pairs, "tokens": tokens, "epoch_tokens": epoch_tokens}

    def epoch(self, sort_by_len):
        """Returns the batches of an epoch, the seconds to make one (part of training), and the mean tokens a pair."""
        if sort_by_len not in self.samples:
            from src.utils.loader import load_data

            data = load_data(self.arguments.data_dir, "train")
            self.samples[sort_by_len] = self.interface.pre_process(data)
        start = time.perf_counter()
        batches = self.interface.shuffle_batch(self.samples[sort_by_len])
        share = (time.perf_counter() - start) / len(batches)
        return batches, share, sum(map(tokens_of, batches)) / sum(len(batch["text1"]) for batch in batches)

    def ids(self, text1, text2, times):
        seconds = []
        for _ in range(times):
            start = time.perf_counter()
            self.model.predict({"text1": text1, "text2": text2})
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds}

    def texts(self, file, batch_size, sort_by_len):
        # As in the checkout's evaluator: all samples to ids, batches in the order of the file, the likeliest label of
        # each pair. Its option sorts only training data, so texts that are to be sorted are read as training data.
        self.arguments.batch_size, self.arguments.sort_by_len = batch_size, sort_by_len
        with open(file) as lines:
            samples = [dict(zip(("text1", "text2", "target"), line.rstrip("\n").split("\t"))) for line in lines]
        start = time.perf_counter()
        labels = []
        for batch in self.interface.pre_process(samples, training=sort_by_len):
            labels += self.interface.post_process(self.model.predict(batch))
        return {"seconds": time.perf_counter() - start, "pairs": len(labels)}


def main():
    answers, sys.stdout = sys.stdout, sys.stderr
    worker = Worker()
    print(json.dumps(worker.about()), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(worker, request.pop("command"))(**request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
