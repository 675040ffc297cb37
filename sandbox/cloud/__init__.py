"""Google Cloud's HTTP API as far as the program, gcloud and the provider plug-in use it."""
