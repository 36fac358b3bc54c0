// The cluster's name server: CoreDNS with the few plugins that names of Services and Pods need.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func init() {
	// The order in which a query passes through them.
	dnsserver.Directives = []string{"errors", "cache", "hosts", "kubernetes"}
}

func main() { coremain.Run() }
