// Package upstream keeps the connections to the MCP servers behind the aggregator
// and lends them out.
//
// A [Set] holds one owner for each configured server. An owner dials (transport,
// then the handshake that finds out the protocol era), reads the server's lists,
// watches the connection and dials again when it is lost. A [Conn] is one live
// connection, whatever its transport: child process, Streamable HTTP of either era,
// HTTP+SSE, WebSocket, or a server in this process. Requests and results travel
// through it as the bytes they are.
//
// # Concurrency
//
// An owner is one goroutine, and the only writer of its phase:
//
//	idle → dialing → ready → waiting → dialing …, disconnected, closed
//
// What others need to know it publishes as immutable values behind atomic pointers;
// callers wait for it only while a connection may come at any moment. What others
// want of it they leave in flags and orders, and nudge it. Two things have another
// writer beside it, under a lock of their own: the listing, which Apply recomposes
// when only its presentation has changed, and the veil in front of a disabled server.
// Goroutines that read lists, ask probes, follow streams and repeat subscriptions live
// as long as one connection, and the owner waits for them before it lets go of it.
// Transports own their readers, and [Conn.Close] waits for those. [Set.Close] waits
// for everything.
//
// Events and notices are delivered on the reader of a connection: their receivers
// must not block and must not call back into the connection.
//
// # Requests of servers
//
// What a server asks clients (sampling, elicitation, roots) goes to the call that is the
// cause, see [Request] and [Ask], never to several. On the stream of an HTTP call that
// call is known. Elsewhere all calls share one channel, and it is known only while the
// calls that can be the cause are of one session; else the request is refused. So the
// first such request marks its server, and [Set.UseAsking] keeps the sessions of clients
// that can be asked apart from then on. A connection of one session belongs to its client
// outside of calls, too (Options.Ask). Each request has exactly one response, a client's
// or ours, unless the server withdraws it.
package upstream
