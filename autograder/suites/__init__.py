"""Hidden suites: one folder an assignment, one file a module."""
