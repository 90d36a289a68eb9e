"""What authors of assignments and courses use: new ones, their verification, the demonstration."""
