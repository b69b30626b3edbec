"""What the records of finished runs show: tables, figures, verdicts on claims, and one page."""
