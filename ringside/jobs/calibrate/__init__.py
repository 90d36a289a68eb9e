"""Machine models from measurements, and what they predict."""
