"""Hidden suite of a04_data_parallel."""
