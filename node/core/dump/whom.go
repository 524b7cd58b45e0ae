package dump

import (
	"slices"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
)

// Name is what a member is called in answers: its name alone may be another one's tomorrow.
func Name(at register.Member) string { return at.Node + "/" + at.Incarnation.String() }

// Whom gives who of a cohort is asked, as far as they are up, and how many have to answer: a
// majority, the node itself first, as what it has need not travel; one where one is enough.
func Whom(m *nornv1.BackupRequest, cohort []register.Member, self register.Member, up func(register.Member) bool) (ask []register.Member, need int) {
	if need = quorum.Majority(len(cohort)); m.GetOnly() != "" || m.GetDivide() > 0 {
		need = 1
	}
	for _, at := range cohort {
		switch {
		case !up(at) || m.GetOnly() != "" && m.GetOnly() != Name(at):
		case at == self:
			ask = slices.Insert(ask, 0, at)
		default:
			ask = append(ask, at)
		}
	}
	if !m.GetWholeCohort() {
		ask = ask[:min(need, len(ask))]
	}
	return ask, need
}
