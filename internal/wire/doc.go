// Package wire reads and writes JSON-RPC 2.0 and MCP messages as bytes.
//
// A proxy must not understand what it carries. Scan validates a message in one
// pass and notes where the envelope's members and the members of its params or
// result lie; nothing is decoded. What has to change on the way is written as
// edits of a [Value], applied while the outgoing message is composed. Everything
// else leaves as the bytes it arrived in, so key order, number precision, unknown
// fields and explicit null, false and "" survive.
//
// The package also holds the Server-Sent Events framing of the HTTP transports
// and the constants of the two protocol eras.
package wire
