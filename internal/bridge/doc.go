// Package bridge translates between the protocol eras on the two hops of a call.
//
// A client speaks legacy or modern MCP, an upstream too, and each of the four
// combinations must look to both ends like a direct connection of their own era.
// The package works on bytes: it gives back edits for params and results and never
// rebuilds a payload.
//
// Some fields belong to one hop only: the reserved keys of _meta, the progress
// token, the fields that every modern result carries. They are taken off on one hop
// and made anew on the other; all other keys travel in both directions untouched.
//
// Requests of an upstream that need an answer of the client (elicitation, sampling,
// roots) are the second half of the bridge: legacy servers send them, modern ones put
// them into a result. What each side must see of them, what a client must have
// declared for them, and the sealed state that a modern client carries from one round
// to the next are here; who waits for whom is the business of package router.
package bridge
