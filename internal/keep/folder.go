package keep

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Names inside the configured directory. Every process has its folder, and holds the
// lock file in it as long as it lives.
const (
	folderPrefix = "kept-"
	lockName     = "lock"
)

// folder is where this process writes. All its files are reached through a root, so
// that no symbolic link leads out of it.
type folder struct {
	base *os.Root // the configured directory
	name string
	root *os.Root
	lock *os.File
	last atomic.Uint64 // number of the last file
}

// openFolder makes a folder for this process inside dir and removes those of dead
// processes; it returns how many there were. The directory is locked meanwhile: a
// folder that is not locked yet looks like one of a dead process.
func openFolder(dir string) (f *folder, left int, err error) {
	base, err := openBase(dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			base.Close()
		}
	}()
	guard, err := base.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer guard.Close()
	if err := lockWait(guard); err != nil {
		return nil, 0, fmt.Errorf("locking %s: %w", dir, err)
	}
	if left, err = removeDead(base); err != nil {
		return nil, left, fmt.Errorf("removing what dead processes left in %s: %w", dir, err)
	}
	f = &folder{base: base, name: folderPrefix + rand.Text()}
	if err := f.make(); err != nil {
		return nil, left, err
	}
	return f, left, nil
}

// openBase opens the configured directory, which must be ours alone: whoever can
// write to it could put other texts in place of ours.
func openBase(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory (symbolic links are not followed)", dir)
	}
	base, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	opened, err := base.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("%s was replaced while it was opened", dir)
	}
	if err == nil {
		err = private(filepath.Clean(dir), opened)
	}
	if err != nil {
		base.Close()
		return nil, err
	}
	return base, nil
}

func (f *folder) make() error {
	if err := f.base.Mkdir(f.name, 0o700); err != nil {
		return err
	}
	root, err := f.base.OpenRoot(f.name)
	if err != nil {
		return err
	}
	lock, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = lockNew(lock)
	}
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		return errors.Join(err, root.Close(), f.base.RemoveAll(f.name))
	}
	f.root, f.lock = root, lock
	return nil
}

// close removes the folder. The files go before the lock, so that nobody else begins
// to remove them too.
func (f *folder) close() error {
	return errors.Join(f.root.Close(), f.lock.Close(), f.base.RemoveAll(f.name), f.base.Close())
}

// removeDead removes the folders whose lock nobody holds.
func removeDead(base *os.Root) (int, error) {
	dir, err := base.Open(".")
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return 0, err
	}
	var left int
	var failed []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), folderPrefix) || alive(base, e.Name()) {
			continue
		}
		if err := base.RemoveAll(e.Name()); err != nil {
			failed = append(failed, err)
			continue
		}
		left++
	}
	return left, errors.Join(failed...)
}

// alive reports whether a process holds the lock of a folder. One without a lock file
// was left by a process that died while it made or removed it.
func alive(base *os.Root, name string) bool {
	lock, err := base.OpenFile(filepath.Join(name, lockName), os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer lock.Close()
	return !lockDead(lock)
}
