"""The hidden suite of a08_tensor_parallel."""
