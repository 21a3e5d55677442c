// Command mcp-aggregator makes many MCP servers one: it connects to the servers of a
// configuration and serves all their tools, prompts and resources at a single endpoint.
package main

import (
	"os"

	"mcp-aggregator/internal/upstream"
)

func main() {
	upstream.RunKeeper()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
