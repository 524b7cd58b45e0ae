package guard

import nornv1 "github.com/norn-dev/norn/proto/norn/v1"

// Contents tells whether a filter asks what tasks contain. That takes [Read]: what is looked
// for could be guessed. Kind and tags are no contents, as the queue is none.
func Contents(f *nornv1.Filter) bool {
	return f.GetErrorContains() != "" || len(f.GetHeaders()) > 0 || f.GetPayloadContains() != "" || len(f.GetPayloadPaths()) > 0
}
