"""The bridge into nbgrader's own commands and its gradebook."""
