import pytest

from softbins.nn.stack import StackedMLP


@pytest.mark.parametrize("dropout", [1.0, -0.1, 2.0])
def test_a_wrong_dropout_is_named(dropout):
    with pytest.raises(ValueError, match="^dropout: "):
        StackedMLP(3, (4,), 1, [0], dropout=dropout)
