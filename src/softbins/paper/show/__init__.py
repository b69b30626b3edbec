"""The paper's tables, figures, claims and report, made from a store of finished runs."""
