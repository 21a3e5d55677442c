package builtin

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newEverything makes the demo server that has one of everything the protocol knows.
func newEverything() *mcp.Server {
	c := &counter{}
	s := mcp.NewServer(&mcp.Implementation{
		Name:        "everything",
		Title:       "Everything",
		Description: "One of everything the Model Context Protocol knows",
		Version:     version,
	}, &mcp.ServerOptions{
		Instructions: "Demonstrates every feature of the protocol. Start with echo and add; " +
			"long_running reports progress, ask_user and sample need a client that can be asked.",
		CompletionHandler:  complete,
		SubscribeHandler:   c.subscribe,
		UnsubscribeHandler: c.unsubscribe,
	})
	c.server = s
	addContentTools(s)
	addRunningTools(s)
	addAskingTools(s)
	addDemoResources(s, c)
	addDemoPrompts(s)
	return s
}
