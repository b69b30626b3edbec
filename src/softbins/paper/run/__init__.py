"""The paper's experiments: what to run, running it, and the store of finished runs."""
