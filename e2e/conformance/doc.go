// Package conformance runs the official conformance suite through the built
// aggregator, in front of the Go SDK's server for that suite and behind the Go
// SDK's client for it. The tests carry the build tag e2e; expected.txt lists the
// scenarios that are known to fail.
package conformance
