package router

import (
	"container/list"
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
	holders map[bridge.Task]string                // task of a shared connection → who got it last
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
		t.all, t.owned, t.holders = map[ownedTask]*list.Element{}, map[string]map[*list.Element]struct{}{}, map[bridge.Task]string{}
	}
	if !task.Alone {
		t.holders[task] = owner
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
	if t.holders[key.Task] == key.owner {
		delete(t.holders, key.Task)
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
	owner, known = t.holders[task]
	return owner, known
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
