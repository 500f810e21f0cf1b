"""The demonstration: one realistic pipeline, three accidents, and what was promised about them."""
