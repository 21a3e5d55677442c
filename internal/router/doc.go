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
// goroutine from end to end, with two exceptions. What a legacy server asks a legacy
// client is waited for on a goroutine of its own, which ends before the call does. And
// a call of a modern client whose server may ask it something runs on a goroutine that
// can outlive the client's request (see parked); Close ends those that are left.
package router
