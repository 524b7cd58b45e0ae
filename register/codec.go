package register

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/ring"
)

// Limits of a request on the wire.
const (
	maxCells = ring.MaxPartitions
	maxTable = ring.MaxPartitions*(MaxCohort+1) + MaxNodes // different members named in one encoding
	maxList  = 1 << 14                                     // changes of one kind in a request
)

// table numbers the members of an encoding, so that a cell takes a few bytes
// and not a few hundred.
type table struct {
	list  []Member
	known map[Member]uint64
}

func (t *table) ref(w *wire.Writer, m Member) {
	n, ok := t.known[m]
	if !ok {
		if t.known == nil {
			t.known = make(map[Member]uint64)
		}
		n = uint64(len(t.list))
		t.known[m], t.list = n, append(t.list, m)
	}
	w.Uint(n)
}

// AppendMember writes a member.
func AppendMember(w *wire.Writer, m Member) {
	w.String(m.Node)
	w.Fixed(m.Incarnation[:])
}

// ReadMember reads what [AppendMember] wrote.
func ReadMember(r *wire.Reader) (m Member) {
	m.Node = r.String(MaxName)
	r.Fixed(m.Incarnation[:])
	return m
}

// put writes the table and, behind it, the body that refers to it.
func (t *table) put(w *wire.Writer, body []byte) {
	w.Uint(uint64(len(t.list)))
	for _, m := range t.list {
		AppendMember(w, m)
	}
	w.Fixed(body)
}

func readTable(r *wire.Reader) (t table) {
	n := r.Count(maxTable)
	for range n {
		if t.list = append(t.list, ReadMember(r)); r.Failed() {
			break
		}
	}
	return t
}

func (t *table) get(r *wire.Reader) Member {
	n := r.Uint()
	if n >= uint64(len(t.list)) {
		r.Fail()
		return Member{}
	}
	return t.list[n]
}

func (t *table) cell(w *wire.Writer, c *Cell) {
	w.Uint(c.Epoch)
	w.Uint(c.Nonce)
	w.Uint(uint64(len(c.Cohort)))
	for _, m := range c.Cohort {
		t.ref(w, m)
	}
	t.ref(w, c.Leader)
}

func (t *table) readCell(r *wire.Reader) (c Cell) {
	c.Epoch, c.Nonce = r.Uint(), r.Uint()
	n := r.Count(MaxCohort)
	if n > 0 {
		c.Cohort = make([]Member, n)
	}
	for i := range c.Cohort {
		c.Cohort[i] = t.get(r)
	}
	c.Leader = t.get(r)
	return c
}

func appendNode(w *wire.Writer, n *Node) {
	AppendMember(w, n.Member)
	w.Uint(n.Version)
	w.Uint(n.Changed)
	w.Uint(uint64(len(n.Addresses)))
	for _, a := range n.Addresses {
		w.String(a)
	}
	w.String(n.Zone)
	w.Uint(uint64(n.Weight))
	w.Byte(byte(n.Status))
}

func readNode(r *wire.Reader) (n Node) {
	n.Member = ReadMember(r)
	n.Version, n.Changed = r.Uint(), r.Uint()
	for range r.Count(MaxAddresses) {
		n.Addresses = append(n.Addresses, r.String(MaxAddress))
	}
	n.Zone = r.String(MaxName)
	weight := r.Uint()
	if n.Weight = uint32(weight); uint64(n.Weight) != weight {
		r.Fail()
	}
	n.Status = NodeStatus(r.Byte())
	return n
}

// stateVersion is the first byte of a state. It goes up when the fields change
// in a way that an older reader would misread. A state of version 1 has no
// schedules, one of version 2 no names, one of version 3 none of queues that are gone, one of
// version 4 nothing of who may do what: it is written as long as there is nothing.
const (
	stateVersion       = 5
	stateWithoutAccess = 4
)

