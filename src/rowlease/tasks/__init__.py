"""Tasks, their parameters, and the requests for them."""
