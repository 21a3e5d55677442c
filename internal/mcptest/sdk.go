package mcptest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ConnectSDK joins a client of the official SDK to a server of it, in memory.
// Closing the session ends both.
func ConnectSDK(ctx context.Context, server *mcp.Server, opts *mcp.ClientOptions) (*mcp.ClientSession, error) {
	near, far := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, far, nil); err != nil {
		return nil, fmt.Errorf("connecting the server: %w", err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "mcptest", Version: "1"}, opts)
	return client.Connect(ctx, near, nil)
}

// ServeSDK is a server of the official SDK as an HTTP endpoint: with sessions it
// speaks the legacy era, stateless both.
func ServeSDK(server *mcp.Server, stateless bool) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: stateless})
}
