package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/config"
)

// Environment variables that name a running aggregator. The second is also the setting
// admin.token.
const (
	adminVariable      = "MCP_ADMIN"
	adminTokenVariable = "MCP_ADMIN_TOKEN"
)

const aboutAdmin = `

The aggregator is looked for at the address given with --admin, else $MCP_ADMIN, else
admin.addr of the configuration, else its http.addr. If it wants a token, that is
$MCP_ADMIN_TOKEN or admin.token of the configuration.`

// Bounds on a conversation with a running aggregator.
const (
	adminTimeout = time.Minute
	maxAnswer    = 64 << 20
)

// adminClient talks to the admin side of a running aggregator.
type adminClient struct {
	base  string // URL without a slash at its end
	token string
	guess bool // nobody named the address
	http  *http.Client
}

// addAdminFlag adds the flag that names a running aggregator.
func (c *cli) addAdminFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.adminURL, "admin", "", "`URL` of the running aggregator's admin side (default: from the configuration)")
	must(cmd.RegisterFlagCompletionFunc("admin", cobra.NoFileCompletions))
}

// admin finds the running aggregator. The configuration is not needed if something
// else says where it is.
func (c *cli) admin() (*adminClient, error) {
	a := &adminClient{token: os.Getenv(adminTokenVariable), http: &http.Client{
		Timeout:       adminTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this address
	}}
	given := c.adminURL
	if given == "" {
		given = os.Getenv(adminVariable)
	}
	cfg, err := c.load()
	switch {
	case given != "":
		a.base, err = adminURL(given)
	case err != nil:
		fmt.Fprintf(c.err, "mcp-aggregator: without a configuration --admin URL says where the aggregator is\n")
	default:
		a.guess = true
		a.base, err = configuredAdmin(cfg)
	}
	if err != nil {
		return nil, err
	}
	if a.token == "" && cfg != nil {
		a.token = cfg.Admin.Token
	}
	return a, nil
}

// adminURL completes what was given to a URL: host:port and a port alone will do.
func adminURL(given string) (string, error) {
	if isPort(given) {
		given = net.JoinHostPort("127.0.0.1", given)
	}
	if !strings.Contains(given, "://") {
		given = "http://" + given
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usage("--admin wants an address such as http://127.0.0.1:8080; got %q", given)
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/"), nil
}

// configuredAdmin is where an aggregator with this configuration has its admin side.
func configuredAdmin(cfg *config.Config) (string, error) {
	addr := cfg.Admin.Addr
	switch addr {
	case "off":
		return "", &exit{exitConfig, fmt.Errorf("%s has admin.addr: off, so its aggregator answers no questions", cfg.Path)}
	case "":
		addr = cfg.HTTP.Addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "0" {
		return "", &exit{exitConfig, fmt.Errorf("%s does not say at which port the aggregator is; --admin URL does", cfg.Path)}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// get reads from a path of the API into v.
func (a *adminClient) get(ctx context.Context, path string, v any) error {
	return a.do(ctx, http.MethodGet, path, nil, v)
}

// do sends a request to a path of the API and reads the answer into v. The error of an
// aggregator that refuses is an *admin.Error.
func (a *adminClient) do(ctx context.Context, method, path string, body, v any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+strings.TrimSuffix(admin.PathAPI, "/")+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	res, err := a.http.Do(req)
	if err != nil {
		return a.unreachable(ctx, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return a.unreachable(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		return a.refusal(res.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return a.stranger()
	}
	return nil
}

// unreachable says what to do if nobody answers.
func (a *adminClient) unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	hint := "is it running?"
	if a.guess {
		hint = "is it running? One that serves another address is found with --admin URL; one with --stdio only needs admin.addr"
	}
	return fmt.Errorf("no aggregator answers at %s (%v); %s", a.base, err, hint)
}

// stranger is the error about something that answers, but is no aggregator.
func (a *adminClient) stranger() error {
	return fmt.Errorf("what answers at %s is not the admin side of an aggregator; it may be at another address: set admin.addr, or give it with --admin URL", a.base)
}

// refusal reads a typed error.
func (a *adminClient) refusal(status int, answer []byte) error {
	var body struct {
		Error *admin.Error `json:"error"`
	}
	if json.Unmarshal(answer, &body) != nil || body.Error == nil || body.Error.Code == "" {
		return a.stranger()
	}
	e := body.Error
	e.Status = status
	e.Message = printable(e.Message)
	return e
}

// refused returns the typed error in a chain, an empty one if there is none.
func refused(err error) *admin.Error {
	if e, ok := errors.AsType[*admin.Error](err); ok {
		return e
	}
	return &admin.Error{}
}

// servers asks how all servers are.
func (a *adminClient) servers(ctx context.Context) ([]admin.Server, error) {
	var out struct{ Servers []admin.Server }
	err := a.get(ctx, "/servers", &out)
	return out.Servers, err
}

// unknownServer makes the error about a server that does not exist one that names those
// that do.
func (a *adminClient) unknownServer(ctx context.Context, name string, err error) error {
	if refused(err).Status != http.StatusNotFound {
		return err
	}
	servers, listed := a.servers(ctx)
	if listed != nil {
		return err
	}
	var names []string
	for _, s := range servers {
		names = append(names, printable(s.Name))
	}
	return usage("the aggregator has no server %q; its servers are %s", name, strings.Join(names, ", "))
}

// completeServer completes the names of servers, asking the running aggregator.
func (c *cli) completeServer(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	a, err := c.admin()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	servers, err := a.servers(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, s := range servers {
		names = append(names, printable(s.Name))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
