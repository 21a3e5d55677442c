// Package config turns the configuration file into one typed, defaulted, validated and immutable value.
//
// The struct tags of Config and the types below it are the single description of every setting: key, kind,
// default, bounds, choices and a line of documentation. Decoding, defaults, environment overrides, the JSON
// Schema for editors and the reference in docs/configuration.md all follow from them.
//
// A file goes through these steps:
//
//	text → tree of values with places     tree_yaml.go, tree_json.go
//	     → foreign forms made ours        foreign.go
//	     → typed values, ${VAR} replaced  decode.go, expand.go, check.go
//	     → checks across settings         server.go, remote.go
//	     → environment overrides          env.go
//
// No step stops at the first problem: every one is collected with its place and reported together, because
// somebody who repairs a file wants to do it once. Messages quote values as the file has them, never what a
// variable held, and nothing of headers, tokens and addresses.
package config
