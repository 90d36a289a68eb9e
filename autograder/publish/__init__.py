"""What students get: the release, the students' tree, and whether its parts fit together."""
