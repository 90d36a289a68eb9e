"""PrairieLearn: a question, and what its external grader runs."""
