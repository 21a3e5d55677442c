package config

import (
	"reflect"
	"time"
)

// Config is the whole configuration. It is never modified after Load, so it may be
// shared without locks; a reload makes a new one.
type Config struct {
	Path    string    `yaml:"-"` // the file it was read from
	Servers []*Server `yaml:"servers" doc:"The MCP servers behind the aggregator: a name for each, which also prefixes its tools and prompts."`

	HTTP    HTTP    `yaml:"http" restart:"yes" doc:"The HTTP side that clients connect to."`
	Admin   Admin   `yaml:"admin" restart:"yes" doc:"The HTTP side for people, probes and commands: health, metrics, status, control."`
	Catalog Catalog `yaml:"catalog" doc:"The merged lists of tools, prompts and resources."`
	Limits  Limits  `yaml:"limits" restart:"yes" doc:"Bounds on everything a client or a server can make grow."`
	Log     Log     `yaml:"log" doc:"Logging, always on standard error."`

	Retry   Retry             `yaml:"retry" doc:"Repeating calls, only those that cannot have been executed or may be executed twice."`
	Breaker Breaker           `yaml:"breaker" doc:"Circuit breakers, one for each tool of each server."`
	Queues  map[string]*Queue `yaml:"queues" doc:"Queues that limit how many calls run at the same time. Servers and tools are put into them by name."`

	Results     Results                `yaml:"results" short:"policy" doc:"What happens to large results of tools. A policy alone may stand for the section."`
	Summarizers map[string]*Summarizer `yaml:"summarizers" doc:"Models that make summaries, by name."`
	Mask        Mask                   `yaml:"mask" doc:"What is hidden in results before anybody sees them. Secrets of this file always are."`

	CallTimeout    time.Duration `yaml:"call_timeout" env:"MCP_INVOCATION_TIMEOUT_MS" unit:"1ms" default:"90s" min:"1ms" max:"24h" doc:"Longest call of servers that have no call_timeout of their own."`
	AcquireTimeout time.Duration `yaml:"acquire_timeout" restart:"yes" default:"60s" min:"1ms" max:"1h" doc:"How long a call waits for a server that is being started or restarted."`
	StateDir       string        `yaml:"state_dir" restart:"yes" doc:"Folder for what outlives a restart: the last lists of each server, open breakers. off keeps nothing; absent is mcp-aggregator in $XDG_STATE_HOME or ~/.local/state."`
	StateKey       string        `yaml:"state_key" kind:"key" restart:"yes" doc:"Secret that seals the state which modern clients carry between the rounds of a call: 32 bytes as hex or base64, the same for all processes behind one address. Absent: a new one at each start."`
	Watch          bool          `yaml:"watch" restart:"yes" default:"true" doc:"Reload when this file changes. SIGHUP and the admin side reload always."`

	StartConcurrency int           `yaml:"start_concurrency" restart:"yes" default:"8" min:"1" max:"1000" doc:"How many servers are started at the same time."`
	ListWait         time.Duration `yaml:"list_wait" restart:"yes" default:"1.5s" max:"10m" doc:"How long the first list waits for servers that are still starting; later ones arrive as list changes."`
	Startup          string        `yaml:"startup" default:"open" enum:"open strict" doc:"open serves with the servers that work; strict is ready only when every server has connected."`

	Notes []Problem `yaml:"-"` // what was skipped or changed in a foreign file, worth showing but no reason to stop
}

// Default returns the configuration of a file that says nothing: no servers and every default.
func Default() *Config {
	c := new(Config)
	setDefaults(rootFields, reflect.ValueOf(c).Elem())
	return c
}

