"""Estimators for tables, and everything that serves them."""
