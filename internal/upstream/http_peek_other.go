//go:build !unix

package upstream

// peek cannot look ahead here; a request that crosses the server's closing of the
// connection counts as lost.
func peek(uintptr, []byte) (closed bool) { return false }
