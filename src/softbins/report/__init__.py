"""How good a model or a method is on rows that it has not seen, as scores and as HTML pages."""
