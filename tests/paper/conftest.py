import pytest

from softbins.paper.run.plan import Scale
from softbins.paper.run.store import Store

# The whole pipeline in seconds: few rows, few epochs.
TINY = Scale("tiny", epoch_share=0.008, n_seeds=2, max_rows=1500, full_grids=False)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def scale():
    return TINY
