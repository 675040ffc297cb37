"""Google Cloud's HTTP API as far as the program, gcloud and the provider plug-in use it.

One module per resource kind: `networks`, `subnetworks`, `firewalls`, `routes`, `regions` (with
zones, machine types, quotas), `resource_policies`, `instances`, `services`, `projects`, `clusters`
(with `cluster_checks`, `cluster_versions`, `cluster_networking`, `cluster_shape`,
`cluster_updates`), and the operations of Compute and GKE. Below them `compute` (what Compute
resources share), `operations`, `faults`, `listing`, `payload`, `links`, `errors`, `pacing`,
`catalog`, `store`; above them `app`, `gate`, `batch`, `admin`, and `view` for the clusters.

Decisions where the facts leave room:

- Every well-formed project id exists; its number follows from the id.
- Compute and GKE are off in a new project. Enabling Compute makes the `default` network, except for
  S3NS projects (`s3ns:NAME`) and where the admin namespace says otherwise.
- Limits: 50 networks, 64 GPUs of each family and region, 8 machines of each A3 type in a zone that
  has it; the admin namespace changes all of them.
- A resource that is being created conflicts with others and cannot be read or used yet.

Citations name a facts sheet and its section. `[K]` marks what is general knowledge and not
verified, `[R]` what was recorded from real traffic.
"""
