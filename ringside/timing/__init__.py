"""The clock: machine models, the engine, replays, and the timelines that come of them."""
