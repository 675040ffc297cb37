"""Stand-in for `pulumi-resource-gcp`: Pulumi's provider protocol translated to Google's HTTP API.

Owns the checks, diffs, outputs and error texts of the real provider for the resource types in
`resources/`, and the requests that the real provider sends. Does not own any cloud behaviour:
it talks to whatever base URLs the provider configuration names, as the real plug-in does
[facts google-cloud.md §9, real-provider.md].
"""
