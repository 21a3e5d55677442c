package downstream

import "context"

type principalKey struct{}

// WithPrincipal returns a context that says who is calling. An authenticating
// handler in front of the server puts it on the request; without one everybody is
// the same anonymous caller. A session answers only to whom it was opened for.
func WithPrincipal(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, principalKey{}, name)
}

// principalOf returns who is calling, "" for the anonymous caller.
func principalOf(ctx context.Context) string {
	name, _ := ctx.Value(principalKey{}).(string)
	return name
}
