"""The instructor's side: from a submission to the gradebook, trusted all the way."""
