"""The same function on real ranks: recorded, watched, measured."""
