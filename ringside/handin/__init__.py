"""Handing an assignment in."""
