package main

import (
	"log/slog"
	"slices"
	"strings"

	"mcp-aggregator/internal/config"
)

// logLevels are the values of --log-level and of log.level.
var logLevels = []string{"debug", "info", "warn", "error"}

// logger makes the logger of a command. It writes to standard error, always: standard
// output belongs to results and, with --stdio, to the protocol. The flag wins over the
// configuration; least is a level that short commands put above the configuration's, so
// that people see only what concerns them.
func (c *cli) logger(cfg *config.Config, least slog.Level) (*slog.Logger, error) {
	log, _, err := c.leveledLogger(cfg, least)
	return log, err
}

// leveledLogger is logger for a command that may change the level while it runs, as the
// configuration does; nil if a flag says what it is.
func (c *cli) leveledLogger(cfg *config.Config, least slog.Level) (*slog.Logger, *slog.LevelVar, error) {
	word := cfg.Log.Level
	if c.logLevel != "" {
		word, least = strings.ToLower(c.logLevel), slog.LevelDebug
	}
	if !slices.Contains(logLevels, word) {
		return nil, nil, usage("--log-level is %q; it must be one of %s", c.logLevel, strings.Join(logLevels, ", "))
	}
	var level slog.Level
	must(level.UnmarshalText([]byte(word)))
	now := new(slog.LevelVar)
	now.Set(max(level, least))
	o := &slog.HandlerOptions{Level: now}
	log := slog.New(slog.NewTextHandler(c.err, o))
	if cfg.Log.Format == "json" {
		log = slog.New(slog.NewJSONHandler(c.err, o))
	}
	if c.logLevel != "" {
		now = nil
	}
	return log, now, nil
}
