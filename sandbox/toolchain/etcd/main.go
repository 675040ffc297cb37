// Command etcd runs the etcd server. The server module ships no main package of its own that can
// be installed from the module proxy, only the function that one would call.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
