package upstream

import "os/exec"

// RestKeeper ends the keeper of this process if it has nothing to do.
func RestKeeper() { theKeeper.rest() }

// NewKeeper starts a keeper that listens to the lines written to its input.
func NewKeeper() (*exec.Cmd, func(line ...string), func() error, error) {
	cmd, pipe, err := startKeeper()
	tell := func(words ...string) { _, _ = pipe.Write(keeperLine(nil, words...)) }
	return cmd, tell, pipe.Close, err
}
