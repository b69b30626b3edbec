import numpy as np
import pytest
import torch

from softbins import Bins
from softbins.evaluation import evaluate
from tests.report.small_models import fitted, table, tabular


@pytest.fixture(scope="session")
def models():
    wide = np.concatenate([np.linspace(-10, -1, 5), np.linspace(-0.5, 0.5, 6), [1, 2, 10]])
    return {
        "equal bins": fitted(members=2),
        "unequal bins": fitted(bins=Bins(torch.from_numpy(wide))),
        "mdn": fitted("mdn", early_stopping=False),
        "calibrated": tabular(),
    }


@pytest.fixture(scope="session", params=["equal bins", "unequal bins", "mdn", "calibrated"])
def found(request, models):
    return evaluate(models[request.param], *table(40, seed=1), coverage=0.8)
