"""The checked-in list of the SDKs' names is that of the installed SDKs."""

import sdk_names


def test_the_list_is_that_of_the_installed_sdks():
    assert sdk_names.FILE.read_text() == sdk_names.text(), "run `python sdk_names.py --write`, then decide about new names"
