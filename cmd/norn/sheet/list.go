package sheet

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// List shows one task per row.
func List(w *render.Writer) *render.List[*nornv1.Task] {
	now := time.Now()
	return render.NewList(w, func(t *nornv1.Task) jsonform.Value { return jsonform.Of(t) },
		render.Column[*nornv1.Task]{Head: "id", Cell: (*nornv1.Task).GetId},
		render.Column[*nornv1.Task]{Head: "queue", Cell: (*nornv1.Task).GetQueue},
		render.Column[*nornv1.Task]{Head: "kind", Cell: func(t *nornv1.Task) string { return render.Text([]byte(t.GetKind()), 32) }},
		render.Column[*nornv1.Task]{Head: "state", Cell: func(t *nornv1.Task) string { return jsonform.EnumName(t.GetState()) }},
		render.Column[*nornv1.Task]{Head: "priority", Cell: func(t *nornv1.Task) string { return fmt.Sprint(t.GetPriority()) }},
		render.Column[*nornv1.Task]{Head: "attempts", Cell: func(t *nornv1.Task) string { return fmt.Sprintf("%d/%d", t.GetAttempts(), t.GetMaxAttempts()) }},
		render.Column[*nornv1.Task]{Head: "age", Cell: func(t *nornv1.Task) string { return render.Age(t.GetCreatedAt().AsTime(), now) }},
		render.Column[*nornv1.Task]{Head: "starts in", Cell: func(t *nornv1.Task) string { return render.Until(t.GetNotBefore().AsTime(), now) }},
		render.Column[*nornv1.Task]{Head: "payload", Cell: func(t *nornv1.Task) string { return render.Text(t.GetPayload(), 32) }},
		render.Column[*nornv1.Task]{Head: "error", Cell: func(t *nornv1.Task) string {
			message, stack := proto.SplitError(t.GetError())
			first, _, _ := strings.Cut(message, "\n")
			if stack != "" {
				return render.Text([]byte(first), 80)
			}
			_, last, _ := cutLast(strings.TrimSpace(message), "\n")
			return render.Text([]byte(last), 40)
		}},
	)
}

// cutLast cuts around the last sep; without one all is after it.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}
