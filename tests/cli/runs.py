"""Commands that run inside the tests, and the tables that they read."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from click.testing import CliRunner

from softbins.cli.program import main

WHERE = ["fit", "data.csv", "--target", "y", "-o", "new.model"]
QUICK = ["--epochs", "3", "--hidden", "8", "--bins", "20"]
FIT = [*WHERE, *QUICK, "--members", "2", "--no-trees"]
PAPER = [*WHERE, *QUICK, "--plain"]
PAGE = ["--page", "p.html"]


def table(rows=60):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(rows, 2)), columns=["width", "height"])
    return frame.assign(y=2 * frame["width"] + frame["height"])


def houses(rows=40):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(size=rows).round(3).astype(str)})
    frame.loc[3, "size"], frame.loc[5, "size"] = "", "NA"
    frame["code"] = ["1.50", "y", "x"] * (rows // 3) + ["x"] * (rows % 3)
    frame["sold"], frame["garden"] = [True, False] * (rows // 2), ["true", "", "false", "true"] * 10
    frame["town"], frame["nothing"] = ["Aa", "", "Bö", "NA"] * (rows // 4), ""
    return frame.assign(y=random.normal(size=rows))


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def succeeds(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def parquet(table):
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer)
    return buffer.getvalue()
