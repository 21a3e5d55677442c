package catalog

import "mcp-aggregator/internal/config"

// Own is the server that entries of the aggregator itself have. No configured server
// has this name.
const Own = ""

// Ours makes the listing of what the aggregator offers itself: definitions of tools,
// and capabilities as a JSON object, without those that its tools imply.
func Ours(tools [][]byte, capabilities []byte) *Listing {
	server := config.DefaultServer(Own)
	server.Prefix = new("")
	return NewListing(Input{Server: server, Tools: tools, Capabilities: capabilities, Public: true})
}
