"""The command line and the notebook magics."""
