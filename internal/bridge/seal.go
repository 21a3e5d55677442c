package bridge

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// StateKind says what a state stands for.
type StateKind byte

// The kinds of states.
const (
	// Parked: a call of a legacy server that is alive and waits for answers.
	Parked StateKind = iota + 1
	// Passed: the state of a modern server, which wants it back.
	Passed
	// Anew: a call that a legacy server has refused until its user has visited an
	// address. There is nothing to continue: the retry is a new call.
	Anew
)

// A State is what a modern client carries for us from one round of a call to the next
// (specification 2026-07-28, basic/patterns/mrtr: requestState). The specification
// asks to bind it to the caller, to the request and to a time; all of that is inside.
type State struct {
	Kind      StateKind
	Expires   time.Time // to the millisecond
	Principal string
	Method    string
	Server    string // what the client has named, as it was resolved
	Name      string
	ID        uint64 // of the parked call
	Round     uint64 // how often the client has been asked

	From     string // the tool that asks, as server.tool, if it stands in for the one named
	Upstream []byte // the state of the modern server, as a JSON string; nil if it has none
}

// Errors of Open.
var (
	ErrForged  = errors.New("the requestState is not one of ours")
	ErrExpired = errors.New("the requestState has expired")
)

// A Seal makes states unreadable for clients, and shows whether one is our own. It is
// safe for concurrent use.
type Seal struct {
	aead  cipher.AEAD
	names []byte // key of the tags in the names of tasks
}

// sealVersion is the first byte of a sealed state. It is authenticated, too.
const sealVersion = 1

// KeySize is the length of a key in bytes.
const KeySize = 32

// NewSeal returns a seal (AES-256-GCM) with the given key, or with a random one if it
// is nil: then nobody accepts the states after this process has ended.
func NewSeal(key []byte) (*Seal, error) {
	if key == nil {
		key = make([]byte, KeySize)
		_, _ = rand.Read(key) // never fails
	}
	if len(key) != KeySize {
		return nil, fmt.Errorf("making a seal: the key has %d bytes, not %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("making a seal: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("making a seal: %w", err)
	}
	names := hmac.New(sha256.New, key)
	names.Write([]byte("names of tasks"))
	return &Seal{aead, names.Sum(nil)}, nil
}

// Seal returns the state as text that needs no escapes in JSON.
func (s *Seal) Seal(st *State) string {
	b := []byte{byte(st.Kind)}
	b = binary.BigEndian.AppendUint64(b, uint64(st.Expires.UnixMilli()))
	b = binary.BigEndian.AppendUint64(b, st.ID)
	b = binary.BigEndian.AppendUint64(b, st.Round)
	for _, field := range [...]string{st.Principal, st.Method, st.Server, st.Name, st.From, string(st.Upstream)} {
		b = binary.AppendUvarint(b, uint64(len(field)))
		b = append(b, field...)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal([]byte{sealVersion}, nil, b, []byte{sealVersion}))
}

// Open returns what Seal was given, or ErrForged or ErrExpired.
func (s *Seal) Open(sealed string, now time.Time) (*State, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(b) == 0 || b[0] != sealVersion || strings.ContainsAny(sealed, "\r\n") { // which the decoder skips
		return nil, ErrForged
	}
	text, err := s.aead.Open(nil, nil, b[1:], b[:1])
	if err != nil {
		return nil, ErrForged
	}
	st, ok := parseState(text)
	switch {
	case !ok:
		return nil, ErrForged
	case now.After(st.Expires):
		return nil, ErrExpired
	}
	return st, nil
}

func parseState(b []byte) (*State, bool) {
	const head = 1 + 3*8
	if len(b) < head {
		return nil, false
	}
	st := &State{
		Kind:    StateKind(b[0]),
		Expires: time.UnixMilli(int64(binary.BigEndian.Uint64(b[1:]))),
		ID:      binary.BigEndian.Uint64(b[9:]),
		Round:   binary.BigEndian.Uint64(b[17:]),
	}
	b = b[head:]
	var own string
	for _, field := range [...]*string{&st.Principal, &st.Method, &st.Server, &st.Name, &st.From, &own} {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > uint64(len(b)-width) {
			return nil, false
		}
		*field = string(b[width : width+int(n)])
		b = b[width+int(n):]
	}
	if own != "" {
		st.Upstream = []byte(own)
	}
	return st, len(b) == 0
}
