package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"mcp-aggregator/internal/config"
)

const (
	// settleFile is how long the file must have been left alone: editors write it in
	// several steps.
	settleFile = 150 * time.Millisecond
	// settleMost bounds the wait from the first event on: another file in the folder may
	// be written all the time.
	settleMost = 500 * time.Millisecond
	// lookMissing is how often a file that is missing is looked for: the folder that
	// would announce it may be missing, too.
	lookMissing = time.Second
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
	events, errs := f.channels()
	var first time.Time // of the events since the last look, zero if there are none
	looked := make(chan bool, 1)
	looking := false
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-events:
			if !ok {
				events = nil
				continue
			}
		case <-errs: // events were lost, say
		case <-next.C:
			if !looking {
				// On a goroutine of its own, since the file system may hang.
				looking, first = true, time.Time{}
				go func() { looked <- f.look() }()
			}
			continue
		case news := <-looked:
			looking = false
			if news {
				changed()
			}
			if first.IsZero() {
				next.Reset(f.rest())
				continue
			}
		}
		if first.IsZero() {
			first = time.Now()
		}
		next.Reset(min(settleFile, time.Until(first.Add(settleMost))))
	}
}

// A watched is a file and what was seen of it last.
type watched struct {
	path    string
	watcher *fsnotify.Watcher // nil if the system has none left
	folders map[string]bool   // those being watched

	begun   bool // the first look is over
	missing bool // at the last look
	info    fs.FileInfo
	sum     [sha256.Size]byte // zero if the file was never there
}

// look reports whether the content differs from the last time it was there.
func (f *watched) look() bool {
	f.follow()
	news := f.news()
	if !f.begun {
		f.begun = true
		return false
	}
	return news
}

// rest is the time until the next look if nothing is announced.
func (f *watched) rest() time.Duration {
	if f.missing {
		return lookMissing
	}
	return lookAgain
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

// news compares the content with what it was. It is read only if the file looks different.
func (f *watched) news() bool {
	info, err := os.Stat(f.path)
	f.missing = errors.Is(err, fs.ErrNotExist)
	if err != nil {
		return false
	}
	if f.info != nil && os.SameFile(f.info, info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return false
	}
	sum, err := contentSum(f.path, info)
	if errors.Is(err, fs.ErrNotExist) {
		f.missing = true
		return false
	}
	before := f.sum
	f.info, f.sum = info, sum
	return f.sum != before
}

// contentSum is a hash of as much of a file as a configuration may have. What is no
// regular file is not opened, since a pipe may never end; to say what is wrong with it
// is up to whoever reads the configuration.
func contentSum(path string, info fs.FileInfo) ([sha256.Size]byte, error) {
	if !info.Mode().IsRegular() {
		return sha256.Sum256([]byte(info.Mode().Type().String())), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return sha256.Sum256([]byte(err.Error())), err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, io.LimitReader(file, config.MaxFile+1))
	return [sha256.Size]byte(hash.Sum(nil)), err
}
