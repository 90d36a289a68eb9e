"""The course around the toolkit: predictions, lectures, the handout, the hand-in, the term."""
