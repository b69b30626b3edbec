"""Warnings name the line of the user's code, however deep in the library they come from."""

import warnings

from softbins._core.warnings import warn_user


def test_a_warning_points_to_the_line_outside_of_the_library():
    # As if this function were one of the library's.
    run = {"__name__": "softbins.somewhere", "warn_user": warn_user}
    exec(
        "def from_inside(depth):\n"
        "    from_inside(depth - 1) if depth else warn_user('something is odd')",
        run,
    )
    for depth in (0, 3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run["from_inside"](depth)
        assert [warning.filename for warning in caught] == [__file__]
        assert str(caught[0].message) == "something is odd"
