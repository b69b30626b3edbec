"""Networks and their training: objectives, stacks of members, optimizers, the training loop."""
