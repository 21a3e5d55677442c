package upstream

import (
	"log/slog"
	"os"
	"os/exec"
)

// RestKeeper ends the keeper of this process if it has nothing to do.
func RestKeeper() { theKeeper.rest() }

// NewKeeper starts a keeper that listens to the lines written to its input.
func NewKeeper() (*exec.Cmd, func(line ...string), func() error, error) {
	cmd, pipe, err := startKeeper(nil)
	tell := func(words ...string) { _, _ = pipe.Write(keeperLine(nil, words...)) }
	return cmd, tell, pipe.Close, err
}

// A KeeperOfNone stands beside the keeper of the process and has another way to start.
type KeeperOfNone struct{ k *keeper }

// NewKeeperOfNone makes a keeper whose start fails with the error of launch.
func NewKeeperOfNone(launch func() error) KeeperOfNone {
	return KeeperOfNone{newKeeper(func([]byte) (*exec.Cmd, *os.File, error) { return nil, nil, launch() })}
}

// Prepare announces the start of a child.
func (k KeeperOfNone) Prepare() { k.k.prepare(slog.New(slog.DiscardHandler)) }

// Forgo says that the child did not start.
func (k KeeperOfNone) Forgo() { k.k.forgo() }

// Rest ends the keeper if it has nothing to do.
func (k KeeperOfNone) Rest() { k.k.rest() }
