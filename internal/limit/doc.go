// Package limit bounds how much is done at once and how often: named queues with a
// number of slots, a token bucket for each server, and a budget for repeated calls.
//
// Concurrency: everything is safe for concurrent use and starts no goroutines; a
// caller waits on its own. Settings can change at any time and take effect at once.
package limit
