// Package admin is the HTTP side for people, probes and commands: health, metrics,
// the state of every server, and what can be done about it. It decides nothing; it
// asks and tells the rest of the program through the functions of Actions.
//
// Everything but health checks wants the token, if there is one. Requests that a web
// page may have caused are refused whether there is a token or not (guard.go). No
// answer holds a secret: configurations are shown redacted, and errors are the
// sentences that upstream and config made for people.
//
// Concurrency: the handler keeps no state but the number of open event streams. The
// functions of Actions run on the goroutine of the request, several at the same time.
package admin
