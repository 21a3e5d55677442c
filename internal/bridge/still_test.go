package bridge_test

import (
	"testing"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/wire"
)

func TestALegacyResultThatStillAsksHasNothingElse(t *testing.T) {
	for result, want := range map[string]bool{
		`{"inputRequests":{"a":{"method":"roots/list"}},"requestState":"x"}`: true,
		`{"inputRequests":{},"content":[]}`:                                  true,
		`{"inputRequests":{},"content":[{"type":"text","text":"x"}]}`:        false,
		`{"inputRequests":{},"messages":[{}]}`:                               false,
		`{"contents":[{}],"inputRequests":{}}`:                               false,
		`{"inputRequests":{"a":{}},"resultType":"input_required"}`:           false, // is one
		`{"inputRequests":[]}`:                                               false,
		`{"inputRequests":null}`:                                             false,
		`{}`:                                                                 false,
	} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := bridge.StillAsks(&m.Body); got != want {
			t.Errorf("%s: %v", result, got)
		}
	}
}
