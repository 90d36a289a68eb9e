"""What a student handed in, and when: quarantined, rebuilt, dated."""
