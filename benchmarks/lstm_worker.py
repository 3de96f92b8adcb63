"""Runs torch.nn.LSTM on the arrays of `items/lstm.py`, which starts this file with a Python that may have torch.

It first writes the version of torch, or "" without torch. Then it reads a JSON object a line and answers with one.

  build    {arrays}         makes a layer; reads its weights, its input and the gradient of its output from an .npz file
  values   {to}             writes the states and gradients to an .npz file
  run      {training}       runs the layer once, forward, or forward and backward -> seconds
"""

import json
import sys
import time

import numpy as np

try:
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
except ModuleNotFoundError:
    torch = None


class Worker:
    def about(self):
        if torch is None:
            return {"torch": ""}
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        device = (
            torch.cuda.get_device_name() if self.device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"
        )
        return {"torch": torch.__version__, "device": device}

    def build(self, arrays):
        with np.load(arrays) as loaded:
            given = {name: torch.from_numpy(loaded[name]).to(self.device) for name in loaded}
        kernel, recurrent, bias = given["input_kernel"], given["recurrent_kernel"], given["bias"]
        inputs, directions, _, hidden = kernel.shape
        self.layer = torch.nn.LSTM(inputs, hidden, batch_first=True, bidirectional=directions == 2).to(self.device)
        with torch.no_grad():
            for direction, suffix in enumerate(("", "_reverse")):
                values = {
                    "weight_ih": kernel[:, direction].reshape(inputs, -1).T,
                    "weight_hh": recurrent[direction].reshape(hidden, -1).T,
                    "bias_ih": bias[direction].reshape(-1),
                    "bias_hh": torch.zeros(4 * hidden),
                }
                for name, value in values.items():
                    getattr(self.layer, f"{name}_l0{suffix}").copy_(value)
        self.inputs, self.output_gradient = given["inputs"].requires_grad_(), given["output_gradient"]
        lengths = given["lengths"].cpu()
        self.lengths = None if (lengths == self.inputs.shape[1]).all() else lengths
        return {}

    def states(self):
        if self.lengths is None:
            return self.layer(self.inputs)[0]
        packed = pack_padded_sequence(self.inputs, self.lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]

    def gradients(self):
        self.layer.zero_grad()
        self.inputs.grad = None
        states = self.states()
        (states * self.output_gradient).sum().backward()
        return states

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def values(self, to):
        found = {"states": self.gradients().detach(), "inputs": self.inputs.grad}
        found["recurrent_kernel"] = torch.stack(
            [getattr(self.layer, f"weight_hh_l0{suffix}").grad.T for suffix in ("", "_reverse")]
        )
        np.savez(to, **{name: value.cpu().numpy() for name, value in found.items()})
        return {}

    def run(self, training):
        self.wait()
        start = time.perf_counter()
        if training:
            self.gradients()
        else:
            with torch.no_grad():
                self.states()
        self.wait()
        return {"seconds": time.perf_counter() - start}


def main():
    answers, sys.stdout = sys.stdout, sys.stderr
    worker = Worker()
    print(json.dumps(worker.about()), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(worker, request.pop("command"))(**request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