// AppendState writes a state. Equal states give equal bytes.
func AppendState(w *wire.Writer, s *State) {
	var t table
	var body wire.Writer
	body.Fixed(s.Cluster.ID[:])
	body.Uint(uint64(s.Cluster.Partitions))
	body.Uint(uint64(s.Cluster.Replicas))
	body.Uint(s.Revision)
	body.Uint(s.Generation)
	body.Uint(uint64(len(s.Nodes)))
	for i := range s.Nodes {
		appendNode(&body, &s.Nodes[i])
	}
	body.Uint(uint64(len(s.Cells)))
	for i := range s.Cells {
		t.cell(&body, &s.Cells[i])
	}
	body.Uint(uint64(len(s.Queues)))
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		body.String(name)
		body.Uint(s.Queues[name].Version)
		body.Bytes(s.Queues[name].Settings)
	}
	body.Uint(s.Plan.Version)
	body.Bytes(s.Plan.Data)
	body.Uint(uint64(len(s.Values)))
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		body.String(name)
		body.Uint(s.Values[name].Version)
		body.Bytes(s.Values[name].Data)
	}
	// What may be long has no members of the table, and is written where it
	// stays: with 100,000 schedules a second copy would be 15 MB, and so many
	// more to grow it.
	w.B = slices.Grow(w.B, len(body.B)+s.Schedules.encoded()+1<<10)
	version := byte(stateVersion)
	if s.AccessAt == 0 {
		version = stateWithoutAccess
	}
	w.Byte(version)
	t.put(w, body.B)
	appendSchedules(w, s)
	appendNames(w, s)
	w.Uint(s.QueuesGone)
	if version > stateWithoutAccess {
		appendAccess(w, s)
	}
}

