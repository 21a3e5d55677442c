// Package breaker keeps calls away from tools that keep failing: one circuit breaker
// for each tool of each server.
//
// The state machine is sony/gobreaker's. A circuit exists only from the first failure
// of a tool until it works again, so one that never failed costs its calls a look at
// a number (or at a map, while others fail), and what a circuit remembers is bounded
// by what is broken. gobreaker's settings are those it was made with; so that they
// can change without a state being lost, and so that a breaker can become half-open
// before its time, a circuit that opens is always made anew.
//
// Concurrency: a Set is safe for concurrent use and starts no goroutines. The hook for
// changes runs on the goroutine that caused the change, with no lock held.
package breaker
