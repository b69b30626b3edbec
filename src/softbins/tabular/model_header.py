"""The rules for the header of a model file, field by field.

The header of a model is plain JSON, which anybody can write. Relations between its fields and the
tensors beside it are in `model_schema`. A new field of the header needs a line here; one that
older files do not have is `optional`, or is added by `persistence` where it brings old files up to
date.
"""

from __future__ import annotations

import math
import sys
from typing import get_args

from softbins._core.checks import SMALLEST_POSITIVE
from softbins._core.json_rules import (
    MAX_WHOLE,
    AnyOf,
    Fields,
    ListOf,
    Number,
    OneOf,
    Optional,
    Rule,
    Text,
    Whole,
)
from softbins.nn.settings import METHODS, Activation, Monitor, Schedule
from softbins.tabular.date_text import DATE_FORMATS
from softbins.tabular.defaults import Optimizer, Preset, ScalingKind
from softbins.tabular.encoded_feature import DatePart
from softbins.tabular.frames import MAX_ABSOLUTE_VALUE
from softbins.tabular.text_kind import LeftOut
from softbins.tabular.time_zones import FIRST_MOMENT, LAST_MOMENT

# Far beyond any target, and so small that float64 holds the square, as a variance needs.
MAX_TARGET = 1e100
MAX_LOG_ODDS, MAX_KNOTS = 1e3, 1024
MAX_BIN_SPLITS = 1024
MAX_HISTORY_NUMBER = 1e300
PARTNERS = ("trees", "gaussian_process")
BELOW_ONE = math.nextafter(1.0, 0.0)

FLAG = OneOf((False, True, 0, 1, None))
COUNT = Whole(1)
COUNTS = ListOf(COUNT)
NUMBER = Number(-sys.float_info.max, sys.float_info.max)
POSITIVE = Number(SMALLEST_POSITIVE, sys.float_info.max)
NOT_NEGATIVE = Number(0, sys.float_info.max)
AT_LEAST_ONE = Number(1, sys.float_info.max)
TARGET = Number(-MAX_TARGET, MAX_TARGET)
RANGE = ListOf(TARGET, shortest=2, longest=2)
EDGES = Fields({"edges": ListOf(TARGET, shortest=3)})
SEED = Optional(Whole(0, 2**32 - 1))
COLUMN_CHOICE = AnyOf((Text(), Number(0, MAX_WHOLE), OneOf((False, True))))


def _or_auto(*rules: Rule) -> Rule:
    return AnyOf((OneOf(("auto",)), *rules))


# Parameters of the estimators. Those that only a training uses are checked as `fit` does.

PARAMETERS_OF_BOTH: dict[str, Rule] = {
    "sigma": POSITIVE,
    "weight_decay": NOT_NEGATIVE,
    "schedule": OneOf(get_args(Schedule)),
    "max_seconds": Optional(POSITIVE),
    "early_stopping": FLAG,
    "monitor": OneOf(get_args(Monitor)),
    "categorical_features": Optional(AnyOf((COLUMN_CHOICE, ListOf(COLUMN_CHOICE)))),
    "device": Optional(Text()),
    "random_state": SEED,
    "progress": FLAG,
}
NEURAL_PARAMETERS: dict[str, Rule] = PARAMETERS_OF_BOTH | {
    "objective": OneOf(METHODS),
    "hidden": COUNTS,
    "bins": AnyOf((COUNT, EDGES)),
    "epsilon": NUMBER,
    "noise": NUMBER,
    "clip": NUMBER,
    "components": COUNT,
    "target_range": Optional(RANGE),
    "members": COUNT,
    "dropout": Number(0, BELOW_ONE),
    "learning_rate": POSITIVE,
    "batch_size": AT_LEAST_ONE,
    "max_epochs": AT_LEAST_ONE,
    "validation_fraction": Number(SMALLEST_POSITIVE, BELOW_ONE),
    "patience": NOT_NEGATIVE,
}
HISTOGRAM_PARAMETERS: dict[str, Rule] = PARAMETERS_OF_BOTH | {
    "hidden": _or_auto(COUNTS),
    "preset": OneOf(get_args(Preset)),
    "bins": _or_auto(COUNT, EDGES),
    "folds": OneOf((None,)),
    "lower": Optional(NUMBER),
    "upper": Optional(NUMBER),
    "blur": Optional(_or_auto(NOT_NEGATIVE)),
    "members": _or_auto(COUNT),
    "embeddings": FLAG,
    "trees": FLAG,
    "gaussian_process": FLAG,
    "scaling": OneOf(get_args(ScalingKind)),
    "activation": OneOf(get_args(Activation)),
    "optimizer": OneOf(get_args(Optimizer)),
    "learning_rate": _or_auto(POSITIVE),
    "beta_2": Number(0, BELOW_ONE),
    "batch_size": _or_auto(COUNT),
    "max_epochs": _or_auto(COUNT),
    "patience": _or_auto(COUNT),
}

