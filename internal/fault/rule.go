package fault

import (
	"net/http"
)

// A Rule says what a kind means for those who must react to it. Whoever decides
// something by the kind of an error reads it here.
type Rule struct {
	Code string // machine-readable word, part of the interface
	RPC  int    // JSON-RPC code when the failure is answered as a protocol error
	HTTP int    // status of the REST interface
	Hint string // what the reader of the message should know or do next

	Executed Executed // whether the upstream may have executed the call
	Later    bool     // the same call can succeed later, without anybody mending anything
	Retry    Retry    // whether we repeat the call, where that does no harm
	Fallback bool     // whether another tool may stand in, where that does no harm
	Breaker  Breaker  // what it says about the health of the tool
}

// Executed is whether an upstream may have executed a call that failed.
type Executed uint8

// What is known about the execution of a call.
const (
	Never   Executed = iota // it was not, or the upstream says that it was not
	Perhaps                 // nobody knows: repeating it may do it twice
)

// Retry is whether and how a failed call is repeated. One that was perhaps executed is
// repeated only if executing it twice does no harm.
type Retry uint8

// The ways to repeat a call.
const (
	RetryNot   Retry = iota // repeating cannot help, or must be decided by the client
	RetryAnew               // on a new connection, as often as is configured
	RetryLater              // when the upstream wants it, as often as is configured
	RetryOnce               // one time, since the call may be what breaks the server
)

// Breaker is what a failure says about the health of a tool.
type Breaker uint8

// What a circuit breaker makes of a failure.
const (
	BreakerIgnores Breaker = iota // it says nothing: the server was not asked, or the caller went away
	BreakerWorks                  // the server answered
	BreakerAway                   // the server could not be reached
	BreakerFails                  // the server could not be used
	BreakerBreaks                 // the same, and the call may be what breaks the server
)

// rules is the one table of kinds. A kind that was perhaps executed never falls back
// or is repeated without the tool being safe to repeat; see Error.MayRepeat.
var rules = [...]Rule{
	Internal: {
		Code: "internal", RPC: -32603, HTTP: http.StatusInternalServerError,
		Hint:     "this is a defect of the aggregator; its log says more",
		Executed: Perhaps,
	},
	Cancelled: {
		Code: "cancelled", RPC: -32603, HTTP: 499,
		Hint:     "the call was cancelled",
		Executed: Perhaps,
	},
	Timeout: {
		Code: "timeout", RPC: -32603, HTTP: http.StatusGatewayTimeout,
		Hint:     "try a smaller request or raise call_timeout",
		Executed: Perhaps, Breaker: BreakerFails,
	},
	Unreachable: {
		Code: "unreachable", RPC: -32603, HTTP: http.StatusServiceUnavailable,
		Hint:     "the server has not seen the call",
		Executed: Never, Later: true, Retry: RetryAnew, Fallback: true, Breaker: BreakerAway,
	},
	Lost: {
		Code: "lost", RPC: -32603, HTTP: http.StatusBadGateway,
		Hint:     "the call may have been executed; check before repeating it",
		Executed: Perhaps, Later: true, Retry: RetryOnce, Fallback: true, Breaker: BreakerBreaks,
	},
	Protocol: {
		Code: "protocol", RPC: -32603, HTTP: http.StatusBadGateway,
		Hint:     "the server answered something that is not MCP; the call may have been executed",
		Executed: Perhaps, Breaker: BreakerFails,
	},
	Rejected: {
		Code: "rejected", RPC: -32603, HTTP: http.StatusBadGateway,
		Hint:     "the server refused the call",
		Executed: Perhaps, Breaker: BreakerWorks,
	},
	RateLimited: {
		Code: "rate_limited", RPC: -32603, HTTP: http.StatusTooManyRequests,
		Hint:     "the call was not executed",
		Executed: Never, Later: true, Retry: RetryLater, Fallback: true,
	},
	Unauthorized: {
		Code: "unauthorized", RPC: -32603, HTTP: http.StatusBadGateway,
		Hint:     "the server wants other credentials; check its headers or bearer_token",
		Executed: Never,
	},
	Denied: {
		Code: "denied", RPC: -32603, HTTP: http.StatusForbidden,
		Hint:     "ask for a grant",
		Executed: Never,
	},
	NotFound: {
		Code: "not_found", RPC: -32602, HTTP: http.StatusNotFound,
		Hint:     "list what is available",
		Executed: Never,
	},
	Overloaded: {
		Code: "overloaded", RPC: -32603, HTTP: http.StatusServiceUnavailable,
		Hint:     "the call was not executed",
		Executed: Never, Later: true, Fallback: true,
	},
	CircuitOpen: {
		Code: "circuit_open", RPC: -32603, HTTP: http.StatusServiceUnavailable,
		Hint:     "the tool failed repeatedly and rests; the call was not executed",
		Executed: Never, Later: true, Fallback: true,
	},
	ShuttingDown: {
		Code: "shutting_down", RPC: -32603, HTTP: http.StatusServiceUnavailable,
		Hint:     "connect again",
		Executed: Never, Later: true,
	},
	TooLarge: {
		Code: "too_large", RPC: -32603, HTTP: http.StatusBadGateway,
		Hint:     "the call was executed",
		Executed: Perhaps, Breaker: BreakerWorks,
	},
}

// Kinds lists the kinds.
func Kinds() []Kind {
	kinds := make([]Kind, len(rules))
	for i := range rules {
		kinds[i] = Kind(i)
	}
	return kinds
}

// Rule returns what the kind means.
func (k Kind) Rule() Rule {
	if int(k) >= len(rules) {
		k = Internal
	}
	return rules[k]
}

// String returns the kind's code word.
func (k Kind) String() string { return k.Rule().Code }

// Retryable reports whether repeating the call later can succeed and cannot execute
// it twice.
func (r Rule) Retryable() bool { return r.Later && r.Executed == Never }
