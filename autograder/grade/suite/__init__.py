"""One module's hidden suite, run over one submission."""
