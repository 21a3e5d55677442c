package catalog

import (
	"slices"
	"sync/atomic"

	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/wire"
)

// Hide returns the listing without the secrets of m: a server that quotes its own
// credentials in a description shows them to nobody. Names and URIs stay as they are,
// since they are what is asked for. A listing without secrets comes back itself.
func (l *Listing) Hide(m *mask.Masker) *Listing {
	if m.IsZero() {
		return l
	}
	if h := l.hidden.Load(); h != nil && h.by == m {
		return h.listing
	}
	out := l.hide(m)
	l.hidden.Store(&hiding{by: m, listing: out})
	return out
}

// A hiding is a listing without the secrets of one masker, made once.
type hiding struct {
	by      *mask.Masker
	listing *Listing
}

func (l *Listing) hide(m *mask.Masker) *Listing {
	next := &Listing{
		Server: l.Server, Prefix: l.Prefix, Capabilities: l.Capabilities, ServerInfo: l.ServerInfo,
		Instructions: string(m.Text([]byte(l.Instructions), nil)), Modern: l.Modern, Public: l.Public, Stale: l.Stale,
		Problems: l.Problems, Hidden: l.Hidden, readable: l.readable,
	}
	next.checked, next.hidden = next, new(atomic.Pointer[hiding])
	changed := next.Instructions != l.Instructions
	items := [kinds]*[]Item{&next.Tools, &next.Prompts, &next.Resources, &next.Templates}
	for kind := range Kind(kinds) {
		all := l.Items(kind)
		for i := range all {
			edits := m.Edits(all[i].Def, wire.Span{Hi: len(all[i].Def)}, nil)
			edits = slices.DeleteFunc(edits, func(e wire.Edit) bool { return e.Lo < all[i].At.Hi && all[i].At.Lo < e.Hi })
			if len(edits) == 0 {
				continue
			}
			changed = true
			if *items[kind] == nil {
				*items[kind] = slices.Clone(all)
			}
			(*items[kind])[i] = all[i].edited(edits)
		}
		if *items[kind] == nil {
			*items[kind] = all
		}
	}
	if !changed {
		return l
	}
	return next
}

// edited returns the item with another definition. No edit touches the name.
func (it Item) edited(edits []wire.Edit) Item {
	shift := 0
	for _, e := range edits {
		if e.Lo < it.At.Lo {
			shift += len(e.With) - (e.Hi - e.Lo)
		}
	}
	it.Def = wire.Value{Raw: it.Def, Edits: edits}.Bytes()
	it.At = wire.Span{Lo: it.At.Lo + shift, Hi: it.At.Hi + shift}
	return it
}