// Server is one upstream MCP server. Build it with DefaultServer or Load; both fill in the defaults.
// Printing one (any fmt verb, slog, JSON) shows it redacted.
type Server struct {
	Name string `yaml:"-"` // the key under servers, unique
	Type Type   `yaml:"type" enum:"stdio http sse websocket builtin claudeai-proxy" alias:"streamable-http=http streamableHttp=http streamable_http=http ws=websocket wss=websocket sdk=builtin" doc:"Transport. Inferred when absent: command is stdio, url is http (websocket for ws:// and wss://), builtin is builtin."`

	Enabled bool `yaml:"enabled" default:"true" doc:"Whether the server is started and its tools are listed."`

	Command string            `yaml:"command" for:"stdio" doc:"Program to start. It is run directly, not through a shell."`
	Args    []string          `yaml:"args" for:"stdio" doc:"Arguments of the program."`
	Env     map[string]string `yaml:"env" for:"stdio" doc:"Environment variables set on top of the aggregator's own."`
	Cwd     string            `yaml:"cwd" for:"stdio" doc:"Working directory; relative to the folder of this file. The aggregator's own when absent."`

	URL            string            `yaml:"url" for:"http sse websocket claudeai-proxy" doc:"Address of a remote server."`
	ServerID       string            `yaml:"server_id" for:"claudeai-proxy" doc:"Replaces {server_id} or {id} in url."`
	Headers        map[string]string `yaml:"headers" for:"http sse websocket claudeai-proxy" doc:"Headers sent with every request."`
	BearerToken    string            `yaml:"bearer_token" for:"http sse websocket claudeai-proxy" doc:"Sent as Authorization: Bearer."`
	TLS            TLS               `yaml:"tls" for:"http sse websocket claudeai-proxy" doc:"TLS settings of the connection."`
	ForwardHeaders []string          `yaml:"forward_headers" each:"forward" for:"http sse websocket claudeai-proxy" doc:"Headers of the client's request that are passed on. Credentials cannot be forwarded."`
	Timeout        time.Duration     `yaml:"timeout" for:"http sse websocket claudeai-proxy" default:"0s" max:"24h" doc:"Longest wait for connecting and for the header of an answer. 0s: only init_timeout and call_timeout count."`

	Builtin string `yaml:"builtin" for:"builtin" doc:"Name of a server inside this program."`

	Protocol    string        `yaml:"protocol" default:"auto" enum:"auto legacy modern" doc:"Protocol era: auto asks the server; legacy is 2025-11-25 and older, modern 2026-07-28."`
	Prefix      *string       `yaml:"prefix" doc:"Replaces the server's name in the names of its tools and prompts. \"\" exposes them under their own names."`
	InitTimeout time.Duration `yaml:"init_timeout" default:"30s" min:"1ms" max:"24h" doc:"Longest start: process, connection and handshake."`
	CallTimeout time.Duration `yaml:"call_timeout" default:"90s" min:"1ms" max:"24h" doc:"Longest call. The general call_timeout when absent."`

	CallIdleTimeout time.Duration `yaml:"call_idle_timeout" default:"0s" max:"24h" doc:"Longest silence in a call; each progress notification starts it anew. 0s: only call_timeout counts."`
	Sharing         string        `yaml:"sharing" default:"shared" enum:"shared session call" doc:"Who shares a connection: all clients, only the calls of one client session, or nobody."`
	Asks            string        `yaml:"asks" default:"promote" enum:"promote serialize refuse" doc:"What happens when the server asks a client something (sampling, elicitation, roots) where several share its connection: promote gives each session a connection of its own from then on, serialize lets calls that can be asked run one at a time, refuse refuses what cannot be attributed."`
	Lazy            bool          `yaml:"lazy" default:"false" doc:"Start the server when it is first used. Its lists are those of its last run; without one it is started once to learn them."`
	IdleTimeout     time.Duration `yaml:"idle_timeout" default:"0s" max:"720h" doc:"Stop the server after this time without calls, to be started again by the next. 0s: never."`
	Probe           Probe         `yaml:"probe" short:"method" doc:"How the health of the connection is checked. A method alone may stand for the section."`
	Queue           string        `yaml:"queue" doc:"The queue that calls of this server wait in; one of queues."`
	RateLimit       RateLimit     `yaml:"rate_limit" short:"per_second" doc:"Most calls per second; more are refused with the time to wait. A number alone may stand for the section."`

	Tools        Filter              `yaml:"tools" doc:"Which tools are exposed."`
	Prompts      Filter              `yaml:"prompts" without:"read_only_only hide_destructive" doc:"Which prompts are exposed."`
	Resources    Filter              `yaml:"resources" without:"read_only_only hide_destructive" doc:"Which resources are exposed, by URI."`
	Instructions bool                `yaml:"instructions" default:"true" doc:"Whether the server's instructions are passed on."`
	ToolVersions map[string][]string `yaml:"tool_versions" doc:"Versions of a tool that may be used; a tool with another version is shown as disabled."`

	Results ResultRules `yaml:"results" short:"policy" doc:"What happens to large results of its tools. A policy alone may stand for the section."`
	Mask    ServerMask  `yaml:"mask" doc:"What is hidden in its results before anybody sees them."`

	ToolOverrides map[string]*ToolOverride `yaml:"tool_overrides" doc:"Settings for single tools, by the server's own name of the tool."`

	secrets []string // values taken from the environment and the like, see Secrets
	telling []string // those of them that came under a telling name, see Credentials
}

