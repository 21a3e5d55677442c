package admin

import (
	"encoding/json"
	"net/http"
	"strings"

	"mcp-aggregator/internal/catalog"
)

// maxDescription bounds the descriptions in the list of tools, in characters.
const maxDescription = 200

func (s *server) tools(w http.ResponseWriter, r *http.Request) error {
	if s.Actions.Snapshot == nil {
		return errAbsent
	}
	stale := map[string]bool{} // server → its lists are those of an earlier connection
	if s.Actions.Servers != nil {
		for _, st := range s.Actions.Servers() {
			stale[st.Server] = st.Stale
		}
	}
	only := r.URL.Query().Get("server")
	out := Tools{Tools: []Tool{}, Problems: []Problem{}}
	for _, e := range s.Actions.Snapshot().Entries(catalog.Tools) {
		if only == "" || only == e.Server {
			out.Tools = append(out.Tools, Tool{
				Name: e.Exposed, Server: e.Server, Own: e.Name, Description: described(e.Def),
				ReadOnly: e.ReadOnly, Destructive: e.Destructive, Stale: stale[e.Server],
			})
		}
	}
	if s.Actions.Problems != nil {
		for _, p := range s.Actions.Problems() {
			if p.Kind == catalog.Tools && (only == "" || only == p.Server) {
				out.Problems = append(out.Problems, problemOf(p))
			}
		}
	}
	return s.answer(w, out)
}

// described is the beginning of a definition's description on one line, its title
// without one.
func described(def []byte) string {
	var d struct{ Title, Description string }
	if json.Unmarshal(def, &d) != nil { // of another type than the protocol has
		return ""
	}
	if d.Description == "" {
		d.Description = d.Title
	}
	runes := []rune(strings.Join(strings.Fields(d.Description), " "))
	if len(runes) > maxDescription {
		runes = append(runes[:maxDescription-1], '…')
	}
	return string(runes)
}
