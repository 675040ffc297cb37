// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider plug-in. The provider's own main
// package embeds files that its build makes from the schema; here they are copied from the module
// beside this file before the build.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema-embed.json
var schema []byte

//go:embed terraform-mapping-embed.json
var terraformMapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, terraformMapping)
}