# What was learned.

NUMERIC_COLUMN = Fields(
    {
        "kind": OneOf(("number", "boolean", "empty", "time", "duration")),
        "fill": Number(-MAX_ABSOLUTE_VALUE, MAX_ABSOLUTE_VALUE),
        "gaps": OneOf((False, True)),
    }
)
CATEGORY_COLUMN = Fields(
    {
        "kind": OneOf(("category",)),
        "labels": AnyOf((ListOf(Text(), shortest=1), ListOf(NUMBER, shortest=1))),
        "counts": COUNTS,
    },
    optional={
        "max_one_hot": COUNT,
        "means": ListOf(TARGET),
        "effects": ListOf(TARGET),
        "slopes": ListOf(ListOf(TARGET)),
        "slope_columns": ListOf(Whole()),
    },
)
MOMENT = Number(FIRST_MOMENT, LAST_MOMENT)
DATE_COLUMN = Fields(
    {
        "kind": OneOf(("date",)),
        "fill": MOMENT,
        "gaps": OneOf((False, True)),
        "low": MOMENT,
        "high": MOMENT,
        "parts": ListOf(OneOf(get_args(DatePart))),
        "zone": Optional(Text(r"[A-Za-z0-9_+:/-]{1,60}")),
        "written": OneOf(DATE_FORMATS),
    }
)
LEFT_OUT_COLUMN = Fields({"kind": OneOf(("ignored",)), "left_out": OneOf(get_args(LeftOut))})
COLUMN = AnyOf((NUMERIC_COLUMN, CATEGORY_COLUMN, DATE_COLUMN, LEFT_OUT_COLUMN))
COLUMNS = Fields(
    {
        "names": Optional(ListOf(Text())),
        "parts": ListOf(COLUMN, shortest=1),
    }
)
HISTORY_ROW = Fields(
    {"member": Whole(), "epoch": COUNT},
    others=Optional(Number(-MAX_HISTORY_NUMBER, MAX_HISTORY_NUMBER)),
)
KNOTS = ListOf(Number(-MAX_LOG_ODDS, MAX_LOG_ODDS), shortest=2, longest=MAX_KNOTS)
AGGREGATOR = Fields(
    {
        "shares": Fields({}, optional=dict.fromkeys(PARTNERS, Number(0, 1))),
        "bin_splits": Whole(1, MAX_BIN_SPLITS),
        "is_lattice": OneOf((False, True)),
        "rows": POSITIVE,
        "calibration": Optional(
            Fields({"before": KNOTS, "after": KNOTS}, optional={"max_tilt": Number(0, 1e3)})
        ),
    },
    optional={"offset": Number(-MAX_TARGET, MAX_TARGET)},
)
NETWORK = Fields({"hidden": COUNTS, "members": COUNT, "embedded": ListOf(Whole())})

# Where it comes from, which older files do not say.

TIME = Text(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
VALUE = Number(-MAX_ABSOLUTE_VALUE, MAX_ABSOLUTE_VALUE)
PROVENANCE = Fields(
    {
        "version": Text(),
        "fitted_at": TIME,
        "target": Optional(Text()),
        "seed": SEED,
        "rows": COUNT,
        "fingerprint": Text(r"[0-9a-f]{64}"),
        "columns": ListOf(
            Fields({"missing": Optional(Whole()), "low": Optional(VALUE), "high": Optional(VALUE)})
        ),
        "scores": Fields({}, optional=dict.fromkeys(("mae", "rmse", "crps"), NOT_NEGATIVE)),
    },
    optional={"folds": Text()},
)

FIELDS_OF_BOTH: dict[str, Rule] = {
    "class": Text(),
    "range": RANGE,
    "epochs": Whole(),
    "history": ListOf(HISTORY_ROW),
    "columns": COLUMNS,
}
HEADERS = {
    "NeuralRegressor": Fields(
        FIELDS_OF_BOTH | {"parameters": Fields(NEURAL_PARAMETERS)},
        optional={"provenance": PROVENANCE},
    ),
    "HistogramRegressor": Fields(
        FIELDS_OF_BOTH
        | {
            "parameters": Fields(HISTOGRAM_PARAMETERS),
            "network": NETWORK,
            "bias": ListOf(Number(0, MAX_TARGET), shortest=2, longest=2),
            "aggregator": Optional(AGGREGATOR),
            "trees": OneOf((False, True)),
            "gaussian_process": OneOf((False, True)),
        },
        optional={"blur": POSITIVE, "provenance": PROVENANCE},
    ),
}
