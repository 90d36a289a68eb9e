"""What is supplied: the network, the data, and the loop around your modules. Nothing to write."""
