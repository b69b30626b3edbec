"""What a network sees of a column: the features that it becomes, by name."""

from __future__ import annotations

from typing import Literal, NamedTuple

DatePart = Literal["month", "day", "weekday", "hour"]
Content = Literal[
    "value",
    "is_missing",
    "is_category",
    "is_rare_category",
    "category_frequency",
    "category_mean",
    "category_effect",
    "category_slope",
    "elapsed_days",
    DatePart,
]
Label = str | float


class EncodedFeature(NamedTuple):
    """One feature that a network sees: the column it comes from, and what it says about it.

    `category` is the category that an "is_category" feature stands for, and `along` the column that
    a "category_slope" goes with.
    """

    column: int
    content: Content
    category: Label | None = None
    along: int | None = None
