"""Measured speedup: a submission against the reference, on real ranks, in turns."""
