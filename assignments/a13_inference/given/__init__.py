"""What is given: read it, and import from it."""
