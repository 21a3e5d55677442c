// Package router is the path of one call, the only place where names, policies,
// connections and eras meet.
//
// A call runs through the stages of one literal list (see stages.go). A stage is a
// function around the next one; it gets the call, may pass a changed copy on, and
// turns what comes back into what its caller should see. All stages are built once;
// what they need of the configuration they read from the generation that the call
// carries, so a change of configuration never rebuilds the chain and a call ends
// under the rules it began with.
//
// Concurrency: a Router is safe for concurrent use. A call runs on its caller's
// goroutine from end to end; the router starts none.
package router
