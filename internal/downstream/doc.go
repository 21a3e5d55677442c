// Package downstream is the face to MCP clients: stdio, Streamable HTTP for both
// protocol eras on one URL, and the older HTTP+SSE transport.
//
// A transport turns what arrives into a [request] and writes the reply; what lies
// between is the same for all of them: one dispatch switch over methods, which
// hands everything that concerns an upstream to the router. The era is chosen per
// message, never per process. A legacy client has a [Session]; over stdio and
// HTTP+SSE that is the connection, over Streamable HTTP an unguessable id. A modern
// client has none: each of its requests stands for itself.
//
// A reply over HTTP is one JSON object, written straight from the upstream's bytes.
// It becomes an event stream when the upstream says something before it answers,
// and not before: the common call costs no goroutine, no timer and no queue.
//
// Requests of upstreams to legacy clients leave through the same streams: each on that of
// the call it belongs to, before its reply, under an id of the session's own. The response
// arrives in [Session.response], by whatever way the transport has for messages of the
// client, and only that of the same session counts. A question to the client ends with
// its call, its stream or its session, and with our stopping; how long a client may think
// is not ours to say.
//
// # Concurrency
//
// Server is safe for concurrent use. It owns one goroutine, the janitor that ends
// idle sessions, and those of the connections it serves: a reader and a writer for
// stdio, one for each call over stdio and HTTP+SSE, one writer for each POST that
// became an event stream. Whoever starts one waits for it; Close waits for all.
//
// What is sent to a client goes through its [outbox], which is bounded. Notifications
// never wait for a client: those that find the queue full are dropped and counted.
// Replies and questions wait. So a client that stops reading loses its own stream and nothing else.
//
// Locks are leaves: nothing is called while one is held except an outbox, which has
// its own and calls nobody; the one of the log levels orders what the router is told.
package downstream
