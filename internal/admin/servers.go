package admin

import (
	"net/http"

	"mcp-aggregator/internal/fault"
)

func (s *server) info(w http.ResponseWriter, _ *http.Request) error {
	if s.Actions.Info == nil {
		return errAbsent
	}
	info := s.Actions.Info()
	return s.answer(w, struct {
		Info
		Limits map[string]any `json:"limits"`
	}{info, settings(info.Limits)})
}

func (s *server) listServers(w http.ResponseWriter, _ *http.Request) error {
	if s.Actions.Servers == nil {
		return errAbsent
	}
	out := []Server{}
	for _, st := range s.Actions.Servers() {
		out = append(out, viewOf(st))
	}
	return s.answer(w, map[string][]Server{"servers": out})
}

func (s *server) getServer(w http.ResponseWriter, r *http.Request) error {
	v, err := s.find(r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.answer(w, v)
}

// find shows one server with its configuration.
func (s *server) find(name string) (Server, error) {
	if s.Actions.Servers == nil {
		return Server{}, errAbsent
	}
	for _, st := range s.Actions.Servers() {
		if st.Server != name {
			continue
		}
		v := viewOf(st)
		if s.Actions.Config != nil {
			if c := s.Actions.Config(name); c != nil {
				v.Settings = settings(*c.Redacted())
			}
		}
		return v, nil
	}
	return Server{}, fault.Of(fault.NotFound, name, "there is no such server")
}

// control makes the handler of an action on one server. The answer shows the server
// as it is right afterwards, which is seldom its final state: actions do not wait.
func (s *server) control(what string, do func(string) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if do == nil {
			return errAbsent
		}
		name := r.PathValue("name")
		if err := do(name); err != nil {
			return err
		}
		s.Log.Info("asked for over the admin side", "action", what, "server", name, "peer", r.RemoteAddr)
		v, err := s.find(name)
		if err != nil {
			return err
		}
		return s.answer(w, v)
	}
}

func (s *server) logs(w http.ResponseWriter, r *http.Request) error {
	if s.Actions.Logs == nil {
		return errAbsent
	}
	lines, err := s.Actions.Logs(r.PathValue("name"))
	if err != nil {
		return err
	}
	if lines == nil {
		lines = []string{}
	}
	return s.answer(w, map[string][]string{"lines": lines})
}

func (s *server) setServers(w http.ResponseWriter, r *http.Request) error {
	if s.Actions.SetServers == nil {
		return errAbsent
	}
	body, err := readBody(r, maxServers)
	if err != nil {
		return err
	}
	plan, err := s.Actions.SetServers(r.Context(), body)
	return s.planned(w, plan, err)
}

func (s *server) reload(w http.ResponseWriter, r *http.Request) error {
	if s.Actions.Reload == nil {
		return errAbsent
	}
	plan, err := s.Actions.Reload(r.Context())
	return s.planned(w, plan, err)
}

// planned answers with what was done. Null is no list to programs, so there is none.
func (s *server) planned(w http.ResponseWriter, p Plan, err error) error {
	switch {
	case err != nil:
		return err
	case !p.Applied && len(p.Errors) > 0:
		return configurationError(p.Errors)
	}
	for _, list := range []*[]string{&p.Added, &p.Removed, &p.Changed, &p.Errors} {
		if *list == nil {
			*list = []string{}
		}
	}
	return s.answer(w, p)
}
