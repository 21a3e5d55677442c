package digest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// object is what of a Kubernetes object says how it is.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace   string
		DeletionTimestamp string
	}
	Spec struct {
		Replicas      *int
		Unschedulable bool
	}
	Status         status
	Type           string // of an event
	Reason         string
	Message        string
	Count          int
	InvolvedObject struct{ Kind, Name string }
}

type status struct {
	Phase, Reason, Message             string
	ReadyReplicas, NumberReady, Failed int
	DesiredNumberScheduled             int
	Conditions                         []condition
	ContainerStatuses                  []container
	InitContainerStatuses              []container
}

type condition struct{ Type, Status, Reason, Message string }

type container struct {
	Name         string
	Ready        bool
	RestartCount int
	State        struct {
		Waiting    *struct{ Reason, Message string }
		Terminated *struct {
			Reason   string
			ExitCode int
		}
	}
	LastState struct {
		Terminated *struct {
			Reason   string
			ExitCode int
		}
	}
}

// cluster is what a list of Kubernetes objects holds.
type cluster struct {
	list   string // the kind of the list, "" for a bare array
	path   string // where the objects are, as jq has it
	kinds  values
	spaces values
	phases values
	groups []*group // names by kind and namespace, in the order they first occur
	by     map[string]*group
	ill    []ill
	illAll int
	n      int
}

// group is the objects of one kind in one namespace.
type group struct {
	title string
	names []string
	n     int
}

// ill is an object that is not as it should be.
type ill struct {
	index int
	line  int
	text  string
}

// namesMost is how many names of a group are kept.
const namesMost = 2000

// kubernetes reads text, of which w is the walk, as a list of Kubernetes objects.
func kubernetes(w *walk, text []byte) (*cluster, bool) {
	c := &cluster{by: map[string]*group{}, path: ".items"}
	item := w.root.element
	switch {
	case w.tops != 1:
		return nil, false
	case w.root.objects == 1 && w.root.fields["items"] != nil:
		item = w.root.fields["items"].element
		if k := w.root.fields["kind"]; k != nil {
			c.list = k.values.example
		}
	default:
		c.path = "."
	}
	if item == nil || item.objects == 0 || item.fields["metadata"] == nil {
		return nil, false
	}
	if !strings.HasSuffix(c.list, "List") && (item.fields["kind"] == nil || item.fields["apiVersion"] == nil) {
		return nil, false
	}
	if item.fields["metadata"].fields["name"] == nil {
		return nil, false
	}
	return c, c.read(text)
}

