package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/app"
	"mcp-aggregator/internal/arguments"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

const aboutCall = `Calls one tool by the name that list shows and prints its result.

The arguments may be written in several ways; the first that fits is taken:

  JSON           '{"a": 1, "b": 2}'
  YAML           'tags: [x, y]' (with lists or nested maps)
  pairs          a=1 b=2, or 'a: 1, b: 2'
  anything else  becomes {"input": ...}

In pairs, true, false, null, none and numbers are what they look like; quote a value
twice to keep it a string: id='"42"'. A single - reads the arguments from standard input.

Without --json, text is printed as it is and other content is described. Progress
and log messages of the server appear on standard error. If the tool reports an
error, its text goes to standard error and the exit code is 4.
`

// maxInput bounds the arguments read from standard input, in bytes.
const maxInput = 16 << 20

type callFlags struct {
	servers []string
	json    bool
	quiet   bool
}

func (c *cli) callCommand() *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "call TOOL [ARGUMENTS]...",
		Short: "Call a tool",
		Long:  aboutCall,
		Example: `  mcp-aggregator call demo__echo message="hello, world"
  mcp-aggregator call demo__add '{"a": 1, "b": 2}' --json`,
		Args:              needTool,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.call(cmd.Context(), args[0], args[1:], f)
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result as the server sent it")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "do not show progress and log messages")
	c.addServerFlag(cmd, &f.servers)
	return cmd
}

func needTool(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("call needs the name of a tool; 'mcp-aggregator list tools' shows them")
	}
	return nil
}

func (c *cli) call(ctx context.Context, tool string, words []string, f callFlags) error {
	args, err := c.arguments(words)
	if err != nil {
		return err
	}
	cfg, err := c.loadOnly(f.servers)
	if err != nil {
		return err
	}
	ctx, done := untilSignal(ctx)
	defer done()
	a, stop, err := c.connect(ctx, cfg)
	if err != nil {
		return err
	}
	result, err := a.Call(ctx, tool, args, c.progress(f.quiet))
	if err != nil {
		err = c.explain(ctx, a, tool, err)
		stop()
		return err
	}
	stop()
	return c.printResult(result, f.json)
}

// arguments reads the words after the tool's name, or standard input for a single "-".
func (c *cli) arguments(words []string) (json.RawMessage, error) {
	if len(words) != 1 || words[0] != "-" {
		args, _ := arguments.Words(words, config.YAMLToJSON)
		return args, nil
	}
	text, err := io.ReadAll(io.LimitReader(c.in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading arguments from standard input: %w", err)
	}
	if len(text) > maxInput {
		return nil, usage("the arguments on standard input are larger than %d MiB", maxInput>>20)
	}
	args, _ := arguments.Parse(string(text), config.YAMLToJSON)
	return args, nil
}

// progress returns what shows the messages of a call while it runs, nil if quiet.
func (c *cli) progress(quiet bool) func(method string, params []byte) {
	if quiet {
		return nil
	}
	return func(method string, params []byte) {
		if line := eventLine(method, params); line != "" {
			fmt.Fprintln(c.err, line)
		}
	}
}

// explain makes the error of a call one that says what to do.
func (c *cli) explain(ctx context.Context, a *app.App, tool string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("calling %s: %w", tool, cause)
	}
	if !isUnknown(a, tool, err) {
		return fmt.Errorf("calling %s: %w", tool, err)
	}
	c.warnUnreachable(a.Status())
	return fmt.Errorf("there is no tool %q; 'mcp-aggregator list tools' shows the tools there are", tool)
}

// isUnknown reports whether a call failed because nobody has the tool.
func isUnknown(a *app.App, tool string, err error) bool {
	if fault.KindOf(err) == fault.NotFound {
		return true
	}
	e, ok := errors.AsType[*wire.RPCError](err)
	if !ok || e.Code != wire.CodeInvalidParams {
		return false
	}
	_, known := a.Snapshot().Tool(tool)
	return !known
}
