// Package telemetry keeps what people and machines watch: numbers for Prometheus, the
// warnings of the moment and the events of the last while. It knows nothing of the
// rest of the program; what is only known elsewhere is sampled when somebody asks.
//
// Concurrency: everything may be used from any goroutine. Metrics.Call, Retry,
// RateLimited, Transition and QueueWait are for the path of a call: they take a read
// lock for the time of a map lookup, allocate nothing once a name has been seen, and
// never wait for a scrape. The functions of Sources run on the goroutine of the
// scrape; they must not wait.
//
// Labels hold names only, never arguments, addresses or errors, and their number is
// bounded: what a server makes up cannot grow memory.
package telemetry
