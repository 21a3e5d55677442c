package mcptest_test

import (
	"testing"

	"mcp-aggregator/internal/mcptest"
)

func TestWithoutEraLeavesTheRestByteForByte(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing to drop", `{ "a" : 1.0 }`, `{ "a" : 1.0 }`},
		{"at the front", `{"resultType":"complete","a": 1}`, `{"a": 1}`},
		{"at the end", `{"a": 1, "ttlMs":0}`, `{"a": 1}`},
		{"around", `{"resultType":"complete","a":1,"ttlMs":0,"b":2,"cacheScope":"private"}`, `{"a":1,"b":2}`},
		{"two in front", `{"resultType":"complete","ttlMs":0,"a":1}`, `{"a":1}`},
		{"two in a row behind", `{"a":1,"resultType":"complete","ttlMs":0}`, `{"a":1}`},
		{"everything", `{"resultType":"complete","ttlMs":0}`, `{}`},
		{"reserved metadata alone", `{"a":1,"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`, `{"a":1}`},
		{"metadata of others stays", `{"_meta":{"io.modelcontextprotocol/serverInfo":{},"x/y": 1}}`, `{"_meta":{"x/y": 1}}`},
		{"empty metadata of others stays", `{"_meta":{}}`, `{"_meta":{}}`},
		{"deeper members stay", `{"a":{"ttlMs":1}}`, `{"a":{"ttlMs":1}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mcptest.WithoutEra(tt.in); got != tt.want {
				t.Errorf("WithoutEra(%s) = %s, want %s", tt.in, got, tt.want)
			}
		})
	}
}

func TestPut(t *testing.T) {
	tests := []struct{ object, value, want string }{
		{`{}`, `1`, `{"k":1}`},
		{` {"a":2}`, `1`, ` {"k":1,"a":2}`},
		{`{"a":2, "k" : 1e400 ,"b":3}`, `[]`, `{"a":2, "k" : [] ,"b":3}`},
	}
	for _, tt := range tests {
		if got := mcptest.Put(tt.object, "k", tt.value); got != tt.want {
			t.Errorf("Put(%s, k, %s) = %s, want %s", tt.object, tt.value, got, tt.want)
		}
	}
}
