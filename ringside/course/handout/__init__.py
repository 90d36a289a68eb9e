"""The tree that students get: laid out, described, and brought up to date."""
