"""The network between ranks: frames, matching, counting, deadlocks; and a rank's end of it."""
