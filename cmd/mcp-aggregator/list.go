package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/catalog"
)

type listFlags struct {
	kinds   []kind
	servers []string
	json    bool
}

func (c *cli) listCommand() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list [tools|prompts|resources|templates]...",
		Short: "List what the servers offer",
		Long: `Connects to the servers of the configuration and lists their tools, prompts, resources
and resource templates under the names clients see, or only the lists given.

Servers that cannot be reached are named on standard error; only if none can, the
command fails. With --json the definitions are printed as the servers wrote them.`,
		ValidArgs: words(kinds),
		Args:      cobra.OnlyValidArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.kinds = pick(args)
			return c.list(cmd.Context(), f)
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.addServerFlag(cmd, &f.servers)
	return cmd
}

func words(ks []kind) []string {
	var out []string
	for _, k := range ks {
		out = append(out, k.word)
	}
	return out
}

// pick returns the kinds with the given words in their usual order, all for no words.
func pick(chosen []string) []kind {
	if len(chosen) == 0 {
		return kinds
	}
	var out []kind
	for _, k := range kinds {
		if slices.Contains(chosen, k.word) {
			out = append(out, k)
		}
	}
	return out
}

func (c *cli) list(ctx context.Context, f listFlags) error {
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
	snapshot, status := a.Snapshot(), a.Status()
	stop()

	if failed := c.warnUnreachable(status); failed > 0 && failed == enabledServers(cfg) {
		return errors.New("no server could be reached")
	}
	if f.json {
		return c.listJSON(f.kinds, snapshot)
	}
	return c.listText(f.kinds, snapshot)
}

// listJSON prints the lists as the protocol names them, each definition as its server wrote it.
func (c *cli) listJSON(ks []kind, s *catalog.Snapshot) error {
	out := make(map[string][]json.RawMessage, len(ks))
	for _, k := range ks {
		defs := []json.RawMessage{} // an empty list, not null
		for _, e := range s.Entries(k.Kind) {
			defs = append(defs, e.Def)
		}
		out[k.Member()] = defs
	}
	return c.printJSON(out)
}

// listText prints a table for each list that is not empty.
func (c *cli) listText(ks []kind, s *catalog.Snapshot) error {
	printed := 0
	for _, k := range ks {
		entries := s.Entries(k.Kind)
		if len(entries) == 0 {
			continue
		}
		if printed++; printed > 1 {
			fmt.Fprintln(c.out)
		}
		t := &table{}
		t.add(k.heading, "DESCRIPTION")
		for _, e := range entries {
			t.add(printable(e.Exposed), cell(description(e.Def)))
		}
		if err := t.print(c.out); err != nil {
			return err
		}
	}
	if printed == 0 {
		fmt.Fprintln(c.err, "mcp-aggregator: the servers offer nothing of this kind")
	}
	return nil
}
