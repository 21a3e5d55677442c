package builtin

//lint:file-ignore SA1019 logging is deprecated in 2026-07-28 but in use by every client of the field.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addRunningTools adds the tools that say something before they answer.
func addRunningTools(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{
		Name: "long_running", Title: "Long running operation", Annotations: readOnly(),
		Description: "Takes the given time in the given number of steps, reports progress after each, and can be cancelled",
		InputSchema: inputOf[longRunningInput](func(p map[string]*jsonschema.Schema) {
			between(p["duration"], 0, 3600, "5")
			between(p["steps"], 1, 1000, "5")
		}),
	}, longRunning)
	mcp.AddTool(s, &mcp.Tool{
		Name: "log_messages", Title: "Log messages", Annotations: readOnly(),
		Description: "Sends one log message of each level; the client's level decides which arrive",
	}, logMessages)
}

type longRunningInput struct {
	Duration float64 `json:"duration,omitempty" jsonschema:"total time in seconds"`
	Steps    int     `json:"steps,omitempty" jsonschema:"number of steps"`
}

func longRunning(ctx context.Context, req *mcp.CallToolRequest, in longRunningInput) (*mcp.CallToolResult, any, error) {
	total := time.Duration(in.Duration * float64(time.Second))
	step := total / time.Duration(in.Steps)
	timer := time.NewTimer(step)
	defer timer.Stop()
	for done := 1; done <= in.Steps; done++ {
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("stopped after %d of %d steps: %w", done-1, in.Steps, ctx.Err())
		case <-timer.C:
		}
		reportProgress(ctx, req, done, in.Steps)
		timer.Reset(step)
	}
	return text(fmt.Sprintf("Finished %d steps in %v.", in.Steps, total)), nil, nil
}

// reportProgress tells the client how far the call is, if it asked to know. A client
// that is gone is noticed through ctx, so the error of the notification says nothing new.
func reportProgress(ctx context.Context, req *mcp.CallToolRequest, done, of int) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return
	}
	_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token,
		Progress:      float64(done),
		Total:         float64(of),
		Message:       fmt.Sprintf("step %d of %d", done, of),
	})
}

// levels are the log levels of the protocol, least urgent first.
var levels = [...]mcp.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

type logInput struct {
	Message string `json:"message,omitempty" jsonschema:"the text to log"`
}

func logMessages(ctx context.Context, req *mcp.CallToolRequest, in logInput) (*mcp.CallToolResult, any, error) {
	if in.Message == "" {
		in.Message = "a message from the demo server"
	}
	for i, level := range levels {
		err := req.Session.Log(ctx, &mcp.LoggingMessageParams{
			Level: level, Logger: "everything",
			Data: map[string]any{"message": in.Message, "number": i + 1},
		})
		if err != nil {
			return nil, nil, fmt.Errorf("sending log message: %w", err)
		}
	}
	return text(fmt.Sprintf("Sent %d log messages, one of each level.", len(levels))), nil, nil
}
