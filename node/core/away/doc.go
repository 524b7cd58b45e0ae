// Package away keeps tasks from workers that have no handler for them, while others may have
// them.
//
// Contract. It is a hint in the memory of the leader: another leader does not have it, and what has
// no room in it is not kept away. Then the worker is granted the task again, gives it back again,
// and has it put off. At most [MostTasks] of one worker are kept, and 65,536 of all. Nothing of it
// is written, and no grant is owed to anybody because of it.
package away
