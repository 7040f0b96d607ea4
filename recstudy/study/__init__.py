"""A study as data, and the driver that turns it into records on Ray."""
