"""What a course is: its folder, its assignments, limits, secret and people."""
