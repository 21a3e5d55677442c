package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestResultsForPeople(t *testing.T) {
	tests := []struct{ name, raw, want string }{
		{"text as it is", `{"content":[{"type":"text","text":"a\n\tb\u001b[2J"}]}`, "a\n\tb\x1b[2J\n"},
		{"a line break at the end is not doubled", `{"content":[{"type":"text","text":"a\n"}]}`, "a\n"},
		{"an unknown type by its name", `{"content":[{"type":"hologram","text":"x"}]}`, "[hologram: use --json to see it]\n"},
		{"an unknown type with strange members as it is", `{"content":[{"type":"hologram","data":{"x":1}}]}`, `{"content":[{"type":"hologram","data":{"x":1}}]}` + "\n"},
		{"structured content where it is all there is", `{"content":[],"structuredContent":{"n":1.0}}`, "{\"n\":1.0}\n"},
		{"structured content beside text is left out", `{"content":[{"type":"text","text":"1"}],"structuredContent":{"n":1}}`, "1\n"},
		{"what is no result of the protocol as it is", `{"content":"odd"}`, "{\"content\":\"odd\"}\n"},
		{"nothing for nothing", `{"content":[]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			c := &cli{out: &out, err: &errs}
			if err := c.printResult(json.RawMessage(tt.raw), false); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want || errs.Len() > 0 {
				t.Errorf("printed %q, want %q; on standard error %q", out.String(), tt.want, errs.String())
			}
		})
	}
}

func TestMessagesDuringACall(t *testing.T) {
	tests := []struct{ name, method, params, want string }{
		{"progress with everything", "notifications/progress", `{"progressToken":1,"progress":2.50,"total":10,"message":"half\u001b[0m way"}`, "progress: 2.50 of 10, half[0m way"},
		{"progress alone", "notifications/progress", `{"progressToken":1,"progress":3}`, "progress: 3"},
		{"a log message of text", "notifications/message", `{"level":"info","logger":"db","data":"ready"}`, "info: db: ready"},
		{"a log message with data", "notifications/message", `{"level":"error","data":{"code":5}}`, `error: {"code":5}`},
		{"what is not for people", "notifications/other", `{}`, ""},
		{"what cannot be read", "notifications/progress", `{"progress":{}}`, ""},
	}
	for _, tt := range tests {
		if got := eventLine(tt.method, []byte(tt.params)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCellsAreOneShortPrintableLine(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"the first line", "\n first\nsecond", "first"},
		{"control characters and direction marks go", "a\x1b]0;x\x07\u202eb\U000E0041c", "a]0;xbc"},
		{"joined emoji stay", "👩\u200d🚀", "👩\u200d🚀"},
		{"bytes that are no text are replaced", "a\xff", "a\uFFFD"},
		{"what is too long is cut", strings.Repeat("é", 81), strings.Repeat("é", 79) + "…"},
		{"what fits is not", strings.Repeat("é", 80), strings.Repeat("é", 80)},
	}
	for _, tt := range tests {
		if got := cell(tt.text); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
