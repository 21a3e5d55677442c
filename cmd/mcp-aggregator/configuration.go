package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/config"
)

// configVariable names the configuration file when no flag does.
const configVariable = "MCP_CONFIG"

// usualFiles are looked for in the current folder, in this order.
var usualFiles = []string{"mcp-aggregator.yaml", "config.yaml"}

// findConfig returns the configuration file to use.
func (c *cli) findConfig() (string, error) {
	if c.configPath != "" {
		return c.configPath, nil
	}
	if path := os.Getenv(configVariable); path != "" {
		return path, nil
	}
	for _, path := range usualFiles {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil // also one that cannot be read, which loading it will say
		}
	}
	return "", &exit{exitConfig, errors.New("there is no configuration: give one with --config FILE or $" + configVariable +
		", or put " + strings.Join(usualFiles, " or ") + " into this folder")}
}

// load finds and reads the configuration.
func (c *cli) load() (*config.Config, error) {
	path, err := c.findConfig()
	if err != nil {
		return nil, err
	}
	return config.Load(path, os.LookupEnv)
}

// loadOnly is load for commands that can be limited to some of the servers; no names mean all.
func (c *cli) loadOnly(names []string) (*config.Config, error) {
	cfg, err := c.load()
	if err != nil || len(names) == 0 {
		return cfg, err
	}
	some := *cfg // Load's value is not modified
	some.Servers = nil
	var known []string
	for _, s := range cfg.Servers {
		known = append(known, s.Name)
		if slices.Contains(names, s.Name) {
			some.Servers = append(some.Servers, s)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, usage("%s has no server %q; its servers are %s", cfg.Path, n, strings.Join(known, ", "))
		}
	}
	return &some, nil
}

// addServerFlag adds the flag that limits a command to some servers.
func (c *cli) addServerFlag(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringSliceVarP(names, "server", "s", nil, "connect only to this `server` (may be repeated)")
	must(cmd.RegisterFlagCompletionFunc("server", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		cfg, err := c.load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, s := range cfg.Servers {
			names = append(names, s.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}))
}
