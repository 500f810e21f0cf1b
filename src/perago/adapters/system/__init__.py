"""The machine itself: its clock, its chance, its event loop."""
