package wire

import "bytes"

// What the two forms of tasks are called: the experimental one of revision 2025-11-25
// (basic/utilities/tasks) and the extension of 2026-07-28.
const (
	TaskStatus     = "notifications/tasks/status"
	TasksExtension = "io.modelcontextprotocol/tasks"

	metaRelatedTask = "io.modelcontextprotocol/related-task"
)

// RelatedTask returns where params or a result, raw, name the task they belong to in
// their _meta: the JSON string, or a zero span if they belong to none. Finding that out
// costs little.
func RelatedTask(raw []byte) Span {
	if !bytes.Contains(raw, []byte("related-task")) {
		return Span{}
	}
	meta := Field(raw, Span{Hi: len(raw)}, "_meta")
	at := Field(raw, Field(raw, meta, metaRelatedTask), "taskId")
	if !at.OK() || raw[at.Lo] != '"' {
		return Span{}
	}
	return at
}
