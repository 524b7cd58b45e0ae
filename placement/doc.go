// Package placement keeps the planned placement and the cells of the register
// in order: what the register's leader does, and what nodes derive from the
// register about the partitions that they hold, copy and hand over.
//
// A [View] is one state of the register with the hint who is alive; questions
// about cells are pure functions of it. A [Driver] is the machine of the node
// whose member leads the register: it is told states and hints, and gives
// compare-and-sets. It is told of no answers: what came of a request is in the
// next state, and one that shows nowhere is asked again after a pause. Wrong
// hints, two drivers at once and requests that arrive late cost epochs and
// time only, because every change is a compare-and-set of one value.
//
// # Who changes what
//
// The plan (package ring) says who shall hold a partition, the cell who does.
// Cells follow the plan one member at a time. Whoever is planned and not in
// the cohort yet, a newcomer, copies the partition first ([View.Copy],
// [View.Copied]) and then asks for its own admission ([View.Admit]). All else
// is the driver's: cohorts of new cells, the plan, leaders of the dead and of
// those who leave, the way back to the preferred leader, members that nobody
// replaces, and nodes that have left.
//
// The first plan of a cluster that is being made with several nodes waits for them, so that each
// cell begins with all of its members: nothing is copied.
//
// # The rule of cohorts
//
// A cohort gains at most one member by a change and loses at most one, and
// those that stay meet every majority of the cohort before: of n they are at
// least [Enough](n), which is n - floor(n/2), because two sets of n members
// meet if together they are more than n. So whatever a majority has
// acknowledged is held by somebody who stays, and of an odd cohort a majority
// stays.
//
//   - Who counts as staying: members that are not removed where a newcomer
//     comes in, for it holds everything itself; living ones where nobody does,
//     so that a majority of what is left lives. Both are the same number:
//     Enough(n) is the majority of n - 1.
//   - Copied means compared with a majority of the cohort, so that the newcomer
//     holds whatever a majority has acknowledged, also of the cohort that had
//     one member more before. Of an even number half will do where the others
//     are removed. Where fewer than that are left, that is of three members
//     one, nothing moves: it may lack what only the removed ones have seen. Then
//     an operator decides ([Lost]).
//   - Where dropping breaks the rule the newcomer is only added: a partition of
//     one replica moves by a cohort of two. What is too many then is dropped
//     without a newcomer, once all who are planned are in.
//   - Without a newcomer a cohort loses the next member [Config.Settle] after
//     its last change, and after the last of those that stay came alive, at the
//     earliest: replicas compare what they hold in between, so that everybody
//     who stays has everything again. Without that, one loss after the other,
//     each within the rule, would leave a member that never had it. Members that
//     were given up ([Lost]) go without that pause where one or two are left but for
//     them: these are a majority only together, and have nothing to wait for.
//
// What is acknowledged between the newcomer's last comparisons and its admission
// is held by those who stay, and by the one that goes, which hands it over
// before it deletes anything; it may be on no majority of the new cohort until
// replicas have compared. So a newcomer that has waited compares again right
// before it asks. To close the gap takes the votes of an election (design 7.2).
//
// # Leaders
//
// The leader of a cell is the member it names, or the first of the cohort
// where it names none of it ([Leading]). One that is removed, or has not been
// alive for [Config.DeadAfter] while this driver has led, loses the cell to the
// preferred leader if that lives, or else to the living member that leads
// least; where nobody lives nothing changes. Leadership goes back to the preferred
// leader once it has been alive without a break for [Config.StableFor], twice
// as long after each further time that it was lost, up to 64 times, and
// [Config.Returns] cells at most per [Config.ReturnEvery], [Config.AtOnce] of them
// at one moment, as a cell on its way has no leader for some syncs. One that has not
// got there after a second keeps no others waiting.
//
// # Leaving nodes
//
// A node that leaves owns nothing planned, so its cells move away, and it leads
// only what nobody else can. Once no cell and no plan names it, it hands over
// what it still has and asks for its removal ([View.Leave]). The driver removes
// it after [Config.Linger] if it does not, but no dead one and none while a
// partition takes no tasks: it may have the only copy of something. The last
// nodes stay, whatever they were told.
package placement
