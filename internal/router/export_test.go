package router

import "mcp-aggregator/internal/limit"

// Chain is the path of a call with another end.
func (r *Router) Chain(end Handler) Handler {
	stages := r.stages()
	h := end
	for i := len(stages) - 1; i >= 0; i-- {
		h = stages[i](h)
	}
	return h
}

// Queues are the queues that calls go through.
func (r *Router) Queues() *limit.Queues { return r.queues }
