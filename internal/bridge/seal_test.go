package bridge_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/bridge"
)

func newSeal(t testing.TB, key []byte) *bridge.Seal {
	t.Helper()
	s, err := bridge.NewSeal(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)

func passed() *bridge.State {
	return &bridge.State{
		Kind: bridge.Passed, Expires: noon.Add(time.Minute), Principal: "ann", Method: "tools/call", Server: "db", Name: "query",
		ID: 7, Round: 3, From: "spare.find", Upstream: []byte(`"st\u0061te"`),
	}
}

func TestASealedStateComesBackAsItWas(t *testing.T) {
	key := bytes.Repeat([]byte{9}, bridge.KeySize)
	for _, st := range []*bridge.State{passed(), {Kind: bridge.Parked, Expires: noon, ID: 1<<64 - 1, Round: 1}} {
		sealed := newSeal(t, key).Seal(st)
		if strings.ContainsAny(sealed, `"\+/= `) || strings.Contains(sealed, "ann") {
			t.Errorf("sealed as %s", sealed)
		}
		got, err := newSeal(t, key).Open(sealed, noon) // as another process with the same key
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(st, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestStatesOfOthersAreForgedAndOldOnesExpired(t *testing.T) {
	s := newSeal(t, nil)
	sealed := s.Seal(passed())
	for _, c := range []struct {
		name   string
		seal   *bridge.Seal
		sealed string
		at     time.Time
		want   error
	}{
		{"in time", s, sealed, noon.Add(time.Minute), nil},
		{"late", s, sealed, noon.Add(time.Minute + time.Millisecond), bridge.ErrExpired},
		{"of another key", newSeal(t, nil), sealed, noon, bridge.ErrForged},
		{"cut", s, sealed[:len(sealed)-1], noon, bridge.ErrForged},
		{"longer", s, sealed + "AAAA", noon, bridge.ErrForged},
		{"of another version", s, "Ag" + sealed[2:], noon, bridge.ErrForged},
		{"with a line break", s, sealed[:20] + "\n" + sealed[20:], noon, bridge.ErrForged},
		{"empty", s, "", noon, bridge.ErrForged},
		{"the state of a server as it came", s, "state", noon, bridge.ErrForged},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.seal.Open(c.sealed, c.at); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := bridge.NewSeal(make([]byte, 16)); err == nil {
		t.Error("a key of 16 bytes was taken")
	}
}

func TestNoneOfAThousandForgedStatesIsAccepted(t *testing.T) {
	s := newSeal(t, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		raw, err := base64.RawURLEncoding.DecodeString(s.Seal(passed()))
		if err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 0: // one bit
			raw[rnd.IntN(len(raw))] ^= 1 << rnd.IntN(8)
		case 1: // another nonce
			for j := range 12 {
				raw[1+j] = byte(rnd.Uint32())
			}
		case 2: // shorter
			raw = raw[:rnd.IntN(len(raw))]
		case 3: // noise
			for j := range raw[1:] {
				raw[1+j] = byte(rnd.Uint32())
			}
		}
		if st, err := s.Open(base64.RawURLEncoding.EncodeToString(raw), noon); !errors.Is(err, bridge.ErrForged) {
			t.Fatalf("forgery %d: got %+v, %v", i, st, err)
		}
	}
}

// FuzzOpen looks for text that is accepted, and for changes of a state that are.
func FuzzOpen(f *testing.F) {
	s := newSeal(f, nil)
	ours := s.Seal(passed())
	f.Add(newSeal(f, nil).Seal(passed()))
	f.Add("AQ")
	f.Add(strings.Repeat("\x00", 30) + "\x01")
	f.Fuzz(func(t *testing.T, text string) {
		mixed, err := base64.RawURLEncoding.DecodeString(ours)
		if err != nil {
			t.Fatal(err)
		}
		for i := range min(len(text), len(mixed)) {
			mixed[i] ^= text[i]
		}
		for _, sealed := range []string{text, ours + text, base64.RawURLEncoding.EncodeToString(mixed)} {
			st, err := s.Open(sealed, noon)
			if sealed != ours && !errors.Is(err, bridge.ErrForged) {
				t.Fatalf("%q: got %+v, %v", sealed, st, err)
			}
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	s := newSeal(b, nil)
	st := passed()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Open(s.Seal(st), noon); err != nil {
			b.Fatal(err)
		}
	}
}
