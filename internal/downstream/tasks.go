package downstream

import (
	"context"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// A carrier takes a call to where it is answered.
type carrier = func(context.Context, *router.Call) router.Reply

// task serves a request about tasks. What no server has declared is no method of ours.
func (s *Server) task(ctx context.Context, q *request) router.Reply {
	snapshot := s.router.Generation().Catalog
	declared := snapshot.Declares(wire.Modern, "extensions", wire.TasksExtension)
	if q.era == wire.Legacy {
		switch q.msg.Method {
		case "tasks/list":
			declared = snapshot.Declares(wire.Legacy, "tasks", "list")
		case "tasks/cancel":
			declared = snapshot.Declares(wire.Legacy, "tasks", "cancel")
		default:
			declared = snapshot.Declares(wire.Legacy, "tasks")
		}
	}
	switch {
	case !declared:
		return router.Reply{Err: methodNotFound(q.msg.Method)}
	case q.era == wire.Modern && !bridge.KnowsTasks(q.caps):
		return router.Reply{Err: bridge.NoTasks()}
	case q.msg.Method == "tasks/list":
		return s.callBy(ctx, q, s.router.ListTasks)
	}
	return s.call(ctx, q)
}
