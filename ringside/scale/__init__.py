"""Traces of hundreds of ranks, taken on fake tensors in one process."""
