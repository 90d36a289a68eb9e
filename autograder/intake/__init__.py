"""What learning platforms give for a class, taken as it comes."""
