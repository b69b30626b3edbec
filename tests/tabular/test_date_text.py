"""Text that is dates: which formats there are, and what is in doubt."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softbins.tabular.date_text import DateTextError, find_format, parse

# Words, their format, and what the first of them means.
FORMATS = {
    "ISO": (["2026-01-31", "2026-2-1"], "year-month-day", datetime(2026, 1, 31)),
    "with a T": (
        ["2026-01-31T12:30", "2026-01-31"],
        "year-month-day",
        datetime(2026, 1, 31, 12, 30),
    ),
    "with seconds": (
        ["2026-01-31 12:30:15.5"],
        "year-month-day",
        datetime(2026, 1, 31, 12, 30, 15, 500000),
    ),
    "UTC": (["2026-01-31T12:30Z"], "year-month-day", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
    "a zone": (
        ["2026-01-31 12:30:00+05:30"],
        "year-month-day",
        datetime(2026, 1, 31, 12, 30, tzinfo=timezone(timedelta(hours=5.5))),
    ),
    "German": (["01.02.2026", "3.4.2026"], "day.month.year", datetime(2026, 2, 1)),
    "British": (["01/02/2026", "31/01/2026"], "day/month/year", datetime(2026, 2, 1)),
    "American": (["01/02/2026", "1/31/2026 1:05 PM"], "month/day/year", datetime(2026, 1, 2)),
    "afternoon": (["1/31/2026 12:05 pm"], "month/day/year", datetime(2026, 1, 31, 12, 5)),
    "dashes": (["31-12-2025", "01-02-2026"], "day-month-year", datetime(2025, 12, 31)),
    "slashes": (["2026/01/31"], "year/month/day", datetime(2026, 1, 31)),
    "the same either way": (["01/01/2026", "02/02/2026"], "day/month/year", datetime(2026, 1, 1)),
    "times": (["12:30", "23:59:59"], "hour:minute", datetime(1970, 1, 1, 12, 30)),
}


@pytest.mark.parametrize("case", FORMATS)
def test_a_format_is_found_and_read(case):
    words, written, first = FORMATS[case]
    assert find_format(words) == written
    moment = parse(words[0], written)
    aware = first if first.tzinfo else first.replace(tzinfo=UTC)
    assert moment.seconds == aware.timestamp()
    offset = None if first.tzinfo is None else first.utcoffset().total_seconds()
    assert moment.offset == offset


NO_DATES = [
    *(["a", "b"], ["1.2.3", "10-12-15"], ["2026"], ["2026-13-01"], ["30.2.2026"], ["25:00"], []),
    *(["2026-01-31"] * 9 + ["x"] * 2, ["12345-01-01"], ["2026-01/31"], ["13:00 pm"]),
]


@pytest.mark.parametrize("words", NO_DATES, ids=str)
def test_other_text_is_none(words):
    assert find_format({word + " " * i for i, word in enumerate(words)}) is None


DOUBTFUL = {
    "either order": (["01/02/2026", "03/04/2026"], "may be 2026-01-02 or 2026-02-01, and no other"),
    "a slip": (
        [f"2026-01-{day:02}" for day in range(1, 21)] + ["soon"],
        "'soon' is no date such as",
    ),
    "two formats": (["2026-01-31", "2026-02-01", "31.01.2026"], "'31.01.2026' is no date such as"),
    "both orders": (["13/01/2026", "01/13/2026", "01/01/2026"], "is no date such as the others"),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_what_is_in_doubt_is_asked_for(case):
    words, complaint = DOUBTFUL[case]
    with pytest.raises(DateTextError) as caught:
        find_format(words)
    assert complaint in str(caught.value)


def test_iso_is_read_whatever_training_had():
    assert parse("2026-02-01", "day.month.year") == parse("1.2.2026", "day.month.year")
    with pytest.raises(DateTextError, match="is no date as in training, which had day.month.year"):
        parse("1/2/2026", "day.month.year")
    with pytest.raises(DateTextError, match="is no time of day"):
        parse("2026-02-01", "hour:minute")


@given(st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.none() | st.just(UTC)))
def test_what_python_writes_is_read(moment):
    expected = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    for word in (str(moment), moment.isoformat()):
        assert find_format([word]) == "year-month-day"
        assert parse(word, "year-month-day").seconds == pytest.approx(expected, abs=1e-4)
