package web

import (
	"net/http"
	"strconv"

	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Errors are problems of RFC 9457: type, title, status and detail stand beside the error
// as the wire has it.
const (
	problemType   = "application/problem+json"
	problemSchema = "Problem"
	// problemURN and the kind of an error are the type of its problem.
	problemURN = "urn:norn:error:"
)

// problemFields are what an answer with an error has besides.
func problemFields(status int, err *proto.Error) []jsonform.Field {
	return []jsonform.Field{
		field("type", text(problemURN+jsonform.EnumName(err.Kind))), field("title", text(http.StatusText(status))),
		field("status", jsonform.Number(float64(status))), field("detail", text(err.Message)),
	}
}

// problem is the schema of an answer with an error.
func problem() jsonform.Value {
	said := func(kind, says string) jsonform.Value {
		return jsonform.Object(field("type", text(kind)), field("description", text(says)))
	}
	return jsonform.Object(
		field("description", text("What failed (RFC 9457). Where one item of a request failed, its results are there, too.")),
		field("type", text("object")),
		field("properties", jsonform.Object(
			field("type", said("string", problemURN+"KIND, with the kind of the error.")), field("title", said("string", "The status in words.")),
			field("status", said("integer", "The status.")), field("detail", said("string", "What failed, and what to do: the error's message.")),
			field("error", ref("Error").With("description", text("The error as the wire has it."))),
		)),
		field("required", jsonform.List(text("type"), text("title"), text("status"), text("detail"), text("error"))),
	)
}

// statuses are those of errors, with what they mean.
//
// Long because: it is a table.
func statuses() []struct {
	status int
	says   string
} {
	return []struct {
		status int
		says   string
	}{
		{http.StatusBadRequest, "The request breaks a rule: sending it again cannot help."},
		{http.StatusUnauthorized, "The token is missing or wrong."},
		{http.StatusForbidden, "Plain HTTP where there is TLS, a page of another site, a name that is not this node's."},
		{http.StatusNotFound, "There is none with this name or ID."},
		{http.StatusRequestTimeout, "The body did not come in time."},
		{http.StatusConflict, "The state of the task, claim, queue or schedule does not allow it."},
		{http.StatusRequestEntityTooLarge, "The body is too large."},
		{http.StatusUnsupportedMediaType, "The body is no plain JSON."},
		{http.StatusTooManyRequests, "A limit is reached; try again after Retry-After."},
		{http.StatusInternalServerError, "A bug or damage in the server."},
		{http.StatusServiceUnavailable, "The node, quorum or leader needed is not there right now; try again, or another node."},
		{http.StatusGatewayTimeout, "There was no answer in time; the outcome of a write is unknown."},
		{http.StatusInsufficientStorage, "The disk is nearly full: enqueues are refused, completions are taken."},
	}
}

// failures are the statuses that an operation may fail with.
func failures(rt *route) (all []int) {
	for _, s := range statuses() {
		reads := rt.verb == get
		switch s.status {
		case http.StatusNotFound:
			if rt.field == "" && reads && rt.method != nornv1.Method_METHOD_KEY && rt.method != nornv1.Method_METHOD_COUNT {
				continue
			}
		case http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusInsufficientStorage:
			if reads {
				continue
			}
		}
		all = append(all, s.status)
	}
	return all
}

// responses are the answers with errors, once for all operations.
func responses() (all []jsonform.Field) {
	for _, s := range statuses() {
		one := []jsonform.Field{field("description", text(s.says))}
		if s.status == http.StatusTooManyRequests || s.status == http.StatusServiceUnavailable {
			one = append(one, field("headers", jsonform.Object(field("Retry-After", jsonform.Object(
				field("description", text("Seconds until another try makes sense.")), field("schema", jsonform.Object(field("type", text("integer")))))))))
		}
		all = append(all, field(strconv.Itoa(s.status), jsonform.Object(append(one, field("content", content(problemType, ref(problemSchema))))...)))
	}
	return all
}
