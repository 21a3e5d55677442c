package catalog

import (
	"bytes"
	"slices"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// Kept is what a server offered when it was last seen, as it is stored to be shown
// before the server is connected again (CAT-11). It is never modified. As JSON the
// definitions are base64, because every encoder of JSON takes liberties with JSON
// inside JSON, and a definition must come back byte by byte: it is compared with what
// the server sends next, and a difference is a change that clients are told of.
type Kept struct {
	Tools, Prompts, Resources, Templates [][]byte // definitions as the server sent them

	Capabilities []byte    // raw JSON object
	ServerInfo   []byte    // raw JSON object, nil if the server sent none
	Instructions string    //
	Version      string    // protocol revision
	Public       bool      // the server allows its lists to be cached for everybody
	Asks         bool      // the server asks clients on connections that they share
	Saved        time.Time // when this was the server's offer
}

// Input returns what a listing under a configuration is made of. What has been
// damaged in the store is left out, since everything above relies on valid JSON.
func (k *Kept) Input(server *config.Server, limits config.Limits) Input {
	return Input{
		Server: server, Limits: limits,
		Tools: intact(k.Tools), Prompts: intact(k.Prompts), Resources: intact(k.Resources), Templates: intact(k.Templates),
		Capabilities: intactObject(k.Capabilities), ServerInfo: intactObject(k.ServerInfo),
		Instructions: k.Instructions, Modern: k.Version == wire.V20260728, Public: k.Public, Stale: true,
	}
}

// Same reports whether two offers are equal, whenever they were made.
func (k *Kept) Same(o *Kept) bool {
	if k == nil || o == nil {
		return k == o
	}
	same := func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
	return same(k.Tools, o.Tools) && same(k.Prompts, o.Prompts) && same(k.Resources, o.Resources) && same(k.Templates, o.Templates) &&
		bytes.Equal(k.Capabilities, o.Capabilities) && bytes.Equal(k.ServerInfo, o.ServerInfo) &&
		k.Instructions == o.Instructions && k.Version == o.Version && k.Public == o.Public && k.Asks == o.Asks
}

// intact returns the definitions that are JSON; all of them, without copying, if
// nothing is wrong.
func intact(defs [][]byte) [][]byte {
	broken := func(def []byte) bool { return wire.Valid(def) != nil }
	if !slices.ContainsFunc(defs, broken) {
		return defs
	}
	return slices.DeleteFunc(slices.Clone(defs), broken)
}

func intactObject(raw []byte) []byte {
	if len(raw) == 0 || raw[0] != '{' || wire.Valid(raw) != nil {
		return nil
	}
	return raw
}
