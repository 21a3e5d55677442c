package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"mcp-aggregator/internal/config"
)

// stateDir is where a running aggregator keeps what outlives a restart; "" if nowhere.
func stateDir(cfg *config.Config, log *slog.Logger) string {
	switch cfg.StateDir {
	case "off":
		return ""
	case "":
	default:
		return cfg.StateDir
	}
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // also what the XDG base directory specification asks for
		home, err := os.UserHomeDir()
		if err != nil {
			log.Debug("no state is kept: there is no home folder")
			return ""
		}
		if _, err := os.Stat(home); err != nil {
			log.Debug("no state is kept: the home folder does not exist")
			return ""
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "mcp-aggregator")
}
