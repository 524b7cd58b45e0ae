package house

// logCases break what docs/reference/logs.md and the source say of each other.
func logCases() []rulecase {
	const doc = "| `area.what` | info | `peer`, `error` | x |\n| `peer` | x |\n| `error` | x |\n"
	const call = `log.Info("area.what", "peer", p, "error", err)`
	in := func(doc, body string) map[string]string {
		return map[string]string{logsFile: doc, "node/a.go": "package node\nfunc f() {\n" + body + "\n}\n"}
	}
	return []rulecase{
		{"logged as documented", Logs, in(doc, call), nil},
		{"keys in two calls", Logs, in(doc, `n.log.Info("area.what", "peer", p); o.Logger.Warn("area.what", "error", err)`), nil},
		{"with a context and a level", Logs, in(doc, call+`; n.cfg.Logger.Log(ctx, level, "area.what", "bytes", n); log.WarnContext(ctx, "area.more")`), []string{logsFile + ":1 error, bytes", logsFile + ":1 area.more is not"}},
		{"no logger", Logs, in(doc, call+`; t.Error("anything")`), nil},
		{"an event that is a sentence", Logs, in(doc, call+`; log.Warn("it went wrong")`), []string{"node/a.go:3 not a literal like area.what"}},
		{"an event that is made", Logs, in(doc, call+`; log.Warn("area."+x)`), []string{"node/a.go:3 not a literal like area.what"}},
		{"a key that is made", Logs, in(doc, call+`; log.Warn("area.what", key, 1)`), []string{"node/a.go:3 not a literal in snake_case"}},
		{"a key in camel case", Logs, in(doc, call+`; log.Warn("area.what", "peerName", 1)`), []string{"node/a.go:3 not a literal in snake_case"}},
		{"a key twice", Logs, in(doc, `log.Info("area.what", "peer", p, "error", err, "peer", q)`), []string{"node/a.go:3 the key peer twice"}},
		{"the node's own name", Logs, in(doc, call+`; log.Info("area.what", "node", n)`), []string{"node/a.go:3 the key node twice"}},
		{"an event that is not documented", Logs, in(doc, call+`; log.Info("area.other")`), []string{logsFile + ":1 area.other is not in the table"}},
		{"a key that is not documented", Logs, in(doc, `log.Info("area.what", "peer", p, "error", err, "bytes", n)`), []string{logsFile + ":1 with the keys peer, error, bytes"}},
		{"an event that is gone", Logs, in(doc+"| `area.gone` | info | – | x |\n", call), []string{logsFile + ":4 the source has area.gone"}},
		{"a key that is gone", Logs, in(doc+"| `bytes` | x |\n", call), []string{logsFile + ":1 no event has it"}},
		{"a key without a meaning", Logs, in("| `area.what` | info | `peer`, `error` | x |\n| `peer` | x |\n", call), []string{logsFile + ":1 error is not in the table of keys"}},
	}
}
