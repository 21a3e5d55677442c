package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleFile is how long the file must have been left alone: editors write it in
	// several steps.
	settleFile = 150 * time.Millisecond
	// lookAgain is how often the file is looked at when nothing announces changes, as
	// on network file systems.
	lookAgain = 30 * time.Second
)

// watchFile calls changed after the content of a file has changed. It watches the
// folder, not the file: editors rename a new file over the old one, and a Kubernetes
// ConfigMap swaps a symbolic link beside it. A file that is missing for a moment is no
// change.
func watchFile(ctx context.Context, path string, changed func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		w = nil // a limit of the system; looking again will do
	} else {
		defer w.Close()
	}
	f := &watched{path: path, watcher: w}
	f.follow()
	f.news()
	settle := time.NewTimer(time.Hour)
	settle.Stop()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	events, errs := f.channels()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			settle.Reset(settleFile)
		case <-errs: // events were lost, say
			settle.Reset(settleFile)
		case <-again.C:
			settle.Reset(0)
		case <-settle.C:
			f.follow()
			if f.news() {
				changed()
			}
		}
	}
}

// A watched is a file and what was seen of it last.
type watched struct {
	path    string
	watcher *fsnotify.Watcher // nil if the system has none left
	folders map[string]bool   // those being watched

	info fs.FileInfo
	sum  [sha256.Size]byte
}

func (f *watched) channels() (<-chan fsnotify.Event, <-chan error) {
	if f.watcher == nil {
		return nil, nil
	}
	return f.watcher.Events, f.watcher.Errors
}

// follow watches the folder of the file, and that of the file it is a link to.
func (f *watched) follow() {
	if f.watcher == nil {
		return
	}
	wanted := map[string]bool{filepath.Dir(f.path): true}
	if target, err := filepath.EvalSymlinks(f.path); err == nil {
		wanted[filepath.Dir(target)] = true
	}
	for dir := range f.folders {
		if !wanted[dir] {
			_ = f.watcher.Remove(dir)
		}
	}
	for dir := range wanted {
		_ = f.watcher.Add(dir) // anew each time: the folder itself may have been replaced
	}
	f.folders = wanted
}

// news reports whether the content differs from the last time it was there. The
// content is read only if the file looks different.
func (f *watched) news() bool {
	info, err := os.Stat(f.path)
	if err != nil {
		return false
	}
	if f.info != nil && os.SameFile(f.info, info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return false
	}
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	before, first := f.sum, f.info == nil
	f.info, f.sum = info, sha256.Sum256(data)
	return !first && f.sum != before
}
