"""What students and instructors read of the results."""
