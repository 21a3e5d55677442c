//go:build !unix

package main

// onHangup does nothing: there is no such signal.
func onHangup(_, _ func()) (stop func()) { return func() {} }
