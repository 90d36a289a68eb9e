"""Would be run by pytest."""

open("@OUTSIDE@/conftest_was_run", "w").close()


def pytest_runtest_makereport(item, call):
    call.excinfo = None
