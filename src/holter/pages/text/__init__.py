"""Sections of text and tables that pages and the report show."""
