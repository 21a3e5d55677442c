package router

import (
	"fmt"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/wire"
)

// rewritten returns a copy of the call whose params are these. The rare calls whose
// params must change before the end of the path pay for reading them again.
func (c *Call) rewritten(params wire.Value) (*Call, error) {
	m, err := wire.Scan(wire.AppendRequest(make([]byte, 0, params.Len()+96), 1, c.Method, params))
	if err != nil {
		return nil, fmt.Errorf("rewriting the params: %w", err)
	}
	out := *c
	out.Params, out.edits = &m.Body, nil
	out.meta = bridge.ReadMeta(out.Params)
	return &out, nil
}

// withoutRounds returns a copy of the call that says nothing of earlier rounds.
func (c *Call) withoutRounds() (*Call, error) {
	return c.rewritten(wire.Value{Raw: c.Params.Raw}.With(c.edits...).With(bridge.WithoutRounds(c.Params)...))
}

// withProgress returns a copy of the call that asks the server for progress, even if
// its client does not: servers report it only to those who do.
func (c *Call) withProgress() *Call {
	out := *c
	if c.meta.ProgressToken != nil {
		return &out
	}
	v := wire.Value{Raw: c.Params.Raw}.With(c.edits...)
	if len(v.Raw) == 0 {
		v.Raw = []byte(`{}`)
	}
	if c.meta.Span.OK() && v.Raw[c.meta.Span.Lo] == '{' {
		v = v.With(insertion(v.Raw, c.meta.Span, `"progressToken":0`))
	} else if !c.meta.Span.OK() {
		v = v.With(insertion(v.Raw, wire.Span{Hi: len(v.Raw)}, `"_meta":{"progressToken":0}`))
	}
	asking, err := c.rewritten(v)
	if err != nil {
		return &out // it goes without
	}
	asking.mute = true
	return asking
}

// insertion is the edit that puts a member at the head of the object at s.
func insertion(raw []byte, s wire.Span, member string) wire.Edit {
	for range wire.Members(raw, s) {
		member += ","
		break
	}
	at := s.Lo + 1
	return wire.Edit{Span: wire.Span{Lo: at, Hi: at}, With: []byte(member)}
}

// redirected returns a copy of a call of a tool that goes to another one, with some of
// its arguments under other names. Their values are not looked at.
func (c *Call) redirected(e *catalog.Entry, names map[string]string) (*Call, error) {
	edits := []wire.Edit{{Span: c.Params.Field("name"), With: wire.AppendQuote(nil, e.Name)}}
	taken := map[string]bool{}
	for m := range wire.Members(c.Params.Raw, c.Params.Field("arguments")) {
		key, _ := wire.Unquote(m.Key.Of(c.Params.Raw))
		if there, ok := names[key]; ok {
			key = there
			edits = append(edits, wire.Edit{Span: m.Key, With: wire.AppendQuote(nil, there)})
		}
		if taken[key] {
			return nil, fmt.Errorf("two arguments would be called %q", short(key))
		}
		taken[key] = true
	}
	out, err := c.rewritten(wire.Value{Raw: c.Params.Raw}.With(edits...))
	if err != nil {
		return nil, err
	}
	out.standsIn, out.spent = true, 0
	out.aim(target{Server: e.Server, Entry: e, Name: e.Name})
	return out, nil
}
