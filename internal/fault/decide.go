package fault

// MayRepeat reports whether a call that ended so may be sent again by us. Safe says
// that executing it twice does no harm, losses how often it has been lost before.
func (e *Error) MayRepeat(safe bool, losses int) bool {
	rule := e.Kind.Rule()
	switch {
	case e.Code != "":
		return false // whoever lends connections has waited, and knows that none comes
	case e.Final:
		return false // to do it again would multiply what was done already
	case rule.Executed == Perhaps && !safe:
		return false
	case rule.Retry == RetryOnce:
		return losses == 0
	}
	return rule.Retry != RetryNot
}

// MayFallBack reports whether another tool may be called in place of one that ended
// so.
func (e *Error) MayFallBack(safe bool) bool {
	rule := e.Kind.Rule()
	return rule.Fallback && (rule.Executed == Never || safe)
}

// Retryable reports whether the client may repeat the call later, with hope and
// without harm.
func (e *Error) Retryable() bool {
	rule := e.Kind.Rule()
	return rule.Retryable() || rule.Later && e.Safe
}

// Breaker is what the error says about the health of the tool.
func (e *Error) Breaker() Breaker {
	if e.Code != "" {
		return BreakerIgnores
	}
	return e.Kind.Rule().Breaker
}
