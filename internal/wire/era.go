package wire

import "slices"

// Era is a family of protocol revisions that work alike.
type Era uint8

const (
	// Legacy revisions (2024-11-05 to 2025-11-25) begin with an initialize
	// handshake and keep a session.
	Legacy Era = iota
	// Modern revisions (2026-07-28) are stateless: each request carries its
	// version and the client's capabilities in _meta.
	Modern
)

func (e Era) String() string {
	if e == Modern {
		return "modern"
	}
	return "legacy"
}

// Protocol revisions.
const (
	V20241105 = "2024-11-05"
	V20250326 = "2025-03-26"
	V20250618 = "2025-06-18"
	V20251125 = "2025-11-25"
	V20260728 = "2026-07-28"
)

// LegacyVersions are the revisions negotiated by initialize, newest first.
var LegacyVersions = []string{V20251125, V20250618, V20250326, V20241105}

// ModernVersions are the stateless revisions, newest first.
var ModernVersions = []string{V20260728}

// EraOf returns the era of a revision, and false for one we do not know.
func EraOf(version string) (Era, bool) {
	if slices.Contains(ModernVersions, version) {
		return Modern, true
	}
	return Legacy, slices.Contains(LegacyVersions, version)
}

// Keys of _meta that belong to one hop and never travel further (specification
// 2026-07-28, basic: _meta).
const (
	MetaVersion        = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo     = "io.modelcontextprotocol/clientInfo"
	MetaClientCaps     = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel       = "io.modelcontextprotocol/logLevel"
	MetaServerInfo     = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
)
