// Package summarize has large results of tools summarized by a language model: any
// server with an OpenAI-compatible chat API, Anthropic's messages API, or the calling
// client's own model through MCP sampling. The models are guarded, since a summary is
// a favour: one that does not come in time, costs too much or says nothing is an
// Outcome, and the caller shows the result in another form.
//
// What reaches a model has been masked and cut to size by the caller. What is said by
// whoever wrote the result is never followed: everything foreign in a prompt stands
// between marks that its author could not know.
//
// Concurrency: a Summarizer is safe for concurrent use. Equal requests of one owner
// share one flight, a goroutine that asks the models in their order under one time
// limit and ends early when nobody waits for it any more. The bytes of a Request are
// read only before Summarize waits, so they may be reused when it returns. Functions
// for chunks run on the flight's goroutine (what was said before somebody joined: on
// the joiner's), one at a time and never after their own Summarize has returned; they
// must not block. Close ends all flights and waits for them, Retire lets them end by
// themselves.
package summarize
