"""nbgrader's gradebook, opened and checked, and nbgrader's own steps as a library."""
