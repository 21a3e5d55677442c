package router

import (
	"container/list"
	"hash/maphash"
	"sync"

	"mcp-aggregator/internal/bridge"
)

// tasks remembers whose the tasks are that went by: for lists, which servers give of all
// their clients at once, for notifications, and for servers that give an id anew. Tasks
// that are forgotten here can still be reached by their names. The zero value is empty.
type tasks struct {
	mu      sync.Mutex
	all     map[ownedTask]*list.Element
	order   list.List                             // of ownedTask, oldest first
	owned   map[string]map[*list.Element]struct{} // owner → its tasks
	holders holders
}

type ownedTask struct {
	owner string
	bridge.Task
}

// Bounds of what is remembered; the oldest is forgotten first.
const (
	maxTasks      = 16 << 10
	maxTasksOfOne = 1000 // owner
)

// note remembers whose a task is.
func (t *tasks) note(owner string, task bridge.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all, t.owned = map[ownedTask]*list.Element{}, map[string]map[*list.Element]struct{}{}
	}
	if !task.Alone {
		t.holders.note(task, owner)
	}
	key := ownedTask{owner, task}
	if e := t.all[key]; e != nil {
		t.order.MoveToBack(e)
		return
	}
	if len(t.owned[owner]) >= maxTasksOfOne {
		for e := t.order.Front(); e != nil; e = e.Next() {
			if e.Value.(ownedTask).owner == owner {
				t.forgetLocked(e)
				break
			}
		}
	}
	if len(t.all) >= maxTasks {
		t.forgetLocked(t.order.Front())
	}
	e := t.order.PushBack(key)
	t.all[key] = e
	if t.owned[owner] == nil {
		t.owned[owner] = map[*list.Element]struct{}{}
	}
	t.owned[owner][e] = struct{}{}
}

func (t *tasks) forgetLocked(e *list.Element) {
	key := t.order.Remove(e).(ownedTask)
	delete(t.all, key)
	if delete(t.owned[key.owner], e); len(t.owned[key.owner]) == 0 {
		delete(t.owned, key.owner)
	}
}

// forget forgets the tasks of an owner.
func (t *tasks) forget(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range t.owned[owner] {
		t.forgetLocked(e)
	}
}

// has reports whether a task is known to be this owner's.
func (t *tasks) has(owner string, task bridge.Task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[ownedTask{owner, task}] != nil
}

// find returns the task of an owner that a server calls so.
func (t *tasks) find(owner, server, id string) (bridge.Task, bool) {
	for _, alone := range [...]bool{false, true} {
		if task := (bridge.Task{Server: server, ID: id, Alone: alone}); t.has(owner, task) {
			return task, true
		}
	}
	return bridge.Task{}, false
}

// allows reports whether nobody else was given the same id later: a server that has been
// started anew may count from one again.
func (t *tasks) allows(owner string, task bridge.Task) bool {
	holder, known := t.holder(task)
	return !known || holder == owner
}

// holder returns who was given a task of a shared connection last.
func (t *tasks) holder(task bridge.Task) (owner string, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holders.of(task)
}

// places returns where an owner has tasks, each place once.
func (t *tasks) places(owner string) (places []bridge.TaskPlace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := map[bridge.TaskPlace]bool{}
	for e := range t.owned[owner] {
		task := e.Value.(ownedTask).Task
		p := bridge.TaskPlace{Server: task.Server, Alone: task.Alone}
		if !seen[p] {
			seen[p] = true
			places = append(places, p)
		}
	}
	return places
}

// holders remember who was given a task of a shared connection last. They outlive what
// else is remembered of a task, and the session of its owner: whoever had the same id
// before still has a name for it, which must not become good again. The zero value is
// empty.
type holders struct {
	seed  maphash.Seed
	owner map[uint64]string // digest of a task → who got it
	order []uint64          // a ring, once it is full
	next  int               // the oldest in it
}

const maxHolders = 64 << 10

// note notes who was given a task now.
func (h *holders) note(task bridge.Task, owner string) {
	if h.owner == nil {
		h.owner, h.seed = map[uint64]string{}, maphash.MakeSeed()
	}
	key := maphash.Comparable(h.seed, task)
	if _, again := h.owner[key]; !again {
		if len(h.order) < maxHolders {
			h.order = append(h.order, key)
		} else {
			delete(h.owner, h.order[h.next])
			h.order[h.next] = key
			h.next = (h.next + 1) % maxHolders
		}
	}
	h.owner[key] = owner
}

// of returns who was given a task last.
func (h *holders) of(task bridge.Task) (owner string, known bool) {
	if h.owner == nil {
		return "", false
	}
	owner, known = h.owner[maphash.Comparable(h.seed, task)]
	return owner, known
}
