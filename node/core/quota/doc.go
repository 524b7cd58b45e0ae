// Package quota holds tenants to their limits, where the limits of a node are held.
//
// Contract. Whose a name is follows from its first part, with the slash: a [Tenant] is found by
// that, and a name is never compared with all tenants. What a tenant uses is counted as it
// changes, by [tally.Tally] and here, and never added up for a request. Tasks, their bytes, queues and
// schedules are limits of the cluster, of which this node knows what it keeps and what others
// have told; claims and waits are those of this node. A tenant may get a little over a limit of the
// cluster when several nodes take requests at the same time.
package quota
