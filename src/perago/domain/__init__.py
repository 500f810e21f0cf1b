"""Pure decisions: frozen values and tables, nothing but the standard library."""
