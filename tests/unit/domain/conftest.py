"""How much chance the properties of the domain get: enough to find, little enough to stay fast."""

from hypothesis import settings

settings.register_profile("domain", max_examples=60, deadline=None, database=None)
settings.load_profile("domain")