// Equal reports whether two servers are configured alike, so that a running one need not be touched.
// Where the values came from makes no difference.
func (s *Server) Equal(o *Server) bool {
	if s == nil || o == nil {
		return s == o
	}
	a, b := *s, *o
	a.secrets, b.secrets = nil, nil
	a.telling, b.telling = nil, nil
	return reflect.DeepEqual(a, b)
}

// SameConnection reports whether a running connection to s can go on under o: what differs, if anything,
// is only how its offers are shown and its calls are treated.
func (s *Server) SameConnection(o *Server) bool {
	a, b := *s, *o
	for _, c := range []*Server{&a, &b} {
		c.secrets, c.telling = nil, nil
		c.Prefix, c.ForwardHeaders, c.CallTimeout, c.CallIdleTimeout = nil, nil, 0, 0
		c.Asks = ""
		c.Lazy, c.IdleTimeout, c.Probe, c.Queue, c.RateLimit = false, 0, Probe{}, "", RateLimit{}
		c.Tools, c.Prompts, c.Resources, c.Instructions = Filter{}, Filter{}, Filter{}, false
		c.ToolVersions, c.ToolOverrides = nil, nil
		c.Results, c.Mask = ResultRules{}, ServerMask{}
	}
	return reflect.DeepEqual(a, b)
}

// DefaultServer returns an enabled server with every default and no type.
func DefaultServer(name string) *Server { return &defaultEntry(name).Server }

// Type is the transport of a server.
type Type string

// The transports (UP-1).
const (
	TypeStdio     Type = "stdio"          // a child process
	TypeHTTP      Type = "http"           // Streamable HTTP
	TypeSSE       Type = "sse"            // the older HTTP+SSE
	TypeWebSocket Type = "websocket"      // ws:// or wss://
	TypeBuiltin   Type = "builtin"        // in this process
	TypeClaudeAI  Type = "claudeai-proxy" // Streamable HTTP through claude.ai, by server id
)

// Types lists the transports.
func Types() []Type {
	return []Type{TypeStdio, TypeHTTP, TypeSSE, TypeWebSocket, TypeBuiltin, TypeClaudeAI}
}

// Filter selects by name. A pattern is a glob ("*", "any", "read_*"), compared without regard to case.
// An empty Allow allows everything; Deny wins.
type Filter struct {
	Allow           []string `yaml:"allow" each:"glob" doc:"Patterns of names to expose: globs, * or any. Everything when absent."`
	Deny            []string `yaml:"deny" each:"glob" doc:"Patterns of names to hide. Wins over allow."`
	ReadOnlyOnly    bool     `yaml:"read_only_only" default:"false" doc:"Only tools that say they change nothing."`
	HideDestructive bool     `yaml:"hide_destructive" default:"false" doc:"Hide tools that may destroy something."`
}

