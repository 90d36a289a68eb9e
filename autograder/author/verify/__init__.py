"""The suites tested: by references, wrong and right submissions, and attacks."""
