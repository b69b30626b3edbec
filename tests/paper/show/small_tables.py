"""A table of one row, a printed result and a short scale, for tests of the formats."""

from dataclasses import replace

from softbins.paper.run.plan import Scale
from softbins.paper.show.published import PrintedNumber
from softbins.paper.show.tables import Row, Table

SHORT = Scale("short", 0.01, 2, 500, full_grids=False)
PRINTED_L2 = PrintedNumber(28.9984, 0.5244, "2899.84 ± 52.44")


def small_table(*cells, **changes):
    """One row with a cell for each column."""
    columns = {f"c{i}": f"Column {i}" for i in range(len(cells))}
    row = Row(("l2",), dict(zip(columns, cells, strict=True)), "l2")
    made = Table("table", "Bike Sharing", "bike", "short", ("Method",), columns, (row,))
    return replace(made, **changes)