// TLS holds the settings of a TLS connection to a server. Paths are absolute after Load.
type TLS struct {
	CAFile             string `yaml:"ca_file" doc:"PEM file with the authorities to trust instead of the system's."`
	CertFile           string `yaml:"cert_file" doc:"PEM file with the client's certificate; needs key_file."`
	KeyFile            string `yaml:"key_file" doc:"PEM file with the client's key; needs cert_file."`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" default:"false" doc:"Accept any certificate. Only for tests."`
}

// Probe is how the health of a connection is checked.
type Probe struct {
	Method   string        `yaml:"method" default:"auto" enum:"auto ping list_tools none" doc:"What is asked: auto is ping where the protocol revision has it, else list_tools."`
	Interval time.Duration `yaml:"interval" default:"15s" min:"100ms" max:"24h" doc:"How often."`
	Timeout  time.Duration `yaml:"timeout" default:"5s" min:"10ms" max:"1h" doc:"How long an answer may take."`
	Failures int           `yaml:"failures" default:"2" min:"1" max:"100" doc:"Failures in a row after which the connection is made anew, unless calls on it succeed."`
}

// RateLimit bounds the calls of a server (token bucket).
type RateLimit struct {
	PerSecond float64 `yaml:"per_second" default:"0" max:"1000000" doc:"Calls per second in the long run. 0: no limit."`
	Burst     int     `yaml:"burst" default:"0" max:"1000000" doc:"Calls at once. 0: those of one second, at least 1."`
}

// ToolOverride are settings of one tool. What is absent is as for the whole server.
type ToolOverride struct {
	CallTimeout     time.Duration `yaml:"call_timeout" default:"0s" max:"24h" doc:"Longest call of this tool. 0s: that of the server."`
	CallIdleTimeout time.Duration `yaml:"call_idle_timeout" default:"0s" max:"24h" doc:"Longest silence in a call of this tool. 0s: that of the server."`
	Queue           string        `yaml:"queue" doc:"The queue that calls of this tool wait in instead of that of the server."`
	Idempotent      *bool         `yaml:"idempotent" doc:"Whether executing a call twice does no harm, so that a lost one may be repeated. Absent: what the tool says of itself."`
	Results         ResultRules   `yaml:"results" short:"policy" doc:"What happens to large results of this tool. A policy alone may stand for the section."`
	Fallback        []Fallback    `yaml:"fallback" short:"tool" doc:"Tools to call when this one cannot be, in this order. A name alone may stand for an entry."`
}

// A Fallback is a tool that stands in for another.
type Fallback struct {
	Tool      string            `yaml:"tool" doc:"The tool, as server.tool."`
	Arguments map[string]string `yaml:"arguments" doc:"Names of arguments that differ: the name here, then the name there. All others keep theirs."`
}

// Retry is how calls are repeated (specification of the outcomes: package fault).
type Retry struct {
	MaxAttempts int           `yaml:"max_attempts" default:"3" min:"1" max:"20" doc:"Attempts altogether; 1 repeats nothing."`
	Base        time.Duration `yaml:"base" env:"MCP_RETRY_BASE_MS" unit:"1ms" default:"500ms" min:"1ms" max:"1h" doc:"Pause before the second attempt, ±20 %."`
	Factor      float64       `yaml:"factor" default:"2" min:"1" max:"100" doc:"How much longer each further pause is."`
	MaxDelay    time.Duration `yaml:"max_delay" env:"MCP_RETRY_MAX_DELAY_MS" unit:"1ms" default:"30s" min:"1ms" max:"1h" doc:"Longest pause; a server that asks for a longer one is not called again."`
	Budget      int           `yaml:"budget" default:"20" min:"0" max:"100" doc:"Repeated calls in percent of all calls of a server; three at once are always allowed."`
}

// Breaker is how circuit breakers work.
type Breaker struct {
	Enabled  bool          `yaml:"enabled" default:"true" doc:"Whether a tool that keeps failing is left alone for a while."`
	Failures int           `yaml:"failures" env:"MCP_CIRCUIT_FAILURE_THRESHOLD" default:"5" min:"1" max:"1000000" doc:"Failures in a row that open it. Only failures of the server count, not errors that a tool reports."`
	Cooldown time.Duration `yaml:"cooldown" env:"MCP_CIRCUIT_COOLDOWN" unit:"1s" default:"60s" min:"1ms" max:"24h" doc:"How long it stays open."`
	HalfOpen int           `yaml:"half_open" env:"MCP_CIRCUIT_HALF_OPEN_MAX" default:"3" min:"1" max:"1000" doc:"Calls let through afterwards to find out; that many successes close it."`
}

