"""The networks of a table: how many inputs they have, and which of these are embedded."""

from __future__ import annotations

from collections.abc import Sequence

from softbins.bins import Bins
from softbins.nn.embedded import EmbeddedMLP
from softbins.tabular.columns import Columns
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import NetworkDefaults
from softbins.tabular.hyperparameters import Hyperparameters
from softbins.tabular.memory import NetworkSize
from softbins.tabular.tree_growth import GrownTrees

# Kinds of columns with inputs of more than yes and no, and such inputs of columns of categories.
EMBEDDED_KINDS = ("number", "date", "time", "duration")
EMBEDDED_STATISTICS = ("category_mean", "category_effect", "category_slope")


def make_network(
    columns: Columns,
    chosen: Hyperparameters,
    embedded: Sequence[int],
    outputs: int,
    seeds: Sequence[int],
) -> EmbeddedMLP:
    """Networks for the inputs that columns become, one for each seed."""
    defaults = chosen.defaults.network
    return EmbeddedMLP(
        len(columns.encoded_features),
        embedded,
        chosen.hidden,
        outputs,
        seeds,
        activation=chosen.activation,
        frequencies_per_input=defaults.frequencies_per_input,
        embedding_size=defaults.embedding_size,
        initial_frequency_scale=defaults.initial_frequency_scale,
    )


def network_size(data: TrainingData, chosen: Hyperparameters, members: int) -> NetworkSize:
    """How large a stack of so many networks is."""
    defaults, bins = chosen.defaults.network, chosen.bins
    blurred = 0 if chosen.blur is None else chosen.defaults.targets.blurred_bins
    embedded = choose_embedded(data, chosen, None)
    return NetworkSize(
        members=members,
        inputs=len(data.columns.encoded_features),
        hidden=chosen.hidden,
        outputs=(bins.count if isinstance(bins, Bins) else bins) + blurred,
        rows=data.n_rows,
        batch_size=chosen.settings.batch_size,
        embedding_units=defaults.embedding_size * len(embedded),
        by_muon=chosen.settings.muon is not None,
    )


def choose_embedded(
    data: TrainingData, chosen: Hyperparameters, trees: GrownTrees | None
) -> list[int]:
    """The inputs that get embeddings, of very many those that trees have learnt most from."""
    defaults = chosen.defaults.network
    found = embedded_inputs(data.columns, defaults) if chosen.embeddings else []
    most = defaults.important_inputs.at(data.n_rows)
    if trees is None or len(found) <= most:
        return found
    return sorted(sorted(found, key=lambda place: -trees.gains[place])[:most])


def embedded_inputs(columns: Columns, defaults: NetworkDefaults) -> list[int]:
    """The inputs of a network that are numbers, with more to them than yes and no.

    None if there are very many: networks would be nine times as large.
    """
    numeric = {i for i, kind in enumerate(columns.kinds) if kind in EMBEDDED_KINDS}
    found = [
        place
        for place, feature in enumerate(columns.encoded_features)
        if (feature.column in numeric and feature.content != "is_missing")
        or feature.content in EMBEDDED_STATISTICS
    ]
    return found if len(found) <= defaults.max_embedded_inputs else []
