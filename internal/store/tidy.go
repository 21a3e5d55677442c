package store

import (
	"os"
	"path/filepath"
	"regexp"
	"time"
)

const (
	// maxTemporary is the age at which a file that was being written is taken for one
	// of a process that has died.
	maxTemporary = time.Hour
	// maxUnused is how long a record lasts that nobody asks for, as those of servers
	// that are no longer configured.
	maxUnused = 30 * 24 * time.Hour
	// noteUse is how exactly the use of a record is noted.
	noteUse = 24 * time.Hour
)

// tmp stands in the names of files that are being written.
const tmp = ".tmp-"

// The names that fileName makes. Whatever else lies in the folder is not ours.
var (
	record     = regexp.MustCompile(`^[a-z]+-[A-Za-z0-9_-]*-[0-9a-f]{16}\.json$`)
	leftBehind = regexp.MustCompile(`^[a-z]+-[A-Za-z0-9_-]*-[0-9a-f]{16}\.json\.tmp-[0-9]+$`)
)

// removeOld removes the files with such names that were not touched for some time. What
// cannot be removed stays.
func removeOld(dir string, names *regexp.Regexp, age time.Duration) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !names.MatchString(e.Name()) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > age {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