// Queue limits how many calls run at the same time.
type Queue struct {
	Slots   int           `yaml:"slots" default:"4" min:"1" max:"100000" doc:"Calls that run at the same time."`
	Waiting int           `yaml:"waiting" default:"64" min:"0" max:"1000000" doc:"Calls that wait; more are refused."`
	Timeout time.Duration `yaml:"timeout" default:"30s" min:"1ms" max:"24h" doc:"Longest wait."`
}

// Admin is the side for people, probes and commands.
type Admin struct {
	Addr  string `yaml:"addr" kind:"optaddr" doc:"Address to listen on, host:port. Absent: on the HTTP side for clients if that is a loopback address. off: nowhere but health checks."`
	Token string `yaml:"token" doc:"Bearer token that everything but health checks wants. Needed beyond loopback."`
}

// HTTP is the side that clients connect to.
type HTTP struct {
	Addr                 string        `yaml:"addr" kind:"addr" default:"127.0.0.1:8080" doc:"Address to listen on, host:port."`
	Path                 string        `yaml:"path" kind:"path" default:"/mcp" doc:"Path of the endpoint."`
	AllowedHosts         []string      `yaml:"allowed_hosts" each:"host" doc:"Host header values accepted besides the loopback names and the address itself. Names may carry a port."`
	AllowedOrigins       []string      `yaml:"allowed_origins" each:"origin" doc:"Origins of web pages that may connect, such as https://app.example.com; * for all."`
	AllowUnauthenticated bool          `yaml:"allow_unauthenticated" default:"false" doc:"Listen beyond loopback although clients need no credentials."`
	SSE                  bool          `yaml:"sse" default:"true" doc:"Also serve the older HTTP+SSE transport at /sse and /messages."`
	KeepAlive            time.Duration `yaml:"keep_alive" default:"20s" min:"1s" max:"1h" doc:"How often an idle stream gets a comment, so that proxies keep it open."`
	SessionIdle          time.Duration `yaml:"session_idle" default:"30m" min:"1s" max:"720h" doc:"A session without requests and open streams ends after this time."`
	MaxSessions          int           `yaml:"max_sessions" default:"10000" min:"1" max:"1000000" doc:"Sessions at the same time; more are refused."`
}

// Catalog shapes the merged lists.
type Catalog struct {
	NameLimit         int  `yaml:"name_limit" default:"64" min:"16" max:"128" doc:"Longest exposed name of a tool or prompt; longer ones are shortened with a stable suffix."`
	PageSize          int  `yaml:"page_size" default:"1000" min:"1" max:"100000" doc:"Entries per page of a list."`
	Instructions      bool `yaml:"instructions" default:"true" doc:"Give clients the servers' instructions, one section for each server."`
	ResourceTools     bool `yaml:"resource_tools" default:"false" doc:"Also offer resources as the tools list_resources and read_resource, for clients that know tools only."`
	InstructionsLimit int  `yaml:"instructions_limit" kind:"size" default:"16KiB" min:"0" max:"1MiB" doc:"Longest merged instructions."`
}

