package telemetry

import (
	"maps"
	"strings"
	"sync"
)

// named holds a counter for each of a bounded number of names. The zero value is empty.
type named[T any] struct {
	mu sync.RWMutex
	m  map[string]*T
}

func (n *named[T]) of(name string) *T {
	n.mu.RLock()
	t := n.m[name]
	n.mu.RUnlock()
	if t != nil {
		return t
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name = label(name); n.m[name] == nil && len(n.m) >= maxNames {
		name = other
	}
	if n.m[name] == nil {
		if n.m == nil {
			n.m = make(map[string]*T)
		}
		n.m[strings.Clone(name)] = new(T)
	}
	return n.m[name]
}

func (n *named[T]) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.m, name)
}

func (n *named[T]) all() map[string]*T {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return maps.Clone(n.m)
}
