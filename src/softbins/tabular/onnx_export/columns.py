"""The encoding of columns, from the raw ones to what networks and trees take, as ONNX.

Columns of numbers go through the same few operators all together, because one row takes the same
time for each operator, however many columns it is for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from softbins.tabular.categories import MAX_LABEL_BYTES, CategoryEncoder
from softbins.tabular.columns import Columns, NumericEncoder
from softbins.tabular.dates import DateEncoder
from softbins.tabular.encoded_feature import EncodedFeature
from softbins.tabular.frames import Array, ColumnValues, column_title
from softbins.tabular.onnx_export.graph import MACHINE_LEARNING, Graph

# The end of a label that stands for a longer text.
DIGEST = re.compile(f"[0-9a-f]{{{MAX_LABEL_BYTES // 2}}}$")


def is_text(encoder: object) -> bool:
    """Whether a column is given as text, and not as numbers."""
    return isinstance(encoder, CategoryEncoder) and isinstance(encoder.labels[0], str)


def check_columns(columns: Columns) -> None:
    """Raise for dates, and if a category is known by a digest only: ONNX can read neither."""
    for index, encoder in enumerate(columns.encoders):
        if isinstance(encoder, DateEncoder):
            raise ValueError(
                f"{column_title(columns.names, index)}: holds dates, which ONNX cannot take "
                "apart; make numbers of them, such as year, month and hour, and fit again"
            )
        labels = encoder.labels if isinstance(encoder, CategoryEncoder) else []
        for label in labels:
            if isinstance(label, str) and _is_shortened(label):
                raise ValueError(
                    f"{column_title(columns.names, index)}: category {label[:20]!r}... is longer "
                    f"than {MAX_LABEL_BYTES} bytes, which ONNX cannot compare; shorten the text "
                    "and fit again"
                )


def _is_shortened(label: str) -> bool:
    return len(label.encode()) >= MAX_LABEL_BYTES and DIGEST.search(label) is not None


def add_columns(graph: Graph, columns: Columns, inputs: Sequence[str]) -> str:
    """The encoded features (n, d), from one input (n, 1) for each column that is not ignored.

    Times of day and durations come as seconds.
    """
    blocks = _Blocks(graph)
    numeric = {i: e for i, e in enumerate(columns.encoders) if isinstance(e, NumericEncoder)}
    blocks.add_numbers({i: e for i, e in numeric.items() if e.kind != "empty"}, inputs)
    blocks.add_empty([i for i, e in numeric.items() if e.kind == "empty"], inputs)
    for index, encoder in enumerate(columns.encoders):
        if isinstance(encoder, CategoryEncoder):
            blocks.add_categories(index, encoder, inputs[index])
    return blocks.in_order(columns.encoded_features)


@dataclass
class _Blocks:
    """Values (n, some), and which features are in each."""

    graph: Graph
    values: list[str] = field(default_factory=list)
    features: list[EncodedFeature] = field(default_factory=list)

    def add_numbers(self, encoders: dict[int, NumericEncoder], inputs: Sequence[str]) -> None:
        """Numbers and booleans: the median where they are missing, and where that is."""
        if not encoders:
            return
        given = self.graph.concatenate([inputs[index] for index in encoders])
        missing = self.graph.add("IsNaN", given)
        fills = self.graph.constant(np.array([[each.fill for each in encoders.values()]]))
        self.values.append(self.graph.add("Where", missing, fills, given))
        self.features += [EncodedFeature(index, "value") for index in encoders]
        flagged = [i for i, each in enumerate(encoders.values()) if each.gaps]
        if flagged:
            chosen = self.graph.constant(np.array(flagged))
            flags = self.graph.add("Gather", missing, chosen, axis=1)
            self.values.append(self.graph.to_float64(flags))
            gaps = [index for index, each in encoders.items() if each.gaps]
            self.features += [EncodedFeature(index, "is_missing") for index in gaps]

    def add_empty(self, indices: list[int], inputs: Sequence[str]) -> None:
        """Columns that were empty in training: always missing, whatever is given."""
        if not indices:
            return
        shape = self.graph.add("Shape", self.graph.concatenate([inputs[i] for i in indices]))
        for value in (0.0, 1.0):
            filled = self.graph.add("ConstantOfShape", shape, value=np.array([value]))
            self.values.append(filled)
        self.features += [EncodedFeature(index, "value") for index in indices]
        self.features += [EncodedFeature(index, "is_missing") for index in indices]

    def add_categories(self, index: int, encoder: CategoryEncoder, given: str) -> None:
        """A column of categories: its row in a table, of which the last is for all others."""
        table = _table(encoder)
        add = self._text_rows if is_text(encoder) else self._number_rows
        self.values.append(add(encoder, given, table))
        self.features += encoder.features(index)

    def _text_rows(self, encoder: CategoryEncoder, given: str, table: Array) -> str:
        count = len(encoder.labels)
        code = self.graph.add(
            "LabelEncoder",
            given,
            domain=MACHINE_LEARNING,
            keys_strings=encoder.labels,
            values_int64s=list(range(count)),
            default_int64=count,
        )
        return self.graph.add("Gather", self.graph.constant(table), self.graph.flatten(code))

    def _number_rows(self, encoder: CategoryEncoder, given: str, table: Array) -> str:
        labels = self.graph.constant(np.array([encoder.labels], dtype=np.float64))
        same = self.graph.to_float64(self.graph.add("Equal", given, labels))
        return self.graph.add("MatMul", same, self.graph.constant(table[:-1]))

    def in_order(self, wanted: list[EncodedFeature]) -> str:
        """All features side by side, in the order that is wanted."""
        joined = self.graph.concatenate(self.values)
        if self.features == wanted:
            return joined
        place = {feature: i for i, feature in enumerate(self.features)}
        order = self.graph.constant(np.array([place[feature] for feature in wanted]))
        return self.graph.add("Gather", joined, order, axis=1)


def _table(encoder: CategoryEncoder) -> Array:
    """The features of every label, and in the last row those of a missing one."""
    values = np.array([*encoder.labels, None], dtype=object)
    table = np.empty((len(values), len(encoder.features(0))))
    encoder.encode(ColumnValues("category", values), "", table)
    return table
