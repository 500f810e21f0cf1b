"""Workers: who runs task bodies, keeps leases, and asks for the next attempt."""
