"""The processes that run a student's code: forked, confined, and called once."""
