"""Views: functions that turn an opened trial into plain data, without layout."""
