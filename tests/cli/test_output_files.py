"""Places that cannot be written are known before the work."""

import pytest

from softbins.cli.output_files import check_new_file, check_not_an_input


def test_places_that_cannot_be_written_are_known_before(tmp_path, monkeypatch):
    check_new_file(tmp_path / "new.csv")
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        check_new_file(tmp_path)
    with pytest.raises(ValueError, match=r"no folder '.*missing'; make it first"):
        check_new_file(tmp_path / "missing" / "new.csv")
    (tmp_path / "old.csv").touch()
    # Who runs the tests may be allowed everything, so that the answer of the system is given here.
    monkeypatch.setattr("os.access", lambda path, mode: path == tmp_path)
    with pytest.raises(ValueError, match=r"old\.csv' is write-protected"):
        check_new_file(tmp_path / "old.csv")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(ValueError, match="may not write into folder"):
        check_new_file(tmp_path / "new.csv")


def test_an_output_may_not_be_an_input_by_any_name(tmp_path):
    data, link = tmp_path / "data.csv", tmp_path / "link.csv"
    data.touch()
    link.symlink_to(data)
    check_not_an_input(tmp_path / "other.csv", data)
    check_not_an_input("-", data)
    with pytest.raises(ValueError, match="is read as well"):
        check_not_an_input(link, data)
