"""Start, half-way mixture and learned target on the same inner folds: which rule never loses to the start."""
