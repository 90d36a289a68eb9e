"""The hidden suite of a09_pipeline."""
