"""The measurements of `benchmarks/on_a_gpu.py`: a module for each section, and the page."""
