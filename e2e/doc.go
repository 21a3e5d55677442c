// Package e2e tests the built program as a whole: byte-exactness, completeness,
// bad input, bad servers, and real clients and servers of other authors around
// it. The tests carry the build tag e2e; make e2e builds and installs what they
// need and runs them.
package e2e