// Limits bound what clients and servers can make grow. Sizes are bytes.
type Limits struct {
	Body           int           `yaml:"body" kind:"size" default:"4MiB" min:"1KiB" max:"1GiB" doc:"Request body of a client."`
	Headers        int           `yaml:"headers" kind:"size" default:"64KiB" min:"4KiB" max:"16MiB" doc:"Request headers of a client together."`
	HeaderCount    int           `yaml:"header_count" default:"100" min:"16" max:"10000" doc:"Number of request headers of a client."`
	ReadHeader     time.Duration `yaml:"read_header" default:"10s" min:"1ms" max:"1h" doc:"Time a client has to send its request headers."`
	BodyIdle       time.Duration `yaml:"body_idle" default:"30s" min:"1ms" max:"1h" doc:"Longest pause of a client in the middle of a body."`
	BodyTotal      time.Duration `yaml:"body_total" default:"60s" min:"1ms" max:"24h" doc:"Time a client has to send a whole body."`
	ConnectionIdle time.Duration `yaml:"connection_idle" default:"180s" min:"1s" max:"24h" doc:"An HTTP connection without requests is closed after this time."`
	Write          time.Duration `yaml:"write" default:"10s" min:"1ms" max:"1h" doc:"A client that takes nothing for this long loses its stream."`
	QueueMessages  int           `yaml:"queue_messages" default:"256" min:"1" max:"1000000" doc:"Messages waiting for one client; more are dropped and counted."`
	QueueBytes     int           `yaml:"queue_bytes" kind:"size" default:"1MiB" min:"1KiB" max:"1GiB" doc:"Size of the messages waiting for one client."`
	InFlight       int           `yaml:"in_flight" default:"256" min:"1" max:"100000" doc:"Calls of one session at the same time."`
	StdioLine      int           `yaml:"stdio_line" kind:"size" default:"16MiB" min:"4KiB" max:"1GiB" doc:"One message on standard input or output, of a server or a client."`
	Answer         int           `yaml:"answer" kind:"size" default:"64MiB" min:"4KiB" max:"1GiB" doc:"One answer or event of a remote server."`
	Pages          int           `yaml:"pages" default:"1000" min:"1" max:"1000000" doc:"Pages read of one list of a server."`
	Tools          int           `yaml:"tools" default:"20000" min:"1" max:"1000000" doc:"Entries kept of one list of a server."`
	List           time.Duration `yaml:"list" default:"30s" min:"1ms" max:"1h" doc:"Time a server has to answer one list with all its pages."`
	Relist         time.Duration `yaml:"relist" default:"1s" min:"0s" max:"1h" doc:"Least time between two listings of a server that keeps announcing changes."`
	Stderr         int           `yaml:"stderr" kind:"size" default:"64KiB" min:"0" max:"64MiB" doc:"Last part of a server's standard error that is kept."`
	SchemaBytes    int           `yaml:"schema_bytes" kind:"size" default:"256KiB" min:"1KiB" max:"64MiB" doc:"One schema of a tool; a tool with a larger one is rejected."`
	SchemaDepth    int           `yaml:"schema_depth" default:"128" min:"8" max:"1000" doc:"Nesting of one schema of a tool."`
	Description    int           `yaml:"description" kind:"size" default:"16KiB" min:"256" max:"16MiB" doc:"Description of a tool."`
	Discover       time.Duration `yaml:"discover" default:"3s" min:"1ms" max:"10m" doc:"Time a server has to answer the question for its protocol era, before the older handshake is tried."`
	StopInput      time.Duration `yaml:"stop_input" default:"2s" min:"0s" max:"10m" doc:"Time a server process has to end after its input is closed."`
	StopTerm       time.Duration `yaml:"stop_term" default:"2s" min:"0s" max:"10m" doc:"Time a server process has to end after SIGTERM, before it is killed."`
	Parked         int           `yaml:"parked" default:"1000" min:"1" max:"1000000" doc:"Calls that wait for a modern client to answer what a legacy server has asked; more are refused."`
	ParkedTTL      time.Duration `yaml:"parked_ttl" default:"5m" min:"1s" max:"24h" doc:"How long such a call waits for the client's answer."`
	Drain          time.Duration `yaml:"drain" default:"10s" min:"0s" max:"1h" doc:"Time calls in flight have to end when the aggregator stops."`
}

// Log says what is logged on standard error.
type Log struct {
	Level  string `yaml:"level" default:"info" enum:"debug info warn error" doc:"Least severe level that is logged."`
	Format string `yaml:"format" restart:"yes" default:"text" enum:"text json" doc:"text for people, json for machines."`
}
