package nornv1

import "embed"

// Sources are the files that the messages are generated from, with what they say of each
// field: the descriptors have lost it.
//
//go:embed *.proto
var Sources embed.FS
