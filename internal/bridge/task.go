package bridge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"mcp-aggregator/internal/wire"
)

// A Task is one task of a server.
type Task struct {
	Server string
	ID     string // as the server knows it
	Alone  bool   // it was made on a connection that serves one session alone, and lives there
}

const (
	maxTaskID     = 1 << 10 // bytes of an id that a server may choose
	maxTaskCursor = 4 << 10 // bytes of a place in a list of tasks
	tagBytes      = 16
	tagLength     = (tagBytes*8 + 5) / 6
	encodedID     = "~" // begins an id that is not spelled as the server has spelled it
)

// NameTask returns what the owner of a task calls it: the server, the server's own id and
// a tag, which nobody else can make and which is of no use to anybody else. One task has
// one name for as long as the key lasts, since clients compare them; nothing is kept for
// it here. The name needs no escapes in JSON or in a header: an id with such characters
// is written in base64.
func (s *Seal) NameTask(owner string, t Task) (string, error) {
	if len(t.ID) > maxTaskID {
		return "", fmt.Errorf("the id of a task has %d bytes, more than %d", len(t.ID), maxTaskID)
	}
	return t.Server + ":" + spellID(t.ID) + ":" + kindOf(t.Alone) + s.tag("task", owner, kindOf(t.Alone), t.Server, t.ID), nil
}

// ReadTask undoes NameTask; false for what is no name of a task of this owner's.
func (s *Seal) ReadTask(owner, name string) (Task, bool) {
	server, rest, _ := strings.Cut(name, ":")
	at := len(rest) - tagLength - 1
	if at < 1 || rest[at-1] != ':' {
		return Task{}, false
	}
	t := Task{Server: server, Alone: rest[at] == 'a'}
	var ok bool
	if t.ID, ok = readID(rest[:at-1]); !ok {
		return Task{}, false
	}
	want, err := s.NameTask(owner, t)
	return t, err == nil && hmac.Equal([]byte(want), []byte(name))
}

// kindOf says on which kind of connection a task lives.
func kindOf(alone bool) string {
	if alone {
		return "a"
	}
	return "s"
}

func spellID(id string) string {
	plain := !strings.HasPrefix(id, encodedID)
	for i := 0; plain && i < len(id); i++ {
		plain = id[i] > ' ' && id[i] < 0x7f && id[i] != '"' && id[i] != '\\'
	}
	if plain {
		return id
	}
	return encodedID + base64.RawURLEncoding.EncodeToString([]byte(id))
}

func readID(text string) (string, bool) {
	inner, encoded := strings.CutPrefix(text, encodedID)
	if !encoded {
		return text, true
	}
	id, err := base64.RawURLEncoding.DecodeString(inner)
	return string(id), err == nil
}

// tag authenticates texts, each with its length, so that no other texts have the same.
func (s *Seal) tag(texts ...string) string {
	h := hmac.New(sha256.New, s.names)
	var n [8]byte
	for _, text := range texts {
		binary.BigEndian.PutUint64(n[:], uint64(len(text)))
		h.Write(n[:])
		h.Write([]byte(text))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:tagBytes])
}

// A TaskPlace is how far a client has read the list of its tasks: where that goes on.
type TaskPlace struct {
	Server string
	Alone  bool
	Cursor string // the server's own; "" is the beginning
}

// PlaceTask returns a cursor for a place in the owner's list; false if the server's own
// is too long.
func (s *Seal) PlaceTask(owner string, p TaskPlace) (string, bool) {
	if len(p.Cursor) > maxTaskCursor {
		return "", false
	}
	text := kindOf(p.Alone) + p.Server + ":" + p.Cursor
	return s.tag("list", owner, text) + base64.RawURLEncoding.EncodeToString([]byte(text)), true
}

// ReadPlace undoes PlaceTask; false for what is no cursor of this owner's.
func (s *Seal) ReadPlace(owner, cursor string) (TaskPlace, bool) {
	if len(cursor) <= tagLength || len(cursor) > 2*maxTaskCursor {
		return TaskPlace{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor[tagLength:])
	if err != nil || len(text) == 0 {
		return TaskPlace{}, false
	}
	p := TaskPlace{Alone: text[0] == 'a'}
	p.Server, p.Cursor, _ = strings.Cut(string(text[1:]), ":")
	want, ok := s.PlaceTask(owner, p)
	return p, ok && hmac.Equal([]byte(want), []byte(cursor))
}

// CreatedTask returns where a result names the task that it is about in place of the
// result that was asked for; a zero span if it is an ordinary result.
func CreatedTask(era wire.Era, result *wire.Object) (wire.Span, error) {
	task := wire.Span{Hi: len(result.Raw)}
	if era == wire.Legacy {
		if task = result.Field("task"); !task.OK() || result.Raw[task.Lo] != '{' {
			return wire.Span{}, nil
		}
	}
	spans, err := wire.Fields(result.Raw, task, "taskId")
	if err != nil {
		return wire.Span{}, fmt.Errorf("reading the id of a task: %w", err)
	}
	at := spans[0]
	_, ok := wire.Unquote(at.Of(result.Raw))
	switch {
	case ok:
		return at, nil
	case era == wire.Legacy:
		return wire.Span{}, nil // a member of the tool's own
	}
	return wire.Span{}, errors.New("reading the id of a task: there is none")
}

// IsTask reports whether a modern result is that of a call which has become a task.
func IsTask(result *wire.Object) bool {
	t := result.Field("resultType")
	return t.OK() && string(t.Of(result.Raw)) == `"task"`
}

// WithTaskID returns the edits that put a name, raw, in the place of the id of the one
// task that a result is about, and of the task that it says it is related to.
func WithTaskID(result *wire.Object, name []byte) []wire.Edit {
	var edits []wire.Edit
	for m := range result.Members() {
		if wire.KeyIs(m.Key.Of(result.Raw), "taskId") {
			edits = append(edits, wire.Edit{Span: m.Val, With: name})
		}
	}
	if at := wire.RelatedTask(result.Raw); at.OK() {
		edits = append(edits, wire.Edit{Span: at, With: name})
	}
	return edits
}

// WithoutTask takes out of params what asks for a task.
func WithoutTask(params *wire.Object) []wire.Edit {
	return wire.Without(params.Members(), func(m wire.Member) bool { return wire.KeyIs(m.Key.Of(params.Raw), "task") })
}

// TakesTasks reports whether the raw capabilities of a legacy server say that its tools
// can be called as tasks.
func TakesTasks(caps []byte) bool { return has(caps, "tasks", "requests", "tools", "call") }

// KnowsTasks reports whether the raw capabilities of a modern client have the extension.
func KnowsTasks(caps []byte) bool { return has(caps, "extensions", wire.TasksExtension) }

// NoTasks is the error for a modern client that has not declared the extension.
func NoTasks() *wire.RPCError {
	return (&Lack{Required: `{"extensions":{"` + wire.TasksExtension + `":{}}}`}).Error()
}
