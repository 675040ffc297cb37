"""Field names, types and enums of the Google APIs, one `.json` file per API."""
