package run

// What the simulator itself finds, beside what packages check and witness find.
const (
	Audit       = "audit"       // an index, a counter or a hash is not what the facts say (I8)
	Convergence = "convergence" // replicas differ though nothing goes wrong any more (I8)
	Pages       = "pages"       // an answer in pages: of whatever size, each item is on one of them, in the same order, whichever nodes are asked
	Drowsiness  = "drowsiness"  // a request waits beside work
	Workers     = "workers"     // a name has one worker, a worker gets no more than it has room for, and when nothing goes wrong some node has its session
)
