package summarize_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"mcp-aggregator/internal/summarize"
)

// A roundTrip answers requests itself.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// asked is the same for all: chance in it would look like news to the fuzzer.
var asked = summarize.Build(numbered(1))

// read has a model read an answer.
func read(t *testing.T, k apiKind, status int, body io.Reader) (summarize.Answer, string, *summarize.Error) {
	m, err := k.make(summarize.Remote{Model: "m", Key: secretKey, Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	var heard strings.Builder
	a, err := m.Summarize(context.Background(), asked, func(c string) { heard.WriteString(c) })
	var e *summarize.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("an error of no kind: %v", err)
	}
	return a, heard.String(), e
}

// Whatever a server sends, and in whatever pieces it comes, is an answer or an error,
// and the same one.
func FuzzAnswers(f *testing.F) {
	for _, k := range kinds {
		for _, answer := range []string{
			k.stream("3 pods,", " 1 failing"), k.stream("<think>x</think>", "y"), k.whole("whole"), k.begin + k.error,
			k.begin + k.say("cut"), k.begin + k.say("x") + k.end("length"), "<html>", "", "data: [DONE]\n\n", `{"error":"no"}`,
		} {
			f.Add(answer, 200)
		}
	}
	f.Add(`{"error":{"message":"`+secretKey+`","param":"max_tokens"}}`, 400)
	f.Add(`{"detail":[{"loc":["body","stream_options"],"msg":"x"}]}`, 422)
	f.Add(`data: {"choices":[{"delta":{"content":[{"type":"text","text":"x"}],"refusal":"y"}}],"usage":{"prompt_tokens":1e99}}`+"\r\r", 200)
	f.Fuzz(func(t *testing.T, body string, status int) {
		for _, k := range kinds {
			a, heard, e := read(t, k, status, strings.NewReader(body))
			if !utf8.ValidString(a.Text) || len(a.Text) > len(body)*3+64 || a.In < 0 || a.Out < 0 {
				t.Fatalf("%s: answer %+v", k.name, a)
			}
			if a.Text != heard && !a.Refused {
				t.Fatalf("%s: text %q, pieces %q", k.name, a.Text, heard)
			}
			if e != nil && (strings.Contains(e.Reason, secretKey) || len(e.Reason) > 500 || !utf8.ValidString(e.Reason)) {
				t.Fatalf("%s: reason %q", k.name, e.Reason)
			}
			b, _, e2 := read(t, k, status, iotest.OneByteReader(strings.NewReader(body)))
			if a != b || (e == nil) != (e2 == nil) || e != nil && *e != *e2 {
				t.Fatalf("%s: in one piece %+v %v, in many %+v %v", k.name, a, e, b, e2)
			}
		}
	})
}

// Text that a model says arrives as it was said, however it is cut into pieces.
func FuzzPieces(f *testing.F) {
	f.Add("3 pods\n1 failing", 4)
	f.Add("<think>hidden</think>seen", 3)
	f.Add("  <thin", 1)
	f.Add("{\"a\":\"\\u00e9\"}", 2)
	f.Fuzz(func(t *testing.T, said string, n int) {
		said = strings.ToValidUTF8(said, "?")
		if n < 1 || len(said) > 2000 {
			return
		}
		var pieces []string
		for rest := []rune(said); len(rest) > 0; {
			cut := min(n, len(rest))
			pieces = append(pieces, string(rest[:cut]))
			rest = rest[cut:]
		}
		want := strings.TrimSpace(said)
		if thought, isThought := strings.CutPrefix(want, "<think>"); isThought {
			_, want, _ = strings.Cut(thought, "</think>")
			want = strings.TrimSpace(want)
		}
		for _, k := range kinds {
			for _, body := range []string{k.stream(pieces...), k.whole(said)} {
				a, _, e := read(t, k, 200, strings.NewReader(body))
				if e != nil || strings.TrimSpace(a.Text) != want {
					t.Fatalf("%s: %q, %v, want %q", k.name, a.Text, e, want)
				}
			}
		}
	})
}

// What a client answers to sampling is an answer or an error.
func FuzzSampling(f *testing.F) {
	f.Add([]byte(`{"content":{"type":"text","text":"fine"},"stopReason":"maxTokens"}`))
	f.Add([]byte(`{"content":[{"type":"text","text":"fine"}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, result []byte) {
		own := summarize.Sampling{Ask: func(context.Context, string, []byte) ([]byte, error) { return result, nil }}
		a, err := own.Summarize(context.Background(), asked, func(string) {})
		var e *summarize.Error
		if err != nil && !errors.As(err, &e) || !utf8.ValidString(a.Text) {
			t.Fatalf("%q, %v", a.Text, err)
		}
	})
}
