package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// hidden stands for a value that is not shown.
const hidden = "***"

// minSecret is the shortest value treated as a secret: masking every "1" or "true" would blank out ordinary text.
const minSecret = 6

// secretName finds names that promise a secret: GITHUB_TOKEN, --api-key, X-Auth.
var secretName = regexp.MustCompile(`(?i)token|secret|passw|pwd|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth|bearer|cookie`)

// urlPassword finds the password of a URL in a text: behind the first colon of what stands before the last @.
var urlPassword = regexp.MustCompile(`(://[^/?#\s:@]*:)([^/?#\s]*)@`)

// Secrets lists the configured values that must never appear in logs, errors or answers, longest first: the
// credentials, every header value, and every value that a variable reference brought in. Values under six bytes
// are left out.
func (s *Server) Secrets() []string {
	all := append(s.credentials(), s.secrets...)
	for _, v := range s.Headers {
		all = append(all, headerValues(v)...)
	}
	return longestFirst(all)
}

// Credentials lists the secrets that are worth hiding wherever they stand, also in what tools return, longest first:
// the bearer token, header values, environment values and arguments with a telling name, the password and telling
// query values of the URL, passwords of URLs in arguments and the environment, and what variables with a telling
// name brought in.
func (s *Server) Credentials() []string { return longestFirst(s.credentials()) }

func (s *Server) credentials() []string {
	all := append([]string{s.BearerToken}, s.telling...)
	for name, v := range s.Headers {
		if secretName.MatchString(name) {
			all = append(all, headerValues(v)...)
		}
	}
	for name, v := range s.Env {
		if secretName.MatchString(name) {
			all = append(all, v)
		}
		all = append(all, urlPasswords(v)...)
	}
	for i, a := range s.Args {
		_, value := secretArgument(s.Args, i)
		all = append(append(all, value), urlPasswords(a)...)
	}
	if u, err := url.Parse(s.URL); err == nil {
		password, _ := u.User.Password()
		all = append(all, password)
		for name, values := range u.Query() {
			if secretName.MatchString(name) || strings.EqualFold(name, "key") {
				all = append(all, values...)
			}
		}
	}
	return all
}

// headerValues is a header's value and, of "Bearer abc", also the second word: both forms can leak.
func headerValues(v string) []string {
	if _, credentials, ok := strings.Cut(v, " "); ok {
		return []string{v, credentials}
	}
	return []string{v}
}

// longestFirst leaves out what is too short and what is there twice.
func longestFirst(all []string) []string {
	all = slices.DeleteFunc(all, func(v string) bool { return len(v) < minSecret })
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(all)
}

// Secrets lists those of all servers and of the aggregator itself.
func (c *Config) Secrets() []string { return c.gather((*Server).Secrets) }

// Credentials lists those of all servers and of the aggregator itself.
func (c *Config) Credentials() []string { return c.gather((*Server).Credentials) }

func (c *Config) gather(of func(*Server) []string) []string {
	all := []string{c.Admin.Token, c.StateKey}
	for _, m := range c.Summarizers {
		all = append(all, m.APIKey)
		for _, v := range m.Headers {
			all = append(all, headerValues(v)...)
		}
	}
	for _, s := range c.Servers {
		all = append(all, of(s)...)
	}
	return longestFirst(all)
}

// Redacted returns a copy that may be shown: environment and header values and the token are hidden,
// as are passwords and query values of the URL and what looks like a secret among the arguments.
func (s *Server) Redacted() *Server {
	r := *s
	r.secrets, r.telling = nil, nil
	r.Env, r.Headers = hideValues(s.Env), hideValues(s.Headers)
	if s.BearerToken != "" {
		r.BearerToken = hidden
	}
	mask := s.mask()
	r.URL, r.Command, r.Cwd, r.ServerID = redactURL(mask(s.URL)), mask(s.Command), mask(s.Cwd), mask(s.ServerID)
	r.Args = nil
	for i, a := range s.Args {
		if flag, value := secretArgument(s.Args, i); value != "" {
			a = flag + hidden
		}
		r.Args = append(r.Args, mask(urlPassword.ReplaceAllString(a, "${1}"+hidden+"@")))
	}
	return &r
}

// secretArgument returns the secret that an argument holds, "" if it holds none, and what stands before it: a flag
// with a telling name and =, or nothing if the flag is the argument before.
func secretArgument(args []string, i int) (before, value string) {
	flag, value, hasValue := strings.Cut(args[i], "=")
	if strings.HasPrefix(flag, "-") {
		if hasValue && secretName.MatchString(flag) {
			return flag + "=", value
		}
		return "", ""
	}
	if i == 0 || !strings.HasPrefix(args[i-1], "-") || strings.Contains(args[i-1], "=") || !secretName.MatchString(args[i-1]) {
		return "", ""
	}
	return "", args[i]
}

// urlPasswords lists the passwords of URLs in a text, as they are written and as they are meant.
func urlPasswords(text string) (all []string) {
	for _, m := range urlPassword.FindAllStringSubmatch(text, -1) {
		all = append(all, m[2])
		if plain, err := url.PathUnescape(m[2]); err == nil && plain != m[2] {
			all = append(all, plain)
		}
	}
	return all
}

// mask replaces the server's secrets in a text.
func (s *Server) mask() func(string) string {
	var pairs []string
	for _, v := range s.Secrets() {
		pairs = append(pairs, v, hidden)
	}
	return strings.NewReplacer(pairs...).Replace
}

func hideValues(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k := range m {
		out[k] = hidden
	}
	return out
}

// redactURL keeps what tells servers apart: scheme, host, path and the names of query parameters.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return hidden
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), "x")
	}
	query := u.Query()
	for k := range query {
		query[k] = []string{"x"}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// String names the server and how it is reached, redacted.
func (s Server) String() string {
	r := s.Redacted()
	switch s.Type {
	case TypeStdio:
		return fmt.Sprintf("%s (stdio: %s)", s.Name, strings.Join(append([]string{r.Command}, r.Args...), " "))
	case TypeBuiltin:
		return fmt.Sprintf("%s (builtin: %s)", s.Name, s.Builtin)
	}
	return fmt.Sprintf("%s (%s: %s)", s.Name, s.Type, r.URL)
}

// Format is String for every verb, so that no log line or error can show more.
func (s Server) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalJSON encodes the redacted server.
func (s Server) MarshalJSON() ([]byte, error) {
	type fields Server // without methods
	return json.Marshal((*fields)(s.Redacted()))
}
