"""The hidden suite of a05_ddp."""
