"""What instructors make: the release, the students' tree, new assignments and courses."""
