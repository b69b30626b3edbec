"""The commands, one module each. What loads torch is imported inside of functions."""