// read goes through the objects, one in memory at a time.
func (c *cluster) read(text []byte) bool {
	dec := newDecoder(text)
	if c.path != "." {
		if _, err := dec.ReadToken(); err != nil {
			return false
		}
		for {
			name, err := dec.ReadToken()
			if err != nil || name.Kind() != '"' {
				return false
			}
			if name.String() == "items" && dec.PeekKind() == '[' {
				break
			}
			if err := dec.SkipValue(); err != nil {
				return false
			}
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	lines := lineFinder{text: text}
	var o object
	for dec.PeekKind() == '{' {
		at := dec.InputOffset()
		raw, err := dec.ReadValue()
		if err != nil {
			return false
		}
		o = object{}
		_ = json.Unmarshal(raw, &o) // what is of another type stays empty
		c.object(&o, lines.at(at))
	}
	return c.n > 0
}

func (c *cluster) object(o *object, line int) {
	if o.Kind == "" {
		o.Kind = strings.TrimSuffix(c.list, "List")
	}
	index := c.n
	c.n++
	c.kinds.add(o.Kind)
	if o.Metadata.Namespace != "" {
		c.spaces.add(o.Metadata.Namespace)
	}
	if o.Status.Phase != "" {
		c.phases.add(o.Status.Phase)
	}
	if why := o.ailment(); why != "" {
		c.illAll++
		if len(c.ill) < linesMost {
			c.ill = append(c.ill, ill{index, line, o.name() + " " + clip(why, 300)})
		}
		return
	}
	title := clip(o.Kind+" "+o.Metadata.Namespace, short)
	g := c.by[title]
	if g == nil {
		if len(c.groups) >= 500 {
			return
		}
		g = &group{title: title}
		c.by[title] = g
		c.groups = append(c.groups, g)
	}
	if g.n++; len(g.names) < namesMost {
		g.names = append(g.names, clip(o.Metadata.Name, 80))
	}
}

func (o *object) name() string {
	name := o.Kind + " "
	if o.Metadata.Namespace != "" {
		name += o.Metadata.Namespace + "/"
	}
	return name + o.Metadata.Name
}

// ailment says why an object is not as it should be, "" if it is.
func (o *object) ailment() string {
	var why []string
	if o.Kind == "Event" {
		if o.Type != "Warning" {
			return ""
		}
		return fmt.Sprintf("%s %s/%s x%d: %s", o.Reason, o.InvolvedObject.Kind, o.InvolvedObject.Name, max(o.Count, 1), o.Message)
	}
	st := &o.Status
	switch st.Phase {
	case "", "Running", "Succeeded", "Bound", "Active", "Available":
	default:
		why = append(why, st.Phase)
	}
	if st.Reason != "" {
		why = append(why, strings.TrimSpace(st.Reason+" "+st.Message))
	}
	for _, list := range [][]container{st.InitContainerStatuses, st.ContainerStatuses} {
		for _, c := range list {
			if text := c.ailment(st.Phase); text != "" {
				why = append(why, text)
			}
		}
	}
	if o.Spec.Replicas != nil && (o.Kind == "Deployment" || o.Kind == "StatefulSet" || o.Kind == "ReplicaSet") && st.ReadyReplicas < *o.Spec.Replicas {
		why = append(why, fmt.Sprintf("%d of %d replicas ready", st.ReadyReplicas, *o.Spec.Replicas))
	}
	if st.NumberReady < st.DesiredNumberScheduled {
		why = append(why, fmt.Sprintf("%d of %d ready", st.NumberReady, st.DesiredNumberScheduled))
	}
	if o.Kind == "Job" && st.Failed > 0 {
		why = append(why, fmt.Sprintf("%d failed", st.Failed))
	}
	for _, c := range st.Conditions {
		if c.bad(st.Phase) {
			why = append(why, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
		}
	}
	if o.Metadata.DeletionTimestamp != "" {
		why = append(why, "being deleted since "+o.Metadata.DeletionTimestamp)
	}
	if o.Spec.Unschedulable {
		why = append(why, "unschedulable")
	}
	return strings.Join(why, "; ")
}

// bad: a condition that should be otherwise. A pod that ended is not ready, and
// that is well; why containers are not ready they say themselves.
func (c condition) bad(phase string) bool {
	switch c.Type {
	case "Ready", "Available", "Healthy", "Synced", "Established", "PodScheduled":
		return c.Status != "True" && c.Status != "" && phase != "Succeeded"
	case "Failed", "Degraded", "Stalled", "ReplicaFailure", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable":
		return c.Status == "True"
	}
	return false
}

// restarts is how many restarts of a container are worth a word.
const restarts = 5

func (c container) ailment(phase string) string {
	var text string
	switch {
	case c.State.Waiting != nil:
		text = c.State.Waiting.Reason
		if c.State.Waiting.Message != "" {
			text += " (" + clip(c.State.Waiting.Message, 100) + ")"
		}
	case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
		text = fmt.Sprintf("%s, exit code %d", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
	case c.State.Terminated == nil && !c.Ready && phase == "Running":
		text = "not ready"
	case c.RestartCount < restarts:
		return ""
	}
	if text == "" && c.RestartCount < restarts {
		return ""
	}
	if c.RestartCount > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s, %s", text, many(c.RestartCount, "restart")))
	}
	if last := c.LastState.Terminated; last != nil && last.ExitCode != 0 {
		text += fmt.Sprintf(", last exit code %d %s", last.ExitCode, last.Reason)
	}
	return "container " + c.Name + " " + strings.TrimPrefix(text, ", ")
}

// draw lists what is not well first, then names, then fields.
func (c *cluster) draw(s *sheet, w *walk, text []byte) {
	total := lineCount(text)
	list := c.list
	if list == "" {
		list = "list"
	}
	s.head(must, fmt.Sprintf("digest of a Kubernetes %s: %s, %s, %s", list, many(c.n, "object"), many(total, "line"), size(len(text))))
	s.head(must+2, fmt.Sprintf("Paths are for jq on the full result: object 7 is %s[7].%s", strings.TrimSuffix(c.path, "."), linesHint(total)))
	s.add(must+3, "kinds: "+c.kinds.top(12))
	if c.spaces.n > 0 {
		s.add(must+4, "namespaces: "+c.spaces.top(20))
	}
	if c.phases.n > 0 {
		s.add(must+4, "phases: "+c.phases.top(12))
	}
	s.head(10, fmt.Sprintf("not well: %d", c.illAll))
	more := s.list(func(left, _ int) string { return "and " + many(left, "more object") + " not well" })
	for i, o := range c.ill {
		s.entry(more, 11+min(i, 20), 1, fmt.Sprintf("  %s: %s", place(o.index, o.line, total), o.text))
	}
	s.unlisted(more, c.illAll-len(c.ill), 0)
	c.drawNames(s)
	w.drawShape(s, might)
}

// place is where the element of a list is: its index and, if the text has lines
// to speak of, its line.
func place(index, line, total int) string {
	switch {
	case total < 3:
		return fmt.Sprintf("[%d]", index)
	case index < 0:
		return fmt.Sprintf("L%d", line)
	}
	return fmt.Sprintf("[%d] L%d", index, line)
}

func linesHint(total int) string {
	if total > 2 {
		return " L numbers are its line numbers."
	}
	return ""
}

// drawNames lists the names of what is well, as many to a line as fit.
func (c *cluster) drawNames(s *sheet) {
	s.title(should-20, "well:")
	more := s.list(func(left, weight int) string { return "and " + many(weight, "more object") })
	groups := slices.Clone(c.groups)
	slices.SortStableFunc(groups, func(a, b *group) int { return strings.Compare(a.title, b.title) })
	for _, g := range groups {
		title := fmt.Sprintf("  %s (%d): ", strings.TrimSpace(g.title), g.n)
		row, n, rank := title, 0, should-10
		for _, name := range g.names {
			if n > 0 && len(row)+len(name)+2 > s.width {
				s.entry(more, rank, n, row)
				row, n, rank = "    ", 0, should+10
			}
			if n > 0 {
				row += ", "
			}
			row += name
			n++
		}
		s.entry(more, rank, n, row)
		s.unlisted(more, 0, g.n-len(g.names))
	}
}
