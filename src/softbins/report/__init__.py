"""What a model is worth, as scores and as pages."""
