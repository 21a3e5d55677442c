package router

// Chain is the path of a call with another end.
func (r *Router) Chain(end Handler) Handler {
	stages := r.stages()
	h := end
	for i := len(stages) - 1; i >= 0; i-- {
		h = stages[i](h)
	}
	return h
}
