"""What works on this machine and on a cluster, and how to mend what does not."""
