"""The only door to a model: a local server that speaks the Messages API."""
