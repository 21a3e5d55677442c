package main

import (
	"errors"
	"fmt"

	"mcp-aggregator/internal/config"
)

// The exit codes, which scripts rely on. The help of the root command explains them.
const (
	exitOK = iota
	exitFailure
	exitUsage
	exitConfig
	exitToolError
)

// exit is an error with the exit code it asks for. Without a cause everything that had
// to be said has been printed.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage is an error about what was typed.
func usage(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// report prints the error of a command for people and returns its exit code.
func (c *cli) report(command string, err error) int {
	if err == nil {
		return exitOK
	}
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		c.reportProblems(*problems)
		return exitConfig
	}
	code := exitFailure
	if e, ok := errors.AsType[*exit](err); ok {
		if e.err == nil {
			return e.code
		}
		code = e.code
	} else if !c.started {
		code = exitUsage
	}
	fmt.Fprintf(c.err, "mcp-aggregator: %v\n", err)
	if code == exitUsage {
		fmt.Fprintf(c.err, "Run '%s --help' for usage.\n", command)
	}
	return code
}

// reportProblems prints each problem on a line that editors and terminals can follow.
func (c *cli) reportProblems(problems config.Problems) {
	for _, p := range problems {
		if p.Line == 0 && len(problems) == 1 { // the file itself
			fmt.Fprintf(c.err, "mcp-aggregator: %s\n", p)
			return
		}
		fmt.Fprintln(c.err, p)
	}
	fmt.Fprintf(c.err, "mcp-aggregator: %s in the configuration\n", count(len(problems), "problem"))
}

// count is "1 problem", "2 problems".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
