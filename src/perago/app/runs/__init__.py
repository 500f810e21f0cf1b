"""Workflows as transactions: the tasks that every worker serves itself."""