// ReadState reads what [AppendState] wrote, now or in an earlier version. The
// reader fails on anything else.
func ReadState(r *wire.Reader) (s State) {
	version := r.Byte()
	switch {
	case version == 0:
		r.Fail()
	case version > stateVersion:
		r.Newer()
	}
	t := readTable(r)
	r.Fixed(s.Cluster.ID[:])
	s.Cluster.Partitions = int(min(r.Uint(), maxCells+1))
	s.Cluster.Replicas = readReplicas(r)
	s.Revision, s.Generation = r.Uint(), r.Uint()
	for range r.Count(MaxNodes + MaxRemoved) {
		n := readNode(r)
		if k := len(s.Nodes); k > 0 && s.Nodes[k-1].Compare(n.Member) >= 0 {
			r.Fail()
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.Members = members(s.Nodes)
	if n := r.Count(maxCells); n != s.Cluster.Partitions {
		r.Fail()
	} else {
		s.Cells = make([]Cell, n)
	}
	for i := range s.Cells {
		s.Cells[i] = t.readCell(r)
	}
	if n := r.Count(MaxNamed); n > 0 {
		s.Queues = make(map[string]Queue)
		for last := ""; n > 0; n-- {
			name := named(r, &last, len(s.Queues))
			s.Queues[name] = Queue{Version: r.Uint(), Settings: r.Bytes(MaxData)}
		}
	}
	s.Plan = Value{Version: r.Uint(), Data: r.Bytes(MaxPlan)}
	if n := r.Count(MaxNamed); n > 0 {
		s.Values = make(map[string]Value)
		for last := ""; n > 0; n-- {
			name := named(r, &last, len(s.Values))
			s.Values[name] = Value{Version: r.Uint(), Data: r.Bytes(MaxData)}
		}
	}
	if version > 1 {
		readSchedules(r, &s)
	}
	if version > 2 {
		readNames(r, &s)
	}
	if version > 3 {
		s.QueuesGone = r.Uint()
	}
	if version > stateWithoutAccess {
		readAccess(r, &s)
	}
	return s
}

// named reads a name that must come after the last one.
func named(r *wire.Reader, last *string, before int) string {
	name := r.String(MaxName)
	if before > 0 && name <= *last {
		r.Fail()
	}
	*last = name
	return name
}

// The first byte of a request, above 1: what it is about beside what every build knows.
const (
	requestVersion   = 1
	requestSchedules = 1 // added for schedules
	requestNames     = 2 // for names
	requestReplicas  = 4 // for the number of replicas
	requestAccess    = 8 // and for who may do what
)

// AppendRequest writes a request but for its tag, which is the asker's own. Of
// an old cell it writes what is compared.
func AppendRequest(w *wire.Writer, q *Request) {
	var t table
	var body wire.Writer
	body.Uint(uint64(len(q.Changes)))
	for i := range q.Changes {
		c := &q.Changes[i]
		body.Uint(uint64(c.Partition))
		body.Uint(c.Old.Epoch)
		body.Uint(c.Old.Nonce)
		t.cell(&body, &c.New)
	}
	body.Uint(uint64(len(q.Queues)))
	for _, c := range q.Queues {
		body.String(c.Name)
		body.Uint(c.Old)
		body.Bytes(c.Settings)
	}
	body.Uint(uint64(len(q.Nodes)))
	for i := range q.Nodes {
		body.Uint(q.Nodes[i].Old)
		appendNode(&body, &q.Nodes[i].New)
	}
	body.Uint(uint64(len(q.Values)))
	for _, c := range q.Values {
		body.String(c.Name)
		body.Uint(c.Old)
		body.Bytes(c.Data)
	}
	body.Bool(q.Plan != nil)
	if q.Plan != nil {
		body.Uint(q.Plan.Old)
		body.Bytes(q.Plan.Data)
	}
	version := byte(requestVersion)
	if len(q.Names) > 0 {
		version += requestNames
		appendNameChanges(&body, q)
	}
	if q.schedules() {
		version += requestSchedules
		appendScheduleChanges(&body, q)
	}
	if q.Replicas != nil {
		version += requestReplicas
		appendReplicasChange(&body, q.Replicas)
	}
	if len(q.Access) > 0 {
		version += requestAccess
		appendAccessChanges(&body, q)
	}
	w.Byte(version)
	t.put(w, body.B)
}

// ReadRequest reads what [AppendRequest] wrote, now or in an earlier version. The
// reader fails on anything else.
func ReadRequest(r *wire.Reader) (q Request) {
	version := r.Byte()
	switch {
	case version < requestVersion:
		r.Fail()
	case version > requestVersion+requestSchedules+requestNames+requestReplicas+requestAccess:
		r.Newer()
	}
	t := readTable(r)
	for range r.Count(maxList) {
		p := r.Uint()
		if p >= maxCells {
			r.Fail()
		}
		c := Change{Partition: ring.Partition(p)}
		c.Old.Epoch, c.Old.Nonce = r.Uint(), r.Uint()
		c.New = t.readCell(r)
		q.Changes = append(q.Changes, c)
	}
	for range r.Count(maxList) {
		q.Queues = append(q.Queues, QueueChange{Name: r.String(MaxName), Old: r.Uint(), Settings: r.Bytes(MaxData)})
	}
	for range r.Count(maxList) {
		q.Nodes = append(q.Nodes, NodeChange{Old: r.Uint(), New: readNode(r)})
	}
	for range r.Count(maxList) {
		q.Values = append(q.Values, ValueChange{Name: r.String(MaxName), Old: r.Uint(), Data: r.Bytes(MaxData)})
	}
	if r.Bool() {
		q.Plan = &PlanChange{Old: r.Uint(), Data: r.Bytes(MaxPlan)}
	}
	more := version - requestVersion
	if more&requestNames != 0 {
		readNameChanges(r, &q)
	}
	if more&requestSchedules != 0 {
		readScheduleChanges(r, &q)
	}
	if more&requestReplicas != 0 {
		q.Replicas = readReplicasChange(r)
	}
	if more&requestAccess != 0 {
		readAccessChanges(r, &q)
	}
	return q
}
