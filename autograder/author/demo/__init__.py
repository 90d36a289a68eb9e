"""A class that shows the whole way from hand-in to gradebook: ``autograder demo``."""
