// Package soak runs the built aggregator under sessions that come and go, servers
// that crash and calls, for minutes, and then sees that nothing of it is left. The
// test carries the build tag e2e; make soak runs it, SOAK=short in half a minute.
package soak
