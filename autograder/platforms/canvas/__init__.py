"""Canvas: its list of submissions, and its gradebook's file."""
