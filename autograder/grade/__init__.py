"""From a submission to its stored result."""
