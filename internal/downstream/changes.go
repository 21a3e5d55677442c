package downstream

import "mcp-aggregator/internal/catalog"

// listChange is one kind of list change and how the eras spell it.
type listChange struct {
	kind    catalog.Kind
	filter  string // member of the filter of subscriptions/listen
	method  string // of the notification
	message []byte // the whole notification for legacy clients
	of      func(*catalog.Changes) *bool
}

var listChanges = []listChange{
	{
		catalog.Tools, "toolsListChanged", "notifications/tools/list_changed",
		[]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`),
		func(c *catalog.Changes) *bool { return &c.Tools },
	},
	{
		catalog.Prompts, "promptsListChanged", "notifications/prompts/list_changed",
		[]byte(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`),
		func(c *catalog.Changes) *bool { return &c.Prompts },
	},
	{
		catalog.Resources, "resourcesListChanged", "notifications/resources/list_changed",
		[]byte(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`),
		func(c *catalog.Changes) *bool { return &c.Resources },
	},
}
