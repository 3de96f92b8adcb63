"""Batches of pairs that wait for their predictions, and the predictions as lines of output."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from jaxmatch.errors import InputError, NotFinite
from jaxmatch.printable import printable_json

if TYPE_CHECKING:
    from jaxmatch.inference.matcher import Matcher, Prediction

NAMES = ("label", "probabilities", "score")
# The number of pairs predicted together: enough to batch pairs of similar length, but few enough to be done soon.
CHUNK = 4096
# A pair of at most this many characters fits into the memory of every device. It has no more tokens than characters.
_SHORT = 8192


class PredictionQueue:
    """A queue of pairs, which are predicted many at once and written in their order.

    Arguments:
      matcher: the model.
      source: the name of the input, for error messages.
      output: the file to write the predictions to, as JSON lines.
      longest_wait: the seconds that a pair waits for others before all are predicted; None: no limit.
      columns: the names of the fields with the two texts.
    """

    def __init__(
        self,
        matcher: Matcher,
        source: Path | str,
        output: BinaryIO,
        longest_wait: float | None = None,
        columns: tuple[str, str] = ("text_a", "text_b"),
    ):
        self._matcher, self._source, self._output, self._longest_wait = matcher, source, output, longest_wait
        self._columns = columns
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self._since = 0.0

    def add(self, line: int, fields: dict[str, Any]) -> None:
        """Adds a pair. Predicts the waiting pairs if there are enough, or if the first has waited for `longest_wait`.

        Arguments:
          line: the number of the pair in the input, as `record_input.records` yields it.
          fields: the texts, and the other fields of the pair. All are copied to the output.

        Raises:
          InputError: the texts are too long for the memory of the device; also as in `write`.
        """
        self._check_length(line, fields)
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append((line, fields))
        late = self._longest_wait is not None and time.monotonic() - self._since > self._longest_wait
        if late or len(self._waiting) >= CHUNK:
            self.write()

    def write(self) -> None:
        """Predicts the waiting pairs, and writes the predictions.

        Raises:
          InputError: a pair cannot be predicted. The predictions of the pairs before it are written.
        """
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            predictions: Iterable[Prediction] = self._predicted(waiting)
        except NotFinite as error:
            predictions = self._predictions_before(waiting, error.pair)
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            predictions = (self._predict_one(line, fields) for line, fields in waiting)
        try:
            for (line, fields), prediction in zip(waiting, predictions, strict=True):
                self._output.write(self._line(line, fields, prediction))
        finally:
            self._output.flush()

    def _texts(self, fields: dict[str, Any]) -> tuple[str, str]:
        return fields[self._columns[0]], fields[self._columns[1]]

    def _predicted(self, waiting: Sequence[tuple[int, dict[str, Any]]]) -> list[Prediction]:
        return self._matcher.predict([self._texts(fields) for _, fields in waiting])

    def _predictions_before(self, waiting: Sequence[tuple[int, dict[str, Any]]], wrong: int) -> Iterator[Prediction]:
        """Yields the predictions before the first pair without a finite output, then raises an error about it."""
        yield from self._predicted(waiting[:wrong])
        raise self._not_finite(waiting[wrong][0])

    def _not_finite(self, line: int) -> InputError:
        problem = "the model's output for this pair is not finite"
        return InputError(problem, path=self._source, line=line, remedy="train the model again")

    def _predict_one(self, line: int, fields: dict[str, Any]) -> Prediction:
        try:
            (prediction,) = self._predicted([(line, fields)])
        except NotFinite:
            raise self._not_finite(line) from None
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            raise InputError(
                "out of device memory on this pair",
                path=self._source,
                line=line,
                remedy="shorten its texts, or free device memory",
            ) from None
        return prediction

    def _check_length(self, line: int, fields: dict[str, Any]) -> None:
        """Checks that the prediction of a pair fits into the device's memory.

        Raises:
          InputError: the pair is too long. To predict it anyway might make the system end the process.
        """
        if sum(map(len, self._texts(fields))) <= _SHORT:
            return
        from jaxmatch.devices import device_bytes

        model, matcher = self._matcher.model, self._matcher
        tokens = sum(len(matcher.tokens(text)) for text in self._texts(fields))
        device = min(model.vectors.devices(), key=device_bytes)
        available = device_bytes(device)
        # The scores of the attention and their softmax, in float32, and a copy of both.
        needed = 4 * 4 * tokens**2
        if needed > available:
            raise InputError(
                f"this pair has {tokens:,} tokens; predicting it needs about {needed / 2**30:,.0f} GiB, and the device "
                f"has {available / 2**30:,.0f} GiB",
                path=self._source,
                line=line,
                remedy="shorten its texts, or train with config.data.maximum_length",
            )

    def _line(self, line: int, fields: dict[str, Any], prediction: Prediction) -> bytes:
        """Returns the line of output for a pair."""
        record = {}
        for key, value in fields.items():
            if key in NAMES:
                key = f"input_{key}"
                while key in fields:
                    key = f"input_{key}"
            record[key] = value
        if prediction.score is None:
            record |= {"label": prediction.label, "probabilities": prediction.probabilities}
        else:
            record |= {"score": prediction.score}
        try:
            return f"{printable_json(record, allow_nan=False)}\n".encode()
        except ValueError:
            raise self._not_finite(line) from None


def _out_of_memory(error: Exception) -> bool:
    from jaxmatch.devices import is_out_of_memory

    return isinstance(error, MemoryError) or is_out_of_memory(error)
