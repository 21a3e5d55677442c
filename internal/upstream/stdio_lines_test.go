package upstream_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/upstream"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 5000) // 80,000 bytes, above every buffer
	for name, tc := range map[string]struct {
		in    string
		limit int
		want  []string
		large int
	}{
		"nothing":                       {"", 10, nil, 0},
		"lines":                         {"a\nbc\n", 10, []string{"a", "bc"}, 0},
		"an empty line":                 {"a\n\nb\n", 10, []string{"a", "", "b"}, 0},
		"a last line without an end":    {"a\nbc", 10, []string{"a", "bc"}, 0},
		"CRLF":                          {"a\r\nb\r\n", 10, []string{"a", "b"}, 0},
		"CR inside":                     {"a\rb\n", 10, []string{"a\rb"}, 0},
		"a byte order mark":             {"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", 10, []string{"a", "\xef\xbb\xbfb"}, 0},
		"a part of a byte order mark":   {"\xef\xbb", 10, []string{"\xef\xbb"}, 0},
		"as long as allowed":            {"0123456789\nb\n", 10, []string{"0123456789", "b"}, 0},
		"a byte too long":               {"0123456789x\nb\n", 10, []string{"b"}, 1},
		"much too long":                 {"a\n" + long + "\nb\n", 10, []string{"a", "b"}, 1},
		"too long without an end":       {"a\n" + long, 10, []string{"a"}, 1},
		"longer than the buffers":       {long + "\n" + long + "\nb\n", 1 << 20, []string{long, long, "b"}, 0},
		"longer than the buffers, last": {"a\n" + long, 1 << 20, []string{"a", long}, 0},
		"NUL":                           {"a\x00b\n", 10, []string{"a\x00b"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"at once":         strings.NewReader(tc.in),
				"by bytes":        iotest.OneByteReader(strings.NewReader(tc.in)),
				"by halves":       iotest.HalfReader(strings.NewReader(tc.in)),
				"error with data": iotest.DataErrReader(strings.NewReader(tc.in)),
			} {
				checkLines(t, how, r, tc.limit, tc.want, tc.large)
			}
		})
	}
}

func checkLines(t *testing.T, how string, r io.Reader, limit int, want []string, large int) {
	t.Helper()
	raw, n, err := upstream.ReadLines(r, limit)
	var got []string
	for _, line := range raw {
		got = append(got, string(line))
	}
	if diff := cmp.Diff(want, got); diff != "" || n != large || err != io.EOF {
		t.Errorf("%s: %d too large, want %d; error %v; lines (-want +got):\n%.500s", how, n, large, err, diff)
	}
}

// Whatever the splits, reading lines means what splitting the whole text means.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbc\r\n\n\xef\xbb\xbf\x00x"), uint16(3), uint8(1))
	f.Add([]byte("\xef\xbb\xbf"+strings.Repeat("x", 9000)+"\ny"), uint16(8999), uint8(200))
	f.Fuzz(func(t *testing.T, in []byte, limit uint16, chunk uint8) {
		max := int(limit) + 1
		var want []string
		large := 0
		for i, line := range bytes.Split(in, []byte("\n")) {
			if i == 0 {
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			if len(line) > max {
				large++
				continue
			}
			want = append(want, string(bytes.TrimSuffix(line, []byte("\r"))))
		}
		if n := bytes.LastIndexByte(in, '\n') + 1; n == len(in) || n == 0 && string(in) == "\xef\xbb\xbf" {
			want = want[:len(want)-1] // there is nothing behind the last line break
		}
		if len(want) == 0 {
			want = nil
		}
		checkLines(t, "chunks", &chunks{in, int(chunk) + 1}, max, want, large)
	})
}

// chunks reads at most n bytes at a time.
type chunks struct {
	b []byte
	n int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:min(len(c.b), c.n)])
	c.b = c.b[n:]
	return n, nil
}
