"""A class graded by Slurm job arrays."""
