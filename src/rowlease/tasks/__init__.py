"""Tasks and their requests: functions, their parameters, and what is written for them."""
