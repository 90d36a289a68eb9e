"""Programs on real ranks, here and on clusters: launched, recorded, measured, examined."""
