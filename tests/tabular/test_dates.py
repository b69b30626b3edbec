"""Dates, times and durations in frames of any kind: what they become, in training and later."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from softbins import HistogramRegressor, NeuralRegressor, load
from softbins.tabular.columns import Columns
from softbins.tabular.dates import calendar, clock_text, iso_text, moment_text
from softbins.tabular.time_zones import seconds_ahead, time_zone, zone_name
from tests.tabular.test_frames import FRAMES, make_frame

QUICK = {"hidden": (16,), "max_epochs": 5, "random_state": 0}
TABULAR = QUICK | {"members": 2, "trees": False}
BERLIN = "Europe/Berlin"
START = dt.datetime(2024, 2, 28, 22, 30)
HOURS = [START + dt.timedelta(hours=7 * i) for i in range(60)]
AWARE = [hour.replace(tzinfo=dt.UTC) for hour in HOURS]

# Values of a column that may have a gap at the end, its kind, and its features.
PARTS = ["weekday", "hour"]
KINDS = {
    "dates": ([hour.date() for hour in HOURS], "date", ["elapsed_days", "weekday"]),
    "datetimes": (HOURS, "date", ["elapsed_days", *PARTS]),
    "with a zone": (AWARE, "date", ["elapsed_days", *PARTS]),
    "times": ([hour.time() for hour in HOURS], "time", ["value"]),
    "durations": ([hour - START for hour in HOURS], "duration", ["value"]),
    "text": ([f"{hour:%d.%m.%Y %H:%M}" for hour in HOURS], "date", ["elapsed_days", *PARTS]),
    "text with a zone": ([hour.isoformat() for hour in AWARE], "date", ["elapsed_days", *PARTS]),
    "text of times": ([f"{hour:%H:%M}" for hour in HOURS], "time", ["value"]),
}


def columns_of(x):
    """Learned columns, and the same after a file."""
    columns = Columns.fit(x)
    assert Columns.from_json(json.loads(json.dumps(columns.to_json()))) == columns
    return columns


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("case", KINDS)
@pytest.mark.parametrize("gap", [False, True])
def test_every_kind_of_frame_gives_the_same_features(frame, case, gap):
    values, kind, contents = KINDS[case]
    values = [*values[:-1], None] if gap else values
    columns = columns_of(make_frame(frame, {"x": values}))
    assert columns.kinds == [kind]
    found = [feature.content for feature in columns.encoded_features]
    assert found == contents + ["is_missing"] * gap
    features = columns.transform(make_frame(frame, {"x": values}))
    assert np.isfinite(features).all()
    assert columns == Columns.fit(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    if gap:
        assert features[:, -1].tolist() == [0.0] * 59 + [1.0]
        gaps = columns.transform(make_frame(frame, {"x": [None, None]}))
        np.testing.assert_array_equal(gaps, features[[-1, -1]])


def test_parts_are_those_of_the_calendar():
    moments = pd.DatetimeIndex(["1969-12-31 23:45", "2000-02-29 00:00", "2024-06-15 13:30"])
    found = calendar(moments.astype("M8[s]").astype("int64").to_numpy(float), None)
    assert found["month"].tolist() == moments.month.tolist()
    assert found["day"].tolist() == moments.day.tolist()
    assert found["weekday"].tolist() == moments.day_of_week.tolist()
    assert found["hour"].tolist() == [23.75, 0.0, 13.5]


# The parts of some days, which vary and have time to come again.
SPANS = {
    "one day": (["2024-01-01"] * 2, []),
    "a week": (["2024-01-01", "2024-01-08"], []),
    "more than a week": (["2024-01-01", "2024-01-09"], ["weekday"]),
    "two months": (["2024-01-01", "2024-03-09"], ["day", "weekday"]),
    "years": (["2024-01-01", "2025-01-01", "2026-01-01"], ["weekday"]),
    "all": (["2024-01-01", "2025-02-03 10:00"], ["month", "day", "hour"]),
}


@pytest.mark.parametrize("case", SPANS)
def test_parts_are_those_that_come_again(case):
    days, parts = SPANS[case]
    x = pd.DataFrame({"x": pd.to_datetime(days, format="ISO8601")})
    features = [feature.content for feature in columns_of(x).encoded_features]
    assert features == ["elapsed_days", *parts]


def test_an_hour_is_that_of_the_zone_and_moments_are_the_same_in_all():
    """From 1:30 UTC on, the last Sunday of March, clocks in Berlin are two hours ahead of UTC."""
    utc = pd.date_range("2024-03-31 00:30", periods=26, freq="h", tz="UTC")
    columns = columns_of(pd.DataFrame({"x": utc.tz_convert(BERLIN)}))
    features = columns.transform(pd.DataFrame({"x": utc.tz_convert(BERLIN)}))
    assert features[:4, 1].tolist() == [1.5, 3.5, 4.5, 5.5]
    for other in (utc, utc.tz_convert("Asia/Tokyo"), [f"{moment}" for moment in utc]):
        np.testing.assert_array_equal(columns.transform(pd.DataFrame({"x": other})), features)


MIXED = {
    "objects": pd.Series([HOURS[0], AWARE[1]], dtype=object),
    "text": ["2024-01-01", "2024-01-01T10:00Z"],
    "dates and times": pd.Series([HOURS[0], dt.time(1)], dtype=object),
    "dates and numbers": pd.Series([HOURS[0], 3], dtype=object),
}


@pytest.mark.parametrize("case", MIXED)
def test_what_cannot_be_mixed_is_refused(case):
    with pytest.raises(
        ValueError, match="^X: column 'x': (some dates have a zone|holds .* need one)"
    ):
        Columns.fit(pd.DataFrame({"x": MIXED[case]}))


# What was learned from, what comes at prediction, and what is said about it.
CHANGES = {
    "a zone for none": (HOURS, AWARE, "dates have a zone, where training had none"),
    "none for a zone": (AWARE, HOURS, "dates have no zone, where training had one"),
    "numbers for dates": (HOURS, [1.0], "holds no dates, where training had some"),
    "numbers for times": ([hour.time() for hour in HOURS], [1.0], "holds no times, where"),
    "times for dates": (HOURS, [dt.time(1)], "holds no dates, where training had some"),
    "words for dates": (HOURS, ["2024-01-01", "soon"], ", row 1 (from 0): 'soon' is no date as in"),
    "another format": (["31.12.2024"], ["12/31/2024"], "training, which had day.month.year"),
    "dates for durations": ([dt.timedelta(1)], HOURS, "holds dates, where training had durations"),
    "dates for truth": ([True, False], HOURS, "holds dates, where training had booleans"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_is_not_as_in_training_is_refused(case):
    learned, given, complaint = CHANGES[case]
    columns = Columns.fit(pd.DataFrame({"x": pd.Series(learned, dtype=object)}))
    with pytest.raises(ValueError, match="^X: column 'x'") as caught:
        columns.transform(pd.DataFrame({"x": pd.Series(given, dtype=object)}))
    assert complaint in str(caught.value)


def test_text_dates_and_objects_are_the_same_at_prediction():
    text = pd.DataFrame({"x": [f"{hour:%d.%m.%Y %H:%M}" for hour in HOURS]})
    columns = Columns.fit(text)
    expected = columns.transform(text)
    for same in (HOURS, [str(hour) for hour in HOURS], np.array(HOURS, "M8[ns]")):
        np.testing.assert_array_equal(columns.transform(pd.DataFrame({"x": same})), expected)
    np.testing.assert_array_equal(columns.transform(np.array(HOURS, object)[:, None]), expected)
    np.testing.assert_array_equal(columns.transform(pl.DataFrame({"x": HOURS})), expected)


def test_a_duration_may_come_in_seconds():
    columns = Columns.fit(pd.DataFrame({"x": pd.to_timedelta([1, 2, 3], unit="min")}))
    assert columns.transform(pd.DataFrame({"x": [90.0, 60]})).tolist() == [[90.0], [60.0]]


def test_doubtful_text_names_the_way_out():
    x = pd.DataFrame({"x": [None, "01/02/2024", "03/04/2024"]})
    with pytest.raises(ValueError, match=r"column 'x', row [12] \(from 0\): '0.*categorical_feat"):
        Columns.fit(x)
    assert Columns.fit(x, ["x"]).kinds == ["category"]


def test_lists_of_categories_leave_dates_what_they_are():
    x = pd.DataFrame({"d": HOURS, "t": [str(hour) for hour in HOURS], "c": "a"})
    assert Columns.fit(x, ["c"]).kinds == ["date", "date", "category"]
    with pytest.raises(ValueError, match="^categorical_features: column 'd' holds dates"):
        Columns.fit(x, ["d"])


ESTIMATORS = {
    "networks": HistogramRegressor(**TABULAR),
    "trees": HistogramRegressor(**TABULAR | {"trees": True, "max_epochs": 2}),
    "l2": NeuralRegressor("l2", **QUICK | {"max_epochs": 200}),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_is_extrapolated(name):
    """A trend ends where the training rows end: ten years later counts as the last day."""
    days = pd.date_range("2022-01-01", periods=120, freq="7D")
    y = np.arange(120.0)
    model = clone(ESTIMATORS[name]).fit(pd.DataFrame({"day": days}), y)
    for shift in (pd.DateOffset(years=10), pd.DateOffset(years=7000), -pd.DateOffset(years=10)):
        later = pd.DataFrame({"day": (days.astype("M8[s]") + shift)})
        predicted = model.predict(later)
        assert np.isfinite(predicted).all()
        assert predicted.min() > y.min() - 60
        assert predicted.max() < y.max() + 60


@pytest.mark.parametrize("name", ["networks", "l2"])
def test_a_file_has_all_of_it(tmp_path, name):
    x = pd.DataFrame({case: values for case, (values, _, _) in KINDS.items()})
    x["day in Berlin"] = pd.DatetimeIndex(AWARE).tz_convert(BERLIN)
    x.loc[3] = None
    model = clone(ESTIMATORS[name]).fit(x, np.arange(60.0))
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert (again.columns_, again.provenance_) == (model.columns_, model.provenance_)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    about = {column.name: column for column in model.provenance_.columns}
    assert about["dates"].low == "2024-02-28"
    assert about["dates"].remark == "as elapsed days, weekday"
    assert about["day in Berlin"].low == "2024-02-28 23:30"
    assert about["day in Berlin"].remark.endswith("hour (Europe/Berlin)")
    assert (about["durations"].high, about["durations"].missing) == (7 * 59 * 3600, 1)
    assert "as elapsed days, weekday, hour" in model.card()


def test_onnx_refuses_dates(tmp_path):
    model = clone(ESTIMATORS["l2"]).fit(pd.DataFrame({"day": HOURS}), np.arange(60.0))
    with pytest.raises(
        ValueError, match="^column 'day': holds dates, which ONNX cannot take apart"
    ):
        model.to_onnx(tmp_path / "m.onnx", quantiles=None, coverage=None)


def test_a_cell_of_an_explanation_is_the_date():
    pytest.importorskip("shap")
    x = pd.DataFrame({"day": HOURS, "n": np.arange(60.0)})
    model = clone(ESTIMATORS["l2"]).fit(x, np.arange(60.0))
    found = model.explain(x[:2])
    assert "day = 2024-02-28 22:30" in found.to_text()
    np.testing.assert_allclose(found.base_mean + found.mean.sum(1), model.predict(x[:2]), rtol=1e-6)


def test_zones_by_name():
    assert time_zone("UTC+05:30").utcoffset(None) == dt.timedelta(hours=5.5)
    assert time_zone("-02:00").utcoffset(None) == dt.timedelta(hours=-2)
    for unknown in ("Nowhere/Nothing", "../etc", "Europe", ""):
        with pytest.raises(ValueError, match="^zone: none is known as"):
            time_zone(unknown)
        assert zone_name(unknown) == "UTC"
    moments = np.array([0.0, 1720000000.0])
    assert seconds_ahead(moments, BERLIN).tolist() == [3600.0, 7200.0]


def test_moments_as_people_write_them():
    assert moment_text(0.0) == "1970-01-01"
    assert moment_text(45.0 * 60) == "1970-01-01 00:45"
    assert moment_text(1.0, BERLIN) == "1970-01-01 01:00:01"
    assert iso_text(1720000000.0, BERLIN) == "2024-07-03T11:46:40+02:00"
    assert iso_text(-60.0, None) == "1969-12-31T23:59"
    assert (clock_text(45_000), clock_text(45_001)) == ("12:30", "12:30:01")


def test_empty_text_is_a_gap_and_complaints_name_the_first_row():
    columns = Columns.fit(pd.DataFrame({"x": ["2024-01-01", "", "NA", "2024-03-05"]}))
    assert columns.transform(pd.DataFrame({"x": ["", "NA"]}))[:, -1].tolist() == [1.0, 1.0]
    for cells in (["soon", "later", "never"], ["", "later", "soon", "never"]):
        row = cells.index(next(filter(None, cells)))
        with pytest.raises(ValueError, match=rf"row {row} \(from 0\)"):
            columns.transform(pd.DataFrame({"x": cells}))
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): '03/04/2024' may be"):
        Columns.fit(pd.DataFrame({"x": ["03/04/2024", "01/02/2024", "05/06/2024"]}))
